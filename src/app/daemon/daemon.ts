import { randomBytes } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { type Documents, documentsHere } from '../../bundle/documents/documents.ts';
import { createWorkerDocuments } from '../../bundle/documents/worker-documents.ts';
import { judgeBundles } from '../../bundle/verify/judge-bundles.ts';
import type { Settings } from '../../config/schema.ts';
import type { RuntimeObservation } from '../../domain/model/runtime-image.ts';
import { imagesEnv } from '../../domain/release/images-env.ts';
import type { StatusReport } from '../../domain/report/report.ts';
import type { Effect } from '../../domain/state/effect.ts';
import type { Policy } from '../../domain/state/state.ts';
import { createEngine, type Engine } from '../../engine/loop/engine.ts';
import { createDirectoryMedia } from '../../media/directory-media.ts';
import { createLoadedMedia } from '../../media/loaded-media.ts';
import { createMedia, type Media } from '../../media/media.ts';
import type { BundleAccess, MediaProvider } from '../../media/provider/media-provider.ts';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import { createDisposalStack } from '../../platform/async/disposal.ts';
import type { Clock } from '../../platform/clock.ts';
import { readIfPresent } from '../../platform/files/durable-file.ts';
import type { Log } from '../../platform/log.ts';
import { messageIds } from '../../platform/message-ids.ts';
import type { NodePort, ServiceNotifier } from '../../ports/node.ts';
import { createBlobUnion } from '../../registry/blob-union.ts';
import { createPeerScan } from '../../registry/peers/peer-scan.ts';
import { createRegistry, type ListenTarget } from '../../registry/server.ts';
import { watchConfig } from '../../runtime/config/config-watch.ts';
import type { RuntimeAdapter } from '../../runtime/runtime-adapter.ts';
import { createBlobStore } from '../../store/files/blob-store.ts';
import { createLayerStore } from '../../store/files/layer-store.ts';
import { createReleaseFiles } from '../../store/files/release-files.ts';
import { openNodeState } from './node-state.ts';
import { createPublishedFiles } from './published-files.ts';
import { createRuntime, type RuntimeChoice } from './runtime.ts';
import type { KeyRestorer } from './trust/restore-key.ts';
import { createTrustKeeper, type TrustKeeper } from './trust/trust-keeper.ts';

/** What the daemon is given by whoever starts it: the service on a node, the demo, a test. */
export interface DaemonOptions {
  readonly settings: Settings;
  readonly log: Log;
  readonly clock: Clock;
  readonly node: NodePort;
  readonly notifier: ServiceNotifier;
  readonly units: RuntimeChoice['units'];
  /** Media beside the directories of the settings: the devices of this machine. */
  readonly providers: readonly MediaProvider[];
  /** An inherited socket for the registry; without one it listens by itself. */
  readonly registryFd?: number | undefined;
  readonly onStatus?: (report: StatusReport) => void;
  /** Whether it counts who else may write the folder of keys; default it does. A rehearsal takes a folder that a person names. */
  readonly keysAreGuarded?: boolean;
  /** Stands between the daemon and the bundles on its media, for who wants to watch; default nothing does. */
  readonly watchBundle?: (bundle: BundleAccess) => BundleAccess;
  /** The built file of `document-worker.ts`, in which large documents are parsed. Without one they are parsed in this thread, which does nothing else then. */
  readonly documentWorker?: URL;
  /** Stands between the daemon and its runtime, for who wants to watch; default nothing does. */
  readonly watchRuntime?: (runtime: RuntimeAdapter) => RuntimeAdapter;
  /** Called when the engine has done an effect; a long one has been started then. Default nothing is. */
  readonly afterEffect?: (effect: Effect) => void;
}

/** The daemon, built and not yet running. */
export interface Daemon {
  readonly engine: Engine;
  readonly media: Media;
  /** Works until `signal` aborts, then stops everything in reverse order. */
  run(signal: AbortSignal): Promise<void>;
  /** Lifts the stored revocation of a key. */
  readonly restoreKey: KeyRestorer;
  /** Has the folder of keys read now, as after a change. */
  reloadKeys(): void;
  /** What the runtime has now. */
  observeRuntime(signal: AbortSignal): Promise<RuntimeObservation>;
}

/**
 * The composition root: the one place that knows which adapter is which. Everything it sets up is undone in reverse.
 *
 * @throws AppError `store/…`, `registry/listen` (`fatal`) when the daemon can't work at all
 */
export async function createDaemon(options: DaemonOptions, signal: AbortSignal): Promise<Daemon> {
  const { settings, log, clock, node } = options;
  const disposal = createDisposalStack();
  const undo = () =>
    disposal.dispose((what, error) => log.warn({ err: error }, `Stopping ${what} failed: ${reasonOf(error)}`));
  try {
    await mkdir(settings.paths.run_dir, { recursive: true });
    const state = await openNodeState(settings.paths, { clock, log });
    disposal.defer('the database', state.close);
    const { store } = state;
    const published = createPublishedFiles({
      stateDirectory: settings.paths.state_dir,
      runDirectory: settings.paths.run_dir,
      bootId: node.boot().bootId,
      clock,
      log,
      imagesEnvBefore: await readImagesEnv(settings.paths.state_dir),
    });
    disposal.defer('the published files', published.settled);
    const trust = await createTrustKeeper(
      {
        settings: settings.trust,
        stateDirectory: settings.paths.state_dir,
        ...(options.keysAreGuarded !== false && { ownUid: process.getuid?.() ?? 0 }),
        store,
        clock,
        log,
      },
      signal,
    );
    disposal.defer('the stored revocations', trust.remember);
    const documentWorker = options.documentWorker && createWorkerDocuments({ program: options.documentWorker });
    disposal.defer('the thread for documents', () => documentWorker?.close());
    const media = mediaOf(options, trust, documentWorker);
    disposal.defer('the media', media.dispose);
    const documents = createBlobStore(join(settings.paths.state_dir, 'blobs'));
    const layers = createLayerStore({
      folder: join(settings.paths.state_dir, 'blobs/layers'),
      minFreePercent: settings.preload.min_free_percent,
      log,
    });
    const source = createBlobUnion({ own: [documents, layers], media: media.blobs });
    const token = randomBytes(16).toString('hex');
    const allowedUids = new Set([...settings.registry.allow_uids, process.getuid?.() ?? 0]);
    const peers = createPeerScan({ clock });
    const registry = createRegistry({
      source,
      clock,
      log,
      token,
      graceMs: settings.media.grace,
      layers,
      admit: async (socket) => {
        const uid = await peers.uidOf(socket);
        return uid !== undefined && allowedUids.has(uid) ? `uid ${uid}` : undefined;
      },
      isOpen: async (socket) => (await peers.uidOf(socket)) !== undefined,
    });
    disposal.defer('the registry', registry.close);
    const authority = await registry.listen(listenTarget(options));
    const mirror = { authority, token };
    const ownRuntime = createRuntime({ settings, units: options.units, mirror, arch: node.arch, clock, log });
    const runtime = options.watchRuntime?.(ownRuntime) ?? ownRuntime;
    disposal.defer('the runtime client', runtime.close);
    const engine = createEngine({
      clock,
      log,
      media,
      runtime,
      containers: runtime,
      store,
      pinLedger: state.pinLedger,
      floors: state.floors,
      stateProblems: state.problems,
      documents,
      layers,
      releaseFiles: createReleaseFiles(join(settings.paths.state_dir, 'releases')),
      source,
      trust,
      node,
      meter: registry.meter,
      notifier: options.notifier,
      policy: policyOf(settings),
      setCatalog: registry.setCatalog,
      random: Math.random,
      stallMs: settings.preload.stall,
      onStatus: (report) => {
        published.publish({ imagesEnv: imagesEnv(store.load().bundles), report });
        options.onStatus?.(report);
      },
      afterEffect: (effect) => {
        if (effect.kind === 'adopt-bundle') void trust.remember();
        options.afterEffect?.(effect);
      },
    });
    const keys = watchKeys({ settings, trust, engine, clock, log });
    disposal.defer('the watch on the keys', keys.stop);
    const observeRuntime = (inner: AbortSignal) => runtime.observe(inner);
    const run = (inner: AbortSignal) => runParts({ engine, media, runtime, authority, options }, inner).finally(undo);
    const restoreKey: KeyRestorer = async (name, uid) => {
      const message = await trust.restore(name, uid);
      engine.kick();
      return message;
    };
    return { engine, media, observeRuntime, restoreKey, reloadKeys: keys.reload, run };
  } catch (error) {
    await undo();
    throw error;
  }
}

/** One that can't be read counts as none: it is written anew, and other programs could not read it either. */
async function readImagesEnv(stateDirectory: string): Promise<string> {
  return (await readIfPresent(join(stateDirectory, 'images.env')).catch(() => undefined)) ?? '';
}

function policyOf({ preload, retention, lifecycle, trust }: Settings): Policy {
  return {
    lifecycle: {
      soakMs: lifecycle.soak,
      require: lifecycle.require,
      ignore: lifecycle.ignore,
      keep: lifecycle.keep,
      removeImages: lifecycle.remove_images,
      makeRoom: lifecycle.make_room,
      protect: lifecycle.protect,
    },
    trust: { require: trust.require, threshold: trust.threshold, approved: trust.approved },
    parallelPulls: preload.parallel,
    minFreePercent: preload.min_free_percent,
    keepBlobs: retention.blobs === 'kept',
    online: preload.online,
  };
}

interface RunningParts {
  readonly engine: Engine;
  readonly media: Media;
  readonly runtime: RuntimeAdapter;
  readonly authority: string;
  readonly options: DaemonOptions;
}

/** From `READY=1` to the mirrors' end. INVARIANT: `STOPPING=1` goes out before anything is waited for. */
async function runParts(
  { engine, media, runtime, authority, options }: RunningParts,
  signal: AbortSignal,
): Promise<void> {
  const { log, notifier } = options;
  signal.addEventListener('abort', notifier.stopping, { once: true });
  await media.start(signal);
  notifier.ready();
  log.info({ messageId: messageIds.daemonStarted }, `stickpin started; its registry listens on ${authority}`);
  await engine.run(signal);
  log.info(
    { messageId: messageIds.daemonStopping },
    'stickpin stops; pins stay, and what was not loaded is loaded after the next start',
  );
  await withdrawMirrors(runtime, log);
}

/** Mirrors lead to our registry, which ends with us; the runtime would ask a closed port first until somebody cleans up. */
async function withdrawMirrors(runtime: RuntimeAdapter, log: Log): Promise<void> {
  try {
    await runtime.applyMirrors([], AbortSignal.timeout(WITHDRAW_MS));
  } catch (error) {
    if (error instanceof AppError && error.code === 'runtime/unreachable') return;
    log.warn({ err: error }, `The mirrors could not be taken away: ${reasonOf(error)}; the next start does it`);
  }
}

const WITHDRAW_MS = 5_000;

function mediaOf(options: DaemonOptions, trust: TrustKeeper, documents: Documents = documentsHere): Media {
  const { settings, clock, log, providers, watchBundle } = options;
  const directories = [
    ...settings.media.directories.map((path) => ({ path, layout: 'medium' as const })),
    { path: settings.media.incoming, layout: 'folder' as const },
  ];
  return createMedia({
    providers: [createDirectoryMedia({ directories, clock }), createLoadedMedia({ log }), ...providers],
    log,
    ...(watchBundle !== undefined && { watchBundle }),
    judge: async (bundles, signal) => {
      const trustRevision = trust.revision();
      return { bundles: await judgeBundles(bundles, { trust: trust.trust(), documents }, signal), trustRevision };
    },
  });
}

function listenTarget({ settings, registryFd }: DaemonOptions): ListenTarget {
  if (registryFd !== undefined) return { fd: registryFd };
  const colon = settings.registry.listen.lastIndexOf(':');
  const host = settings.registry.listen.slice(0, colon);
  return { host, port: Number(settings.registry.listen.slice(colon + 1)) };
}

/** How often the folder of keys is read without a sign of a change: permissions and mounts change without one. */
const REREAD_KEYS_MS = 30_000;

interface WatchedKeys {
  readonly settings: Settings;
  readonly trust: TrustKeeper;
  readonly engine: Engine;
  readonly clock: Clock;
  readonly log: Log;
}

/** Reads the keys again when their folder changes, and now and then; a round follows when something is other than before. */
function watchKeys({ settings, trust, engine, clock, log }: WatchedKeys): { reload: () => void; stop: () => void } {
  const stop = new AbortController();
  let seen = trust.revision();
  const taken = () => {
    const now = trust.revision();
    if (now !== seen) engine.kick();
    seen = now;
  };
  const reload = () => {
    trust.reload(stop.signal, taken).catch((error: unknown) => {
      if (!stop.signal.aborted) log.warn({ err: error }, `The keys could not be read again: ${reasonOf(error)}`);
    });
  };
  const unwatch = watchConfig([settings.trust.keys_dir], { ownPaths: [], log }, reload);
  const poll = async () => {
    while (!stop.signal.aborted) {
      await clock.sleep(REREAD_KEYS_MS, stop.signal);
      reload();
    }
  };
  poll().catch(() => undefined);
  return {
    reload,
    stop: () => {
      stop.abort();
      unwatch();
    },
  };
}
