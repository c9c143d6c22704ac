import { generateKeyPairSync } from 'node:crypto';
import { copyFile, mkdir, mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { formatEnvelope } from '../../bundle/format/dsse.ts';
import { type PrivateKey, parsePrivateKey } from '../../bundle/keys/keys.ts';
import { readEnvelope } from '../../bundle/verify/judge-bundle.ts';
import type { Rehearsal, RehearsalRequest, RehearsedImage } from '../../cli/context/command-adapters.ts';
import { allIn, type Contents, type Layer } from '../../domain/model/bundle.ts';
import type { Digest } from '../../domain/model/digest.ts';
import { parseReference } from '../../domain/model/reference.ts';
import type { ShownReason } from '../../domain/report/reasons/reason-text.ts';
import type { StatusReport } from '../../domain/report/status-schema.ts';
import { defaultSettings, type Settings } from '../../domain/settings/settings.ts';
import { bootTime, nodeFacts } from '../../host/node-facts.ts';
import type { BundleAccess } from '../../media/media-provider.ts';
import { reasonOf } from '../../platform/app-error.ts';
import { type Clock, systemClock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import type { ServiceNotifier, UnitControl } from '../../ports/node.ts';
import type { RuntimeAdapter } from '../../runtime/runtime-adapter.ts';
import { createDaemon } from '../daemon/daemon.ts';

/**
 * Number of failures after which the rehearsal ends, because nothing changes during a rehearsal.
 */
const MAX_FAILURES = 2;

/**
 * As `CommandAdapters` says. @throws whatever aborted `signal`; AppError of a daemon that can't
 * start
 */
export async function rehearseBundle(request: RehearsalRequest, signal: AbortSignal): Promise<Rehearsal> {
  const directory = await mkdtemp(join(request.temporary, 'stickpin-rehearsal-'));
  const stop = new AbortController();
  const onAbort = () => stop.abort(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    signal.throwIfAborted();
    return await rehearseIn(directory, request, stop);
  } finally {
    signal.removeEventListener('abort', onAbort);
    await rm(directory, { recursive: true, force: true, maxRetries: 3 });
  }
}

async function rehearseIn(directory: string, request: RehearsalRequest, stop: AbortController): Promise<Rehearsal> {
  const { bundle, onImage, onBytes } = request;
  let since = systemClock.monotonic();
  const pulls = new PullWatch(systemClock);
  const { keysFolder, threshold, watchBundle } = await trustFor(directory, request);
  let onStart: () => void = () => undefined;
  const started = new Promise<void>((resolve) => {
    onStart = resolve;
  });
  let onReport: (report: StatusReport) => void = () => undefined;
  const daemon = await createDaemon(
    {
      settings: rehearsalSettings(directory, keysFolder, threshold),
      log: silent,
      clock: systemClock,
      node: {
        arch: bundle.payload.arch,
        clockSynchronised: async () => true,
        facts: () => nodeFacts(),
        boot: () => bootTime(),
      },
      notifier: { ...noService, ready: () => onStart() },
      units: noUnits,
      providers: [],
      onStatus: (report) => {
        onBytes(report.progress.doneBytes);
        onReport(report);
      },
      ...(watchBundle !== undefined && { watchBundle }),
      keysAreGuarded: false,
      watchRuntime: (runtime) => pulls.watch(runtime),
    },
    stop.signal,
  );
  const running = daemon.run(stop.signal);
  const ended = running.then(() => stop.signal.throwIfAborted());
  ended.catch(() => undefined); // handled below, unless the verdict comes first
  try {
    await Promise.race([started, ended]);
    let fault: ShownReason | undefined;
    for (const one of [...request.bases, request]) {
      const { bundleId, payload, contents } = one.bundle;
      since = systemClock.monotonic();
      pulls.begin(contents, one === request ? onImage : () => undefined);
      const isManual = payload.schedule === 'manual';
      const reached = new Promise<ShownReason | undefined>((resolve) => {
        onReport = (report) => {
          const outcome = outcomeOf(report, { bundleId, isManual, failures: pulls.failures() });
          if (outcome !== 'open') resolve(outcome.fault);
        };
      });
      for (const volume of one.volumes) await daemon.media.load(volume, stop.signal);
      daemon.engine.kick();
      fault = (await Promise.race([reached, ended])) ?? undefined;
      if (fault !== undefined) break;
    }
    return { images: pulls.images(), durationMs: systemClock.monotonic() - since, fault };
  } finally {
    stop.abort();
    await running.catch(() => undefined);
  }
}

/** The result in a report: not decided yet, or ended with or without a fault. */
function outcomeOf(
  { bundles, notices, rejected }: StatusReport,
  { bundleId, isManual, failures }: { bundleId: string; isManual: boolean; failures: number },
): 'open' | { readonly fault: ShownReason | undefined } {
  // The preload of a bundle without images ends with its adoption.
  const notice = notices.find((one) => one.bundleId === bundleId);
  if (notice !== undefined) return { fault: notice.reason };
  const entry = bundles.find((one) => one.bundleId === bundleId);
  if (entry === undefined) return rejected[0] === undefined ? 'open' : { fault: rejected[0].reason };
  const reason = entry.reason ?? entry.degraded;
  switch (entry.phase) {
    case 'held':
      return { fault: reason ?? { code: 'rehearsal/held', message: `it would be held: ${entry.hold}` } };
    case 'preloading':
      return (failures >= MAX_FAILURES || isUncopied(entry)) && reason !== undefined ? { fault: reason } : 'open';
    case 'ready':
      if (isManual || entry.hold !== undefined || isHeldByRule(entry)) return { fault: undefined };
      return failures >= MAX_FAILURES && reason !== undefined ? { fault: reason } : 'open';
    case 'detected':
      return 'open';
    default:
      return { fault: undefined };
  }
}

/** Every image is there, and an artifact is not. */
function isUncopied({ images, artifacts }: StatusReport['bundles'][number]): boolean {
  return images.present === images.total && artifacts !== undefined && artifacts.present < artifacts.total;
}

function isHeldByRule({ activationHolds = [] }: StatusReport['bundles'][number]): boolean {
  return activationHolds.some(({ code }) => code.startsWith('rule/'));
}

interface RehearsalTrust {
  readonly keysFolder: string;
  readonly threshold: number;
  readonly watchBundle?: (bundle: BundleAccess) => BundleAccess;
}

function rehearsalKey(): { readonly publicPem: string; readonly privateKey: PrivateKey } {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  return {
    publicPem: publicKey.export({ type: 'spki', format: 'pem' }).toString(),
    privateKey: parsePrivateKey(privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(), 'rehearsal.key'),
  };
}

/** The role whose keys the payload changes, as it must be for the bundle to be taken. */
function rehearsalRole({ payload, contents }: RehearsalRequest['bundle'], publicPem: string): string {
  const registries = new Set(allIn(contents).map(({ reference }) => parseReference(reference).registry));
  return [
    'threshold = 1',
    `streams = ${JSON.stringify([payload.name])}`,
    `repositories = ${JSON.stringify([...registries])}`,
    'may_rotate = true',
    `keys = ["""${publicPem}"""]`,
    '',
  ].join('\n');
}

/** The daemon reads keys from a folder only. */
async function folderOf(keys: string, directory: string): Promise<string> {
  if ((await stat(keys)).isDirectory()) return keys;
  const folder = join(directory, 'keys.d');
  await mkdir(folder);
  await copyFile(keys, join(folder, `${basename(keys, '.pub')}.pub`));
  return folder;
}

/**
 * Without keys, the envelope is signed with a key that is thrown away, and with one of the role
 * whose keys the payload changes: the daemon judges as ever, and nothing is said about who signed.
 */
async function trustFor(directory: string, { keys, bundle }: RehearsalRequest): Promise<RehearsalTrust> {
  if (keys !== undefined) return { keysFolder: await folderOf(keys.path, directory), threshold: keys.threshold };
  const { signEnvelope, unsignedEnvelope } = await import('../../factory/payload/sign-envelope.ts');
  const keysFolder = join(directory, 'keys.d');
  const [key, roleKey] = [rehearsalKey(), rehearsalKey()];
  await mkdir(keysFolder);
  await writeFile(join(keysFolder, 'rehearsal.pub'), key.publicPem);
  const { role } = bundle.payload.trust ?? {};
  if (role !== undefined) await writeFile(join(keysFolder, `${role}.toml`), rehearsalRole(bundle, roleKey.publicPem));
  const watchBundle = ({ reader, blobs }: BundleAccess): BundleAccess => ({
    blobs,
    reader: {
      ...reader,
      readFile: async (name, maxBytes, signal) => {
        if (name !== 'bundle.dsse.json') return reader.readFile(name, maxBytes, signal);
        const { payload } = await readEnvelope(reader, signal);
        const signed = signEnvelope(unsignedEnvelope(payload), key.privateKey);
        return formatEnvelope(role === undefined ? signed : signEnvelope(signed, roleKey.privateKey));
      },
    },
  });
  return { keysFolder, threshold: 1, watchBundle };
}

/**
 * The defaults, with all paths below the given directory. No space is reserved, because that
 * matters only on a node.
 */
function rehearsalSettings(directory: string, keysFolder: string, threshold: number): Settings {
  const defaults = defaultSettings;
  return {
    ...defaults,
    trust: { ...defaults.trust, keys_dir: keysFolder, threshold },
    media: { ...defaults.media, detect: false, directories: [], incoming: join(directory, 'incoming'), grace: 0 },
    runtime: { ...defaults.runtime, kind: 'embedded' },
    registry: { ...defaults.registry, listen: '127.0.0.1:0' },
    preload: { ...defaults.preload, min_free_percent: 0 },
    paths: { state_dir: join(directory, 'state'), run_dir: join(directory, 'run') },
  };
}

const nothing = () => undefined;
const noService: ServiceNotifier = { ready: nothing, status: nothing, reloading: nothing, stopping: nothing };
const noUnits: UnitControl = { reloadUnit: async () => undefined, onUnitChange: () => nothing };
/** What there is to say is in the verdict. */
const silent: Log = { debug: nothing, info: nothing, warn: nothing, error: nothing };

/** Watches the pulls of the images of one bundle after the other. */
class PullWatch {
  private layers: ReadonlyMap<string, readonly Layer[]> = new Map();
  private readonly pulledLayers = new Set<Digest>();
  private readonly pulled = new Map<string, RehearsedImage>();
  private readonly failed = new Map<string, number>();

  private onImage: (image: RehearsedImage) => void = () => undefined;

  constructor(private readonly clock: Clock) {}

  /** Forgets the images of an earlier bundle. `onImage` is called for each pull by digest. */
  begin({ images, layers }: Contents, onImage: (image: RehearsedImage) => void): void {
    this.onImage = onImage;
    this.pulled.clear();
    this.failed.clear();
    this.layers = new Map(images.map((image) => [image.reference, image.layers.flatMap((at) => layers[at] ?? [])]));
  }

  watch(runtime: RuntimeAdapter): RuntimeAdapter {
    return { ...runtime, pull: (reference, signal) => this.pull(runtime, reference, signal) };
  }

  /** The last pull of each image, in the order of completion. */
  images(): readonly RehearsedImage[] {
    return [...this.pulled.values()];
  }

  /** The highest number of failed pulls of one image or tag. */
  failures(): number {
    return Math.max(0, ...this.failed.values());
  }

  private async pull(runtime: RuntimeAdapter, reference: string, signal: AbortSignal): Promise<void> {
    const layers = this.layers.get(reference);
    const since = this.clock.monotonic();
    // Two pulls that share a missing layer never run in parallel. So this pull brings all layers
    // that are still missing.
    const fresh = (layers ?? []).filter(({ digest }) => !this.pulledLayers.has(digest));
    const newBytes = fresh.reduce((sum, layer) => sum + layer.sizeBytes, 0);
    const seen = () => ({ reference, newBytes, durationMs: this.clock.monotonic() - since });
    try {
      await runtime.pull(reference, signal);
      for (const { digest } of fresh) this.pulledLayers.add(digest);
      if (layers !== undefined) this.note(seen());
    } catch (error) {
      if (!signal.aborted) {
        this.failed.set(reference, (this.failed.get(reference) ?? 0) + 1);
        if (layers !== undefined) this.note({ ...seen(), fault: reasonOf(error) });
      }
      throw error;
    }
  }

  private note(image: RehearsedImage): void {
    this.pulled.delete(image.reference);
    this.pulled.set(image.reference, image);
    this.onImage(image);
  }
}
