import { type PathsInput, type PlannedPath, readPaths } from '../../../src/domain/activation/read-paths.ts';
import { NO_FLOORS } from '../../../src/domain/adoption/floors.ts';
import { type Assessment, assess } from '../../../src/domain/assess/assess.ts';
import { type Decision, decide } from '../../../src/domain/decide/decide.ts';
import {
  type Artifact,
  artifactLayers,
  type Contents,
  type Image,
  type Layer,
  type Payload,
  type VerifiedBundle,
} from '../../../src/domain/model/bundle.ts';
import { type Digest, hexOf } from '../../../src/domain/model/digest.ts';
import type { RuntimeImage, RuntimeObservation } from '../../../src/domain/model/image.ts';
import type { NodeFacts } from '../../../src/domain/model/machine.ts';
import type { FoundBundle, Medium, MediumState, MissingBlob } from '../../../src/domain/model/medium.ts';
import { defaultSettings, type Policy } from '../../../src/domain/settings/settings.ts';
import type { Effect } from '../../../src/domain/state/effect.ts';
import { NO_HOOKS } from '../../../src/domain/state/hook.ts';
import type { Memory, RunningTask } from '../../../src/domain/state/memory.ts';
import type { PinLedger } from '../../../src/domain/state/release-record.ts';
import type { Observed, Stored, StoredBundle } from '../../../src/domain/state/state.ts';
import { NO_ROTATION } from '../../../src/domain/trust/approval.ts';
import type { TrustInForce } from '../../../src/domain/trust/trust-in-force.ts';
import { digestOf } from '../../../src/platform/digest.ts';

/** Noon of a working day; every scenario starts then. */
export const NOON = Date.parse('2026-03-10T12:00:00Z');
/** A program that is older than every clock, on a node in no special zone. */
export const FACTS: NodeFacts = { builtAt: 0, machineId: '0123456789abcdef0123456789abcdef', timeZone: 'UTC' };
export const MIB = 1024 ** 2;
export const GIB = 1024 ** 3;

export { digestOf };

/** A layer called `name`, by default of 10 MiB that take 25 MiB on disk. */
export function layer(name: string, over: Partial<Layer> = {}): Layer {
  return {
    digest: digestOf(`layer ${name}`),
    sizeBytes: 10 * MIB,
    diffId: digestOf(`diff ${name}`),
    uncompressedBytes: 24 * MIB,
    diskBytes: 25 * MIB,
    inodes: 100,
    ...over,
  };
}

/** The reference of the image that a scenario calls `name`. */
export function referenceOf(name: string): string {
  return `quay.example.com/ocp/${name}@${digestOf(`image ${name}`)}`;
}

/** The artifact that a scenario calls `name`. */
export function artifactOf(name: string, version = '4.13.7', layers: readonly number[] = []): Artifact {
  const digest = digestOf(`artifact ${name}`);
  return {
    reference: `models.example.com/${name}@${digest}`,
    digest,
    mediaType: 'application/vnd.oci.image.manifest.v1+json',
    type: 'application/vnd.example.model',
    tags: [`models.example.com/${name}:${version}`],
    config: { digest: digestOf(`config of ${name}`), size: 2 },
    layers,
  };
}

/** All blobs of the artifacts of a bundle. */
export function artifactBlobs({ contents }: Pick<VerifiedBundle, 'contents'>): Set<Digest> {
  return new Set([
    ...(contents.artifacts ?? []).flatMap(({ digest, config }) => [digest, config.digest]),
    ...artifactLayers(contents).map(({ digest }) => digest),
  ]);
}

/** The key id of the key that a scenario calls `name`. */
export function keyIdOf(name: string): string {
  return hexOf(digestOf(`key ${name}`));
}

/** What a scenario says about a bundle; the rest has defaults. */
export interface BundleSpec extends Partial<Omit<Payload, 'index' | 'contents' | 'totals'>> {
  /**
   * Name of each image and the names of its layers. Default: `etcd` and `api`, which share `base`.
   */
  readonly images?: Readonly<Record<string, readonly string[]>>;
  /** Name of each artifact and the names of its layers. Default: none. */
  readonly artifacts?: Readonly<Record<string, readonly string[]>>;
  /** What differs from {@link layer} for a layer name. */
  readonly layers?: Readonly<Record<string, Partial<Layer>>>;
  /** What differs for an image name; `tags` by default `quay.example.com/ocp/NAME:VERSION`. */
  readonly imageOver?: Readonly<Record<string, Partial<Image>>>;
  readonly signedBy?: readonly string[];
}

/** A verified bundle, by default `ocp 4.13.7` with sequence 7. */
export function verified(spec: BundleSpec = {}): VerifiedBundle {
  const {
    images = { etcd: ['base', 'etcd'], api: ['base', 'api'] },
    artifacts,
    layers = {},
    imageOver = {},
    signedBy,
    ...over
  } = spec;
  const version = over.version ?? '4.13.7';
  const names = [...new Set(Object.values({ ...images, ...artifacts }).flat())];
  const contents: Contents = {
    layers: names.map((name) => layer(name, layers[name])),
    images: Object.entries(images).map(([name, of]) => ({
      reference: referenceOf(name),
      digest: digestOf(`image ${name}`),
      mediaType: 'application/vnd.oci.image.manifest.v1+json',
      tags: [`quay.example.com/ocp/${name}:${version}`],
      component: name,
      pin: true,
      layers: of.map((one) => names.indexOf(one)),
      ...imageOver[name],
    })),
    ...(artifacts !== undefined && {
      artifacts: Object.entries(artifacts).map(([name, of]) =>
        artifactOf(
          name,
          version,
          of.map((one) => names.indexOf(one)),
        ),
      ),
    }),
  };
  const payload: Payload = {
    schemaVersion: 1,
    name: 'ocp',
    version,
    arch: 'amd64',
    sequence: 7,
    created: '2026-03-01T08:00:00Z',
    index: { digest: digestOf('index'), size: 1 },
    contents: { digest: digestOf('contents'), size: 1 },
    totals: {
      images: contents.images.length,
      blobs: contents.layers.length + 2 * contents.images.length,
      sizeBytes: contents.layers.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
      diskBytes: contents.layers.reduce((sum, { diskBytes }) => sum + diskBytes, 0),
      inodes: 100,
    },
    ...over,
  };
  const bundleId = digestOf(JSON.stringify([payload, contents]));
  const signers = signedBy ?? ['factory-2026'];
  const signerKeyIds = signers.map(keyIdOf).sort();
  return { bundleId, payload, contents, signedBy: signers, signerKeyIds };
}

/** A bundle that was adopted at noon. */
export function stored(
  bundle: VerifiedBundle = verified(),
  marks: Partial<Omit<StoredBundle, keyof VerifiedBundle>> = {},
): StoredBundle {
  return { ...bundle, adoptedAt: NOON, ...marks };
}

/** A verified bundle as found on a medium. */
export function found(
  bundle: VerifiedBundle = verified(),
  missing: readonly MissingBlob[] = [],
): Extract<FoundBundle, { kind: 'verified' }> {
  const { name, version, arch } = bundle.payload;
  return { kind: 'verified', path: `stickpin/${name}-${version}-${arch}`, bundle, documents: [], missing };
}

/** A bundle that is refused. */
export function refused(message = 'signature by unknown key 5f0c', code = 'bundle/signature'): FoundBundle {
  return { kind: 'rejected', path: 'stickpin/ocp-4.13.7-amd64', reason: { code, message } };
}

/** A medium; given bundles, it is read. */
export function medium(label: string, state: MediumState | readonly FoundBundle[]): Medium {
  const isState = (value: MediumState | readonly FoundBundle[]): value is MediumState => 'kind' in value;
  return {
    mediumId: `7-${label}`,
    label,
    isDropFolder: false,
    state: isState(state) ? state : { kind: 'read', bundles: state, trustRevision: 'keys-1' },
  };
}

/** An image of a bundle as the runtime lists it once it was pulled by digest. */
export function listed(reference: string, pinned = true, repoTags: readonly string[] = []): RuntimeImage {
  return { imageId: digestOf(`id ${reference}`), repoTags, repoDigests: [reference], pinned };
}

/** A reachable runtime with these images, 100 GiB of disk and 60 GiB free. */
export function reachable(
  over: Partial<Extract<RuntimeObservation, { kind: 'reachable' }>> = {},
): Extract<RuntimeObservation, { kind: 'reachable' }> {
  const images = over.images ?? [];
  return {
    kind: 'reachable',
    name: 'cri-o 1.36.3',
    images,
    filesystem: { path: '/var/lib/containers', totalBytes: 100 * GIB, freeBytes: 60 * GIB },
    renderedPins: images.flatMap((image) => image.repoDigests),
    // Images of releases that a scenario does not speak of are nobody's.
    foundPins: [],
    renderedMirrors: [],
    ...over,
  };
}

/** All images of a bundle, present and pinned, with its tags. */
export function allListed(bundle: VerifiedBundle): RuntimeImage[] {
  return bundle.contents.images.map(({ reference, tags }) => listed(reference, true, tags));
}

/**
 * What one round observes, and what the engine remembers then, as one record: a test hands it on as
 * both.
 */
export type Scene = Observed & Memory;

/**
 * Nothing is plugged in, nothing runs, nothing is remembered, and a runtime without images is
 * reachable.
 */
export function observation(over: Partial<Scene> = {}): Scene {
  return {
    now: NOON,
    clockSynchronised: true,
    facts: FACTS,
    arch: 'amd64',
    trustRevision: 'keys-1',
    revocations: { keyIds: [], revocationsUnreadable: false },
    trust: TRUST,
    media: [],
    localBlobs: new Set(),
    copyingBytes: undefined,
    keeping: new Map(),
    exhaustedBundles: [],
    lastCarriers: new Map(),
    arrivals: new Map(),
    runtime: reachable(),
    running: [],
    failures: [],
    pinsRequested: undefined,
    pinLedger: LEDGER,
    unenforcedPins: [],
    tagsGiven: [],
    areMediaUnread: false,
    floors: NO_FLOORS,
    hooks: NO_HOOKS,
    stateProblems: [],
    containers: undefined,
    boot: { bootId: 'boot-1', uptimeMs: 3_600_000 },
    obstacle: undefined,
    ...over,
  };
}

/** No pin is unclaimed. */
export const LEDGER: PinLedger = { releases: [], unclaimed: [], givenUp: [] };

/** What bundles are judged by in a scenario: one key of the folder. */
export const TRUST: TrustInForce = {
  require: 'signature',
  threshold: 1,
  keys: [{ name: 'factory-2026', keyId: keyIdOf('factory-2026') }],
  revoked: [],
  problems: [],
  revocationsUnreadable: false,
};

/** The settings of a node on which nothing is configured. */
export const POLICY: Policy = defaultSettings;
/** {@link POLICY} with mirrors only while something is loaded or activated. */
export const UNSERVED: Policy = { ...POLICY, serve: { ...POLICY.serve, activated: 'off' } };

/** The path of the stream `ocp` of a node that adopted these releases. */
export function pathWith(bundles: readonly StoredBundle[] = [], over: Partial<PathsInput> = {}): PlannedPath {
  const paths = readPaths({
    releases: bundles,
    arriving: [],
    speakers: bundles,
    running: undefined,
    policy: POLICY,
    now: NOON,
    ...over,
  });
  return paths.get('ocp') ?? { ...EMPTY_PATH, stream: 'ocp' };
}

const EMPTY_PATH: Omit<PlannedPath, 'stream'> = {
  scheme: undefined,
  position: undefined,
  floor: 0,
  releases: [],
  milestones: new Map(),
  time: NOON,
  allowDowngrade: false,
  allowEndOfLife: false,
  route: [],
};

/** The stored state of a node that adopted these bundles; of the rest nothing is stored. */
export function storedState(bundles: readonly StoredBundle[], over: Partial<Stored> = {}): Stored {
  return { bundles, verdicts: [], rotation: NO_ROTATION, ...over };
}

/**
 * The references that are to be pinned for these bundles, as {@link decide} wants them rendered.
 */
export function pinsOf(...bundles: readonly VerifiedBundle[]): string[] {
  const references = bundles.flatMap(({ contents }) =>
    contents.images.filter((image) => image.pin).map((image) => image.reference),
  );
  return [...new Set(references)].sort();
}

/** What a round concludes and decides. */
export interface Judged {
  readonly assessment: Assessment;
  readonly decision: Decision;
  /** The first bundle's assessment. */
  readonly first: Assessment['bundles'][number] | undefined;
}

/** Assesses and decides. */
export function judge(
  scene: Scene,
  bundles: readonly StoredBundle[] = [],
  policy: Policy = POLICY,
  over: Partial<Stored> = {},
): Judged {
  const assessment = assess(scene, scene, storedState(bundles, over), policy);
  return { assessment, decision: decide(scene, scene, assessment, policy), first: assessment.bundles[0] };
}

/**
 * Effects in a form that is easy to compare: `pull etcd`, `apply-pins 2`, `apply-mirrors …/etcd`.
 */
export function spoken(effects: readonly Effect[]): string[] {
  return effects.map((effect) => {
    switch (effect.kind) {
      case 'mount-medium':
      case 'read-medium':
        return `${effect.kind} ${effect.mediumId}`;
      case 'apply-pins':
        return `apply-pins ${effect.references.length}${effect.force ? ' by force' : ''}`;
      case 'apply-mirrors':
        return `apply-mirrors ${effect.repositories.map(lastPart).join(' ')}`.trim();
      case 'cancel':
        return effect.task.kind === 'pull' ? `cancel ${lastPart(effect.task.reference)}` : `cancel ${effect.task.kind}`;
      case 'start':
        return spokenTask(effect.task);
      default:
        return effect.kind;
    }
  });
}

function spokenTask(task: RunningTask): string {
  if (task.kind === 'pull') return `pull ${lastPart(task.reference)}`;
  return task.kind === 'activate' ? 'activate' : `restore-tags ${task.tags.map(lastPart).join(' ')}`;
}

/** A pull of the image that the scenario calls `name`. */
export function pullOf(bundle: VerifiedBundle, name: string): RunningTask {
  return { kind: 'pull', bundleId: bundle.bundleId, reference: referenceOf(name) };
}

function lastPart(text: string): string {
  return (text.split('@')[0] ?? '').split('/').at(-1) ?? '';
}
