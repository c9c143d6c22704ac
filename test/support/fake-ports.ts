import { NO_FLOORS } from '../../src/domain/adoption/floors.ts';
import type { Catalog } from '../../src/domain/decide/catalog.ts';
import type { FleetView } from '../../src/domain/fleet/node-status.ts';
import type { Pause } from '../../src/domain/fleet/pause.ts';
import { NO_SIGHTINGS, parseSightings, type Sightings, sightingsText } from '../../src/domain/fleet/sightings.ts';
import type { VerifiedBundle } from '../../src/domain/model/bundle.ts';
import type { ConditionMarks } from '../../src/domain/model/condition.ts';
import type { BundleId, Digest } from '../../src/domain/model/digest.ts';
import type {
  BootTime,
  ImageContent,
  ImageFilesystem,
  ImageUse,
  MirrorEffect,
  RuntimeContainer,
  RuntimeImage,
} from '../../src/domain/model/image.ts';
import type { NodeFacts } from '../../src/domain/model/machine.ts';
import type { FoundBundle, Medium, MediumState } from '../../src/domain/model/medium.ts';
import { isDiskTrouble } from '../../src/domain/preload/space.ts';
import type { StatusReport } from '../../src/domain/report/status-schema.ts';
import type { Policy } from '../../src/domain/settings/settings.ts';
import type { HookFailure, HookLedger } from '../../src/domain/state/hook.ts';
import type { TagGiven } from '../../src/domain/state/memory.ts';
import type { PinLedger } from '../../src/domain/state/release-record.ts';
import type { StoredBundle } from '../../src/domain/state/state.ts';
import {
  type KeyRotation,
  NO_ROTATION,
  type RejectedName,
  type Revocations,
  type Verdict,
} from '../../src/domain/trust/approval.ts';
import type { RevocationRecord } from '../../src/domain/trust/revocation-record.ts';
import type { EngineContext, EngineDependencies } from '../../src/engine/context.ts';
import { Engine } from '../../src/engine/loop/engine.ts';
import { EventRecorder } from '../../src/engine/reporting/event-recorder.ts';
import { Jobs } from '../../src/engine/tasks/jobs.ts';
import { AppError } from '../../src/platform/app-error.ts';
import type { Clock } from '../../src/platform/clock.ts';
import { digestOf } from '../../src/platform/digest.ts';
import type { MediaPort } from '../../src/ports/media.ts';
import type { BootMark, ContainersPort, ContentPort, RuntimePort } from '../../src/ports/runtime.ts';
import type { EventRow, StateStore, Store } from '../../src/ports/state.ts';
import type { BlobFlow } from '../../src/ports/transfers.ts';
import { FACTS, found, LEDGER, NOON, POLICY, storedState, TRUST } from './daemon/scenario.ts';
import { createRecordingLog, type RecordingLog } from './recording-log.ts';

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

/** A clock that stands until it is told to go on. Starts at {@link NOON}. */
export interface VirtualClock extends Clock {
  /**
   * Lets everything that waits for nothing but the processor go on, then `ms` pass, timer by timer.
   */
  advance(ms: number): Promise<void>;
  /** Sets the wall clock back or forth; durations don't notice. */
  jump(ms: number): void;
}

/**
 * Makes a {@link VirtualClock}; `work` counts something that a hot loop would make grow without
 * end.
 */
export function createVirtualClock(work: () => number = () => 0): VirtualClock {
  let elapsed = 0;
  let skew = 0;
  const timers = new Set<{ at: number; fire: () => void }>();

  async function settle(): Promise<void> {
    const before = work();
    for (let quiet = 0, last = before; quiet < 5; ) {
      await turn();
      quiet = work() === last ? quiet + 1 : 0;
      last = work();
      if (last - before > 200) throw new Error(`hot loop: ${last - before} rounds in no time`);
    }
  }

  return {
    now: () => NOON + skew + elapsed,
    monotonic: () => elapsed,
    sleep: (ms, signal) =>
      new Promise((resolve, reject) => {
        signal.throwIfAborted();
        const onAbort = () => {
          timers.delete(timer);
          reject(signal.reason);
        };
        const fire = () => {
          signal.removeEventListener('abort', onAbort);
          resolve();
        };
        const timer = { at: elapsed + ms, fire };
        timers.add(timer);
        signal.addEventListener('abort', onAbort, { once: true });
      }),
    jump: (ms) => {
      skew += ms;
    },
    advance: async (ms) => {
      const until = elapsed + ms;
      await settle();
      for (;;) {
        const next = [...timers].filter((timer) => timer.at <= until).sort((a, b) => a.at - b.at)[0];
        if (next === undefined) break;
        timers.delete(next);
        elapsed = Math.max(elapsed, next.at);
        next.fire();
        await settle();
      }
      elapsed = until;
      await settle();
    },
  };
}

/** A runtime in memory. Fields may be set by a test; `onPull` decides how a pull ends. */
export interface FakeRuntime extends RuntimePort, ContainersPort, ContentPort {
  /** What a check finds of images, by reference; others are whole where they are listed. */
  readonly contents: Map<string, ImageContent>;
  /** What a check of an image waits for; nothing at first. */
  beforeCheck: (signal: AbortSignal, reference: string) => Promise<void>;
  /**
   * What runs or ran, by id. A container runs from the image that {@link FakeRuntime.images} has
   * for the name in it.
   */
  readonly running: Map<string, RuntimeContainer>;
  /** The names by which running containers were made. */
  askedFor: readonly ImageUse[];
  /** How often the containers were listed. */
  looks(): number;
  /**
   * Starts a container of a pod from the image of this reference, in place of the one that was
   * there.
   */
  startContainer(pod: string, reference: string): void;
  /** Ends the container of a pod. */
  endContainer(pod: string, exitCode: number): void;
  isUp: boolean;
  /** References and tags by image; the image id of a tag is that of the reference it names. */
  readonly images: Map<string, string>;
  /**
   * Where it keeps its images; a path that begins with `/var` is also where our own copies of
   * layers lie.
   */
  filesystem: ImageFilesystem;
  mirrorsTakeEffect: MirrorEffect;
  /** Whether a pull of a pinned image takes its pin away. */
  arePinsLostByPulls: boolean;
  /** Whether a pull by digest that works has asked our registry for the manifest. */
  asksUs: boolean;
  /** Whether rendered pins take effect. */
  pinsHold: boolean;
  /** Throws instead of rendering, while set. */
  failPins: Error | undefined;
  /**
   * Default: the image is there at once, by digest under its own id, by tag under that of the
   * newest asked-for bundle.
   */
  onPull: (reference: string, signal: AbortSignal) => Promise<void>;
  readonly log: string[];
  /** How often it was observed: once a round. */
  rounds(): number;
  mirrors(): readonly string[];
  pins(): readonly string[];
  emit(): void;
}

interface FakeRuntimeDependencies {
  readonly idOfTag: (tag: string) => string;
  readonly now: () => number;
  /** Called with the reference by digest for which our registry was asked. */
  readonly onRequested: (reference: string) => void;
}

function createFakeRuntime({ idOfTag, now, onRequested }: FakeRuntimeDependencies): FakeRuntime {
  const listeners = new Set<() => void>();
  let pins: readonly string[] = [];
  let mirrors: readonly string[] = [];
  let rounds = 0;
  let looks = 0;
  let started = 0;
  const ofPod = (pod: string) => [...fake.running.values()].filter((one) => one.key === pod);
  const list = (): RuntimeImage[] =>
    [...new Set(fake.images.values())].map((imageId) => {
      const names = [...fake.images].flatMap(([name, id]) => (id === imageId ? [name] : []));
      return {
        imageId,
        repoTags: names.filter((name) => !name.includes('@')),
        repoDigests: names.filter((name) => name.includes('@')),
        pinned: fake.pinsHold && names.some((name) => pins.includes(name)),
      };
    });
  const fake: FakeRuntime = {
    isUp: true,
    filesystem: { path: '/var', totalBytes: 2 ** 40, freeBytes: 2 ** 39 },
    mirrorsTakeEffect: 'at-once',
    arePinsLostByPulls: false,
    asksUs: true,
    images: new Map(),
    pinsHold: true,
    failPins: undefined,
    running: new Map(),
    askedFor: [],
    looks: () => looks,
    startContainer: (pod, reference) => {
      const before = ofPod(pod);
      for (const { containerId } of before) fake.running.delete(containerId);
      started += 1;
      const containerId = `c${started}`;
      const isSame = before.some(({ imageNames }) => imageNames.includes(reference));
      const attempt = isSame ? (before[0]?.attempt ?? 0) + 1 : 0;
      const times = { startedAt: now(), exitCode: 0 };
      fake.running.set(containerId, {
        containerId,
        key: pod,
        attempt,
        imageNames: [reference],
        podImage: reference,
        state: 'running',
        ...times,
      });
    },
    endContainer: (pod, exitCode) => {
      for (const one of ofPod(pod)) fake.running.set(one.containerId, { ...one, state: 'exited', exitCode });
    },
    containers: async () => {
      looks += 1;
      return [...fake.running.values()];
    },
    containerImages: async () => fake.askedFor,
    removeContainer: async (containerId) => {
      fake.log.push(`remove container ${containerId}`);
      fake.running.delete(containerId);
    },
    removeImage: async (imageId) => {
      fake.log.push(`remove image ${imageId}`);
      for (const [name, id] of fake.images) if (id === imageId) fake.images.delete(name);
    },
    contents: new Map(),
    beforeCheck: async () => undefined,
    openContentCheck: () => ({
      check: async ({ reference }, onBytes, signal) => {
        await fake.beforeCheck(signal, reference);
        fake.log.push(`check ${reference}`);
        onBytes(1);
        if (!fake.isUp) throw new AppError({ code: 'runtime/unreachable', message: 'away', disposition: 'retry' });
        const whole: ImageContent = { kind: 'whole', by: 'bytes' };
        return fake.contents.get(reference) ?? (fake.images.has(reference) ? whole : { kind: 'absent', faults: [] });
      },
    }),
    forgetContent: async (digests) => {
      fake.log.push(`forget ${digests.length}`);
    },
    log: [],
    rounds: () => rounds,
    mirrors: () => mirrors,
    pins: () => pins,
    emit: () => {
      for (const listener of listeners) listener();
    },
    onPull: async (reference) => {
      fake.images.set(reference, reference.includes('@') ? reference : idOfTag(reference));
    },
    observe: async () => {
      await turn(); // so that a hot loop can be seen from outside
      rounds += 1;
      if (!fake.isUp) return { kind: 'unreachable', reason: 'connect ENOENT /run/crio/crio.sock' };
      const images = list();
      const { filesystem, mirrorsTakeEffect, arePinsLostByPulls } = fake;
      const rendered = { renderedPins: pins, renderedMirrors: mirrors, arePinsLostByPulls };
      return { kind: 'reachable', name: 'fake 1', images, filesystem, mirrorsTakeEffect, ...rendered };
    },
    applyPins: async (references, { force }) => {
      fake.log.push(`pins ${references.length}${force ? ' by force' : ''}`);
      if (fake.failPins !== undefined) throw fake.failPins;
      pins = references;
    },
    applyMirrors: async (wanted) => {
      fake.log.push(`mirrors ${wanted.length}`);
      mirrors = wanted.map(({ repository }) => repository);
    },
    pull: async (reference, signal) => {
      fake.log.push(`pull ${reference}`);
      await fake.onPull(reference, signal);
      if (fake.asksUs && reference.includes('@')) onRequested(reference);
    },
    image: async (name) => {
      const imageId = fake.images.get(name) ?? name;
      return list().find((image) => image.imageId === imageId);
    },
    addTag: async () => false,
    removeTag: async (tag) => {
      fake.log.push(`remove ${tag}`);
      fake.images.delete(tag);
    },
    onChange: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
  return fake;
}

/** Media in memory, that are read as soon as they are asked to be. */
export interface FakeMedia extends MediaPort {
  plug(label: string, bundles: readonly FoundBundle[]): void;
  unplug(label: string): void;
  /** As by hand: it is plugged in and can't be read. */
  unmount(label: string): void;
  /** False while what was plugged in at the start is not listed yet. */
  isLooked: boolean;
  /** Throws instead of reading, while set. */
  failRead: Error | undefined;
}

function createFakeMedia(trustRevision: () => string): FakeMedia {
  const slots = new Map<string, { label: string; state: MediumState; bundles: readonly FoundBundle[] }>();
  const listeners = new Set<() => void>();
  const emit = () => {
    for (const listener of listeners) listener();
  };
  const move = (mediumId: string, state: (bundles: readonly FoundBundle[]) => MediumState) => {
    const slot = slots.get(mediumId);
    if (slot !== undefined) slot.state = state(slot.bundles);
    emit();
  };
  const fake: FakeMedia = {
    failRead: undefined,
    plug: (label, bundles) => {
      slots.set(label, { label, bundles, state: { kind: 'attached' } });
      emit();
    },
    unplug: (label) => {
      slots.delete(label);
      emit();
    },
    unmount: (label) => move(label, () => ({ kind: 'unmounted' })),
    isLooked: true,
    isListed: () => fake.isLooked,
    list: () =>
      [...slots].map(([mediumId, { label, state }]): Medium => ({ mediumId, label, isDropFolder: false, state })),
    refresh: async () => undefined,
    mount: async (mediumId) => move(mediumId, () => ({ kind: 'mounted' })),
    read: async (mediumId) => {
      if (fake.failRead !== undefined) {
        emit();
        throw fake.failRead;
      }
      move(mediumId, (bundles) => ({ kind: 'read', bundles, trustRevision: trustRevision() }));
    },
    onChange: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
  return fake;
}

/** A state store in memory. */
export interface FakeStore extends StateStore {
  readonly rows: EventRow[];
  /** Throws instead of writing, while set. */
  fail: Error | undefined;
  /** How often conditions were written. */
  conditionWrites: number;
}

function withoutName(
  names: readonly RejectedName[],
  { name, version }: Pick<RejectedName, 'name' | 'version'>,
): readonly RejectedName[] {
  return names.filter((one) => one.name !== name || one.version !== version);
}

function createFakeStore(initial: readonly StoredBundle[]): FakeStore {
  let bundles = initial;
  let pulledByUs: ReadonlySet<string> = new Set();
  const change = (bundleId: string, fields: object) => {
    const changed = (one: StoredBundle) =>
      Object.entries({ ...one, ...fields }).filter(([, value]) => value !== undefined);
    bundles = bundles.map((one) =>
      one.bundleId === bundleId ? (Object.fromEntries(changed(one)) as unknown as StoredBundle) : one,
    );
  };
  let verdicts: readonly Verdict[] = [];
  let rejectedNames: readonly RejectedName[] = [];
  let rotation: KeyRotation = NO_ROTATION;
  let conditions: ReadonlyMap<BundleId, ConditionMarks> = new Map();
  let tagsGiven: readonly TagGiven[] = [];
  let pauses: readonly Pause[] = [];
  let sightings: Sightings = NO_SIGHTINGS;
  const write = (event: EventRow) => {
    if (fake.fail !== undefined) throw fake.fail;
    fake.rows.push(event);
  };
  const fake: FakeStore = {
    rows: [],
    fail: undefined,
    load: () => storedState(bundles, { pulledByUs, verdicts, rejectedNames, rotation, pauses, sightings }),
    append: write,
    mirror: async () => undefined,
    conditionWrites: 0,
    conditions: () => conditions,
    setConditions: (changed) => {
      if (fake.fail !== undefined) throw fake.fail;
      fake.conditionWrites += 1;
      conditions = new Map([...conditions, ...changed]);
    },
    setPauses: (next, rows = []) => {
      if (fake.fail !== undefined) throw fake.fail;
      for (const row of rows) write(row);
      pauses = next;
    },
    setSightings: (next) => {
      if (fake.fail !== undefined) throw fake.fail;
      sightings = parseSightings(sightingsText(next));
    },
    tagsGiven: () => tagsGiven,
    setTagsGiven: (given) => {
      if (fake.fail !== undefined) throw fake.fail;
      tagsGiven = given;
    },
    change: (bundleId, fields, event) => {
      if (event !== undefined) write(event);
      else if (fake.fail !== undefined) throw fake.fail;
      change(bundleId, fields);
    },
    setVerdict: (verdict, event) => {
      write(event);
      verdicts = [...verdicts.filter(({ bundleId }) => bundleId !== verdict.bundleId), verdict];
    },
    rejectName: (rejected, event) => {
      write(event);
      rejectedNames = [...withoutName(rejectedNames, rejected), rejected];
    },
    allowName: (release, event) => {
      write(event);
      rejectedNames = withoutName(rejectedNames, release);
    },
    adopt: (bundle: VerifiedBundle, event, added = NO_ROTATION) => {
      write(event);
      rotation = { keys: [...rotation.keys, ...added.keys], revoked: [...rotation.revoked, ...added.revoked] };
      bundles = [...bundles, { ...bundle, adoptedAt: event.at }];
    },
    rebuild: (bundle, event) => {
      write(event);
      bundles = [...bundles, bundle];
    },
    rollBack: (bundleId, event, next, { text, isByHand }) => {
      write(event);
      write(next.event);
      change(bundleId, { rolledBackAt: event.at, rolledBackReason: text, isRolledBackByHand: isByHand });
      change(next.bundleId, { activationRequestedAt: next.event.at });
    },
    forget: (bundleId) => {
      if (fake.fail !== undefined) throw fake.fail;
      bundles = bundles.filter((one) => one.bundleId !== bundleId);
    },
    settled: async () => undefined,
    trouble: () => {
      const { fail } = fake;
      return fail instanceof AppError && isDiskTrouble(fail) ? { code: fail.code, message: fail.message } : undefined;
    },
    setPulledByUs: (reference, isPulledByUs) => {
      if (fake.fail !== undefined) throw fake.fail;
      const others = [...pulledByUs].filter((other) => other !== reference);
      pulledByUs = new Set(isPulledByUs ? [...others, reference] : others);
    },
    cancel: (bundleIds, during, event) => {
      write(event);
      bundles = bundles.map((one) => {
        if (!bundleIds.includes(one.bundleId)) return one;
        const { cancelled: _, ...others } = one;
        return during === undefined ? others : { ...others, cancelled: { at: event.at, media: during } };
      });
    },
    setCancelledMedia: (bundleId, left) => {
      if (fake.fail !== undefined) throw fake.fail;
      bundles = bundles.map((one) =>
        one.bundleId === bundleId && one.cancelled ? { ...one, cancelled: { ...one.cancelled, media: left } } : one,
      );
    },
    newestEvent: () => fake.rows.length,
    events: (bundleId, limit) =>
      fake.rows.filter((row) => bundleId === undefined || row.bundleId === bundleId).slice(-limit),
  };
  return fake;
}

/** A whole node in memory around the real engine. */
export interface FakeNode {
  readonly engine: Engine;
  readonly dependencies: EngineDependencies;
  readonly clock: VirtualClock;
  readonly runtime: FakeRuntime;
  readonly media: FakeMedia;
  readonly store: FakeStore;
  readonly log: RecordingLog;
  /** Blobs that media offer, by digest; what is not in it is nowhere. */
  readonly blobs: Map<Digest, Buffer>;
  readonly documents: Map<Digest, Buffer>;
  /** What was remembered of pins, in order. */
  readonly ledgers: PinLedger[];
  /** The hooks that were run, and how the next ones end; at first all succeed at once. */
  readonly hooks: {
    readonly runs: { readonly unit: string; readonly environment: string }[];
    run: (unit: string, signal: AbortSignal) => Promise<HookFailure | undefined>;
  };
  /** How often the disk was synced, and how the next ones end; at first all succeed at once. */
  readonly disk: { syncs: number; sync: (signal: AbortSignal) => Promise<void> };
  /** What a read of a blob waits for; nothing at first. */
  beforeRead: (digest: Digest, signal: AbortSignal) => Promise<void>;
  /** Bytes sent of each blob and manifests asked for, as the registry would have measured. */
  readonly meter: {
    sent: Map<Digest, number>;
    manifests: Map<string, number>;
    /** Whether the registry has the manifests that it is asked for. */
    hasManifests: boolean;
    waiting: number;
    flow: Partial<BlobFlow>;
    /** Requests for blobs that no bundle has; none at first. */
    unknown: { readonly count: number; readonly last: Digest | undefined };
    /** Tells the engine of a request for a manifest: a mirror path, and a digest or a tag. */
    requested: (path: string, reference: string) => void;
  };
  /** STATUS lines, each once in a row. */
  readonly statuses: string[];
  /** What the fleet process reports. */
  fleet: FleetView | undefined;
  readonly catalog: () => Catalog;
  setTrustRevision(revision: string): void;
  /** Keys that never count; none at first. */
  revocations: Revocations;
  onStatus: (report: StatusReport) => void;
  /** Whether the clock's synchronisation is answered. */
  clockSynchronised: () => Promise<boolean>;
  /** What rules about time are judged by. */
  facts: NodeFacts;
  /** Whether a check of images is due. */
  readonly bootMark: BootMark & { isDue: boolean; isKept: boolean };
  /** Set anew for a reboot. */
  boot: () => BootTime;
  /** Starts the engine and lets it come to rest. */
  start(): Promise<void>;
  /** Stops it and waits until it is done. */
  stop(): Promise<void>;
  plug(label: string, ...bundles: readonly VerifiedBundle[]): void;
  /** The phase of a bundle by its version. */
  phase(version: string): string | undefined;
}

/** Kept beside each store, for the node after a restart. */
const hookLedgers = new WeakMap<FakeStore, HookLedger>();

/**
 * Makes a {@link FakeNode}; nothing runs before `start`. With the `store` of another one it is that
 * node after a restart of the daemon. `runtimeDocuments`: manifests and configs that the runtime
 * has; without them lost ones are not looked for.
 */
export function createFakeNode(
  initial: readonly StoredBundle[] = [],
  policy: Partial<Policy> = {},
  store = createFakeStore(initial),
  runtimeDocuments?: ReadonlyMap<Digest, Buffer>,
): FakeNode {
  let trustRevision = 'keys-1';
  let catalog: Catalog = new Map();
  let stop: (() => Promise<void>) | undefined;
  const log = createRecordingLog();
  const idOfTag = (tag: string): string => {
    for (const [repository, entry] of catalog) {
      const digest = entry.tags.get(tag.slice(repository.length + 1));
      if (!tag.startsWith(`${repository}:`) || digest === undefined) continue;
      return entry.images.get(digest) ?? `${repository}@${digest}`;
    }
    throw new AppError({ code: 'runtime/not-found', message: `${tag} not found`, disposition: 'retry' });
  };
  const runtime: FakeRuntime = createFakeRuntime({
    idOfTag,
    now: () => clock.now(),
    onRequested: (reference) => meter.manifests.set(reference, (meter.manifests.get(reference) ?? 0) + 1),
  });
  const clock: VirtualClock = createVirtualClock(runtime.rounds);
  const media = createFakeMedia(() => trustRevision);
  const blobs = new Map<Digest, Buffer>();
  const documents = new Map<Digest, Buffer>();
  const releases = new Map<string, BundleId>();
  const distrusted = new Set<Digest>();
  const meter = {
    sent: new Map<Digest, number>(),
    manifests: new Map<string, number>(),
    hasManifests: true,
    waiting: 0,
    flow: {} as Partial<BlobFlow>,
    unknown: { count: 0, last: undefined as Digest | undefined },
    requested: (_path: string, _reference: string): void => undefined,
  };
  const statuses: string[] = [];
  const read = async function* (digest: Digest, startByte: number, signal: AbortSignal): AsyncGenerator<Buffer> {
    await node.beforeRead(digest, signal);
    const bytes = blobs.get(digest) ?? documents.get(digest);
    if (bytes === undefined) {
      throw new AppError({
        code: 'media/gone',
        message: `blob ${digest} is on no plugged medium`,
        disposition: 'wait',
      });
    }
    yield bytes.subarray(startByte);
  };
  const bootMark = {
    isDue: false,
    isKept: false,
    keep: () => {
      bootMark.isKept = true;
    },
    isCheckDue: () => bootMark.isDue,
    setCheckDue: async (isDue: boolean) => {
      bootMark.isDue = isDue;
    },
  };
  const dependencies: EngineDependencies = {
    clock,
    log,
    store,
    pinLedger: {
      load: () => LEDGER,
      save: async (ledger) => {
        node.ledgers.push(ledger);
      },
    },
    fleet: { view: () => node.fleet, isSilent: () => false, onChange: () => () => undefined },
    floors: { load: () => NO_FLOORS, isWhole: () => true, save: async () => undefined },
    media,
    runtime,
    containers: runtime,
    content: runtime,
    storedDocuments: runtimeDocuments && {
      sizeOf: async (digest) => runtimeDocuments.get(digest)?.length,
      read: async function* (digest, startByte) {
        yield runtimeDocuments.get(digest)?.subarray(startByte) ?? Buffer.alloc(0);
      },
    },
    bootMark,
    disk: {
      sync: (signal) => {
        node.disk.syncs += 1;
        return node.disk.sync(signal);
      },
    },
    policy: { ...POLICY, ...policy },
    random: () => 0,
    stallMs: 90_000,
    documents: {
      list: async () => new Set(documents.keys()),
      sizeOf: async (digest) => documents.get(digest)?.length,
      read,
      put: async (digest, bytes) => void documents.set(digest, bytes),
      putStream: async ({ digest }, readFrom) => {
        const bytes: Buffer[] = [];
        for await (const chunk of readFrom(0)) bytes.push(chunk);
        documents.set(digest, Buffer.concat(bytes));
      },
      linkTo: async () => false,
      remove: async (digest) => void documents.delete(digest),
    },
    signedBundles: {
      list: async () => new Set(),
      isPlugged: () => false,
      keep: async () => undefined,
      remove: async () => undefined,
      judge: async () => ({ kind: 'rejected', path: '', reason: { code: 'media/gone', message: 'gone' } }),
      unproven: async () => undefined,
    },
    hookRunner: {
      run: (unit, environment, signal) => {
        node.hooks.runs.push({ unit, environment });
        return node.hooks.run(unit, signal);
      },
    },
    hookStore: {
      load: () => hookLedgers.get(store) ?? new Map(),
      save: async (ledger, signal) => {
        signal.throwIfAborted();
        hookLedgers.set(store, ledger);
      },
    },
    releaseFiles: {
      list: async () => releases,
      pathOf: (folder) => `/var/lib/stickpin/releases/${folder}`,
      install: async (folder, bundleId) => void releases.set(folder, bundleId),
      remove: async (folder) => void releases.delete(folder),
    },
    layers: {
      list: async () => new Set(),
      parts: async () => new Map(),
      sizeOf: async () => undefined,
      read,
      isBeside: async (path) => path.startsWith('/var'),
      want: () => undefined,
      begin: async () => undefined,
      trouble: () => undefined,
      retain: async () => 0,
    },
    source: {
      sizeOf: async (digest) => blobs.get(digest)?.length,
      read,
      onChange: () => () => undefined,
      copiesOf: async (digest) => [
        {
          label: 'sdb1',
          file: `stickpin/ocp/blobs/${digest.replace(':', '/')}`,
          isTrusted: !distrusted.has(digest),
          read: (startByte, signal) => read(digest, startByte, signal),
          distrust: () => void distrusted.add(digest),
        },
      ],
    },
    probes: { offer: (repository, seed) => digestOf(`probe of ${repository} ${seed}`) },
    meter: {
      totalBytes: () => [...meter.sent.values()].reduce((sum, bytes) => sum + bytes, 0),
      sentBytes: () => meter.sent,
      forget: (digest) => void meter.sent.delete(digest),
      damaged: () => new Set(),
      onManifestRequest: (listener) => {
        meter.requested = listener;
        return () => {
          meter.requested = () => undefined;
        };
      },
      manifestRequests: (repository, digest) => meter.manifests.get(`${repository}@${digest}`) ?? 0,
      manifestsSent: (repository, digest) =>
        meter.hasManifests ? (meter.manifests.get(`${repository}@${digest}`) ?? 0) : 0,
      waiting: () => meter.waiting,
      flow: () => ({ sentBytes: 0, opened: 0, open: 0, awaitingMedium: 0, awaitingRuntime: 0, ...meter.flow }),
      unknownRequests: () => meter.unknown,
    },
    trust: {
      revision: () => trustRevision,
      revocations: () => node.revocations,
      roles: () => [],
      inForce: () => TRUST,
    },
    node: {
      arch: 'amd64',
      clockSynchronised: () => node.clockSynchronised(),
      facts: () => node.facts,
      boot: () => node.boot(),
    },
    notifier: {
      ready: () => undefined,
      reloading: () => undefined,
      stopping: () => undefined,
      status: (line) => {
        if (statuses.at(-1) !== line) statuses.push(line);
      },
    },
    setCatalog: (next) => {
      catalog = next;
    },
    onStatus: (report) => node.onStatus(report),
  };
  const node: FakeNode = {
    bootMark,
    hooks: { runs: [], run: async () => undefined },
    disk: { syncs: 0, sync: async () => undefined },
    fleet: undefined,
    clock,
    runtime,
    media,
    store,
    log,
    blobs,
    documents,
    ledgers: [],
    meter,
    statuses,
    revocations: { keyIds: [], revocationsUnreadable: false },
    beforeRead: async () => undefined,
    onStatus: () => undefined,
    clockSynchronised: async () => true,
    facts: FACTS,
    boot: () => ({ bootId: 'boot-1', uptimeMs: clock.monotonic() }),
    catalog: () => catalog,
    setTrustRevision: (revision) => {
      trustRevision = revision;
    },
    dependencies,
    engine: new Engine(dependencies),
    start: async () => {
      const controller = new AbortController();
      const ended = node.engine.run(controller.signal);
      stop = async () => {
        controller.abort();
        await ended;
      };
      await clock.advance(0);
    },
    stop: async () => {
      await stop?.();
    },
    plug: (label, ...bundles) =>
      media.plug(
        label,
        bundles.map((bundle) => found(bundle)),
      ),
    phase: (version) => node.engine.report()?.bundles.find((bundle) => bundle.version === version)?.phase,
  };
  return node;
}

export interface FakeRevocationStore
  extends Pick<Store, 'revocationRecord' | 'setRevocationRecord' | 'document' | 'mirror'> {
  readonly rows: EventRow[];
  /** Throws when the mirror is written, while set. */
  fail: Error | undefined;
  /** The file that hides revocations. */
  hidden: string | undefined;
}

/** A store of the record of revocations, in memory. */
export function createRevocationStore(): FakeRevocationStore {
  let stored: RevocationRecord | undefined;
  const rows: EventRow[] = [];
  const fake: FakeRevocationStore = {
    rows,
    fail: undefined,
    hidden: undefined,
    document: () => fake.hidden,
    mirror: async () => {
      if (fake.fail !== undefined) throw fake.fail;
    },
    revocationRecord: () => stored,
    setRevocationRecord: (record, event) => {
      stored = record;
      if (event !== undefined) rows.push(event);
    },
  };
  return fake;
}

/** The context of an engine in memory, with parts replaced. */
export function fakeContext(parts: { readonly [Part in keyof EngineContext]?: Partial<EngineContext[Part]> }) {
  const { dependencies } = createFakeNode();
  const { log, clock, store } = dependencies;
  const recorder = new EventRecorder({ log, clock, store });
  const context = { ...dependencies, recorder, wantRound: () => undefined, alive: () => undefined, ...parts };
  return { ...context, jobs: new Jobs(context.clock as Clock, context.wantRound as () => void) } as EngineContext;
}
