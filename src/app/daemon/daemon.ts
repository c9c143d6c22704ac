import { join } from 'node:path';
import { createWorkerDocuments, type Documents, documentsHere } from '../../bundle/documents/worker-documents.ts';
import { judgeBundles } from '../../bundle/verify/judge-bundles.ts';
import type { RuntimeObservation } from '../../domain/model/image.ts';
import { minFreePercent } from '../../domain/preload/space.ts';
import type { StatusReport } from '../../domain/report/status-schema.ts';
import { imagesEnv } from '../../domain/report/texts/images-env.ts';
import { hasSources } from '../../domain/settings/settings.ts';
import { Engine } from '../../engine/loop/engine.ts';
import { DirectoryMedia } from '../../media/directory-media.ts';
import { LoadedMedia } from '../../media/loaded-media.ts';
import { Media } from '../../media/media.ts';
import type { MediaProvider } from '../../media/media-provider.ts';
import { reasonOf } from '../../platform/app-error.ts';
import { createDisposalStack, type DisposalStack } from '../../platform/async/disposal.ts';
import { readIfPresent, syncFolder } from '../../platform/files/durable-file.ts';
import type { BlobSource } from '../../ports/blobs.ts';
import type { HookRunner } from '../../ports/node.ts';
import type { BootMark, StoragePort } from '../../ports/runtime.ts';
import { createBlobUnion } from '../../registry/blob-union.ts';
import { PeerUsers } from '../../registry/peer-users.ts';
import { createRegistry, type ListenTarget, type Registry, type RegistryOptions } from '../../registry/server.ts';
import { createRuntime } from '../../runtime/create-runtime.ts';
import { documentsOf } from '../../runtime/detected-runtime.ts';
import type { RuntimeAdapter } from '../../runtime/runtime-adapter.ts';
import { FileBlobs } from '../../store/files/blobs/blob-store.ts';
import { openBootMark } from '../../store/files/boot-mark.ts';
import { lockFolders } from '../../store/files/folder-lock.ts';
import { FileLayers } from '../../store/files/layers/layer-store.ts';
import { openRegistryToken } from '../../store/files/registry-token.ts';
import { createReleaseFiles } from '../../store/files/release-files.ts';
import { createSignedFiles } from '../../store/files/signed-files.ts';
import { watchKeys } from './changes.ts';
import { ConsoleFile } from './console-file.ts';
import type { DaemonFleet } from './fleet.ts';
import type { MetricsFile } from './metrics.ts';
import { type NodeState, openNodeState } from './node-state.ts';
import { PublishedFiles } from './published-files.ts';
import { type DaemonOptions, runDaemon } from './run-daemon.ts';
import { createSignedBundles } from './signed-bundles.ts';
import { type KeyRestorer, type KeyRevoker, resetStream, type StreamResetter } from './trust/key-commands.ts';
import { createTrustKeeper, type TrustKeeper } from './trust/trust-keeper.ts';

export interface Daemon {
  readonly engine: Engine;
  readonly media: Media;
  /** Runs until `signal` aborts, then stops everything in reverse order. */
  run(signal: AbortSignal): Promise<void>;
  /** Removes the stored revocation of a key. */
  readonly restoreKey: KeyRestorer;
  /** Revokes a key everywhere. */
  readonly revokeKey: KeyRevoker;
  /** Resets what protects a stream from older bundles, and the keys that it brought. */
  readonly resetStream: StreamResetter;
  /** Reads the folder of keys now, as after a change. */
  reloadKeys(): void;
  /** Observes the runtime now. */
  observeRuntime(signal: AbortSignal): Promise<RuntimeObservation>;
}

/**
 * Builds the daemon. Its resources are released in reverse order.
 *
 * @throws AppError `store/…`, `registry/listen` (`fatal`) when the daemon can't work at all
 */
export async function createDaemon(options: DaemonOptions, signal: AbortSignal): Promise<Daemon> {
  const { settings, clock, log } = options;
  const disposal = createDisposalStack();
  const undo = () =>
    disposal.dispose((what, error) => log.warn({ err: error }, `Stopping ${what} failed: ${reasonOf(error)}`));
  try {
    const opened = await open(options, disposal, signal);
    const { media, runtime, trust, authority, state } = opened;
    const engine = createEngine(options, opened);
    opened.built();
    const keys = watchKeys({ settings, trust, engine, clock, log });
    disposal.defer('the watch on the keys', keys.stop);
    return {
      engine,
      media,
      observeRuntime: (inner) => runtime.observe(inner),
      revokeKey: (name, uid) => trust.revoke(name, uid).finally(engine.kick),
      resetStream: (stream, uid) =>
        resetStream(stream, uid, { store: state.store, engine, clock, log }).finally(engine.kick),
      restoreKey: async (name, uid) => {
        const message = await trust.restore(name, uid);
        engine.kick();
        return message;
      },
      reloadKeys: keys.reload,
      run: (inner) => runDaemon({ engine, media, runtime, authority, options }, inner).finally(undo),
    };
  } catch (error) {
    await undo();
    throw error;
  }
}

/**
 * Opens what the engine works with. Call `built` when the daemon can run. `authority` is where the
 * registry listens, for example `127.0.0.1:5317`.
 */
async function open(options: DaemonOptions, disposal: DisposalStack, signal: AbortSignal) {
  const { settings, clock, log, node, units } = options;
  const { state, mark, built } = await openRecords(options, disposal, signal);
  const published = await openPublishedFiles(options);
  disposal.defer('the published files', published.settled);
  disposal.defer('the text for the console', () => published.console?.close());
  const trust = await openTrust(options, state, signal);
  disposal.defer('the stored revocations', trust.remember);
  const documentParser = openDocuments(options, disposal);
  const files = createFileStores(options);
  const fleet = await openFleet(options, files.documents, disposal);
  const media = createDaemonMedia(options, trust, documentParser, fleet?.providers);
  disposal.defer('the media', () => media.dispose());
  const source = createBlobUnion({ onDisk: [files.documents, files.layers], media: media.blobs });
  const token = await openRegistryToken(join(settings.paths.state_dir, 'registry-token'), log);
  const registry = createDaemonRegistry(options, {
    source,
    layers: files.layers,
    token,
    isHeld: async (reference, inner) => (await runtime.image(reference, inner)) !== undefined,
  });
  disposal.defer('the registry', registry.close);
  const authority = await registry.listen(listenTarget(options));
  const ownRuntime = createRuntime({ settings, units, mirror: { authority, token }, arch: node.arch, clock, log });
  const runtime = options.watchRuntime?.(ownRuntime) ?? ownRuntime;
  disposal.defer('the runtime client', runtime.close);
  const signed = createSignedFiles(join(settings.paths.state_dir, 'blobs/bundles'));
  await fleet?.serve({ media, signed, ...files, content: runtime.storedBlobs, trust, parsers: documentParser });
  const parts = { state, mark, trust, files, fleet, media, source, registry, runtime, signed, published };
  return { ...parts, documentParser, authority, built };
}

type Opened = Awaited<ReturnType<typeof open>>;

function createEngine(options: DaemonOptions, opened: Opened): Engine {
  const { settings, clock, log, node } = options;
  const { state, mark, trust, files, fleet, media, source, registry, runtime, signed, published } = opened;
  return new Engine({
    clock,
    log,
    policy: settings,
    store: state.store,
    pinLedger: state.pinLedger,
    floors: state.floors,
    hookStore: state.hooks,
    stateProblems: state.problems,
    isStateLost: state.isLost,
    afterRound: state.afterRound,
    bootMark: mark,
    trust,
    node,
    media,
    runtime,
    containers: runtime,
    content: runtime,
    storedDocuments: documentsOf(runtime),
    source,
    documents: files.documents,
    layers: files.layers,
    releaseFiles: files.releaseFiles,
    signedBundles: createSignedBundles({
      files: signed,
      blobs: files.documents,
      readerOf: (bundleId) => media.readerOf(bundleId),
      trust: trust.trust,
      documents: opened.documentParser,
    }),
    meter: registry.meter,
    probes: registry.probes,
    setCatalog: registry.setCatalog,
    stallMs: settings.preload.stall,
    disk: diskOf(options, runtime),
    hookRunner: options.hookRunner ?? NO_SYSTEMD,
    staticPods: options.staticPods,
    fleet: options.fleet ?? fleet?.port,
    notifier: options.notifier,
    random: Math.random,
    statusSettled: published.settled,
    onStatus: (report) => publish(report, options, opened),
    afterEffect: (effect) => {
      if (effect.kind === 'adopt-bundle') void trust.remember();
      options.afterEffect?.(effect);
    },
  });
}

function publish(report: StatusReport, options: DaemonOptions, opened: Opened): void {
  const { state, trust, published, fleet, registry } = opened;
  const { bundles } = state.store.load();
  published.files.publish({ imagesEnv: imagesEnv(bundles, options.settings.trust.threshold), report });
  published.metrics?.publish(report, registry.meter.totalBytes());
  published.console?.publish(report);
  fleet?.reported(report, { bundles, trustRevision: trust.revision() });
  options.onStatus?.(report);
}

/** Opens what is recorded, once no other daemon has it. Call `built` when the daemon can run. */
async function openRecords(
  { settings, clock, log, node }: DaemonOptions,
  disposal: DisposalStack,
  signal: AbortSignal,
): Promise<{ readonly state: NodeState; readonly mark: BootMark; readonly built: () => void }> {
  const { state_dir: stateDirectory, run_dir: runDirectory } = settings.paths;
  disposal.defer(
    'the locks',
    await lockFolders([stateDirectory, runDirectory], { program: 'stickpin', clock, log }, signal),
  );
  const state = await openNodeState(settings, { clock, log });
  disposal.defer('the database', state.close);
  const mark = await openBootMark(
    { path: join(stateDirectory, 'running.json'), bootId: node.boot().bootId, now: clock.now(), log },
    signal,
  );
  let isBuilt = false;
  // A start that fails leaves the mark, since the run before it may have ended by a crash.
  disposal.defer('the mark of a run', async () => {
    if (isBuilt) await mark.stopped();
  });
  const built = () => {
    isBuilt = true;
  };
  return { state, mark, built };
}

/** Loaded only where it is used, so that it takes no memory elsewhere. */
async function openFleet(
  options: DaemonOptions,
  documents: BlobSource,
  disposal: DisposalStack,
): Promise<DaemonFleet | undefined> {
  const { settings } = options;
  if (!settings.fleet.enabled && !hasSources(settings)) return undefined;
  const { createDaemonFleet } = await import('./fleet.ts');
  const fleet = createDaemonFleet(options, { documents });
  disposal.defer('the offers to other nodes', fleet.close);
  return fleet;
}

function openDocuments({ documentWorker }: DaemonOptions, disposal: DisposalStack): Documents {
  if (documentWorker === undefined) return documentsHere;
  const worker = createWorkerDocuments({ program: documentWorker });
  disposal.defer('the thread for documents', worker.close);
  return worker;
}

/** Where a runtime keeps images may change with its settings. */
function diskOf({ disk, settings }: DaemonOptions, runtime: RuntimeAdapter): StoragePort | undefined {
  if (disk === undefined) return undefined;
  const sync = async (signal: AbortSignal) => {
    const paths = await runtime.storagePaths(signal).catch(() => []);
    signal.throwIfAborted();
    // Where they are not known, all filesystems are synced.
    await disk.sync(paths.length === 0 ? [] : [...paths, settings.paths.state_dir], signal);
  };
  return { sync };
}

/** Where no systemd is reached, as in a rehearsal. */
const NO_SYSTEMD: HookRunner = { run: async () => ({ kind: 'unasked', message: 'there is no systemd here' }) };

interface Published {
  readonly files: PublishedFiles;
  /** Where the settings ask for them. */
  readonly metrics: MetricsFile | undefined;
  /** Where the settings ask for it. */
  readonly console: ConsoleFile | undefined;
  settled(): Promise<void>;
}

async function openPublishedFiles({
  settings,
  node,
  clock,
  log,
  agettyReload: reload,
}: DaemonOptions): Promise<Published> {
  const { state_dir: stateDirectory, run_dir: runDirectory } = settings.paths;
  const files = new PublishedFiles({
    stateDirectory,
    runDirectory,
    bootId: node.boot().bootId,
    arch: node.arch,
    clock,
    log,
    imagesEnvBefore: await readImagesEnv(stateDirectory),
  });
  const path = settings.metrics.textfile;
  // Loaded only where it is asked for: it costs memory and time at the start.
  const metrics =
    path === undefined ? undefined : (await import('./metrics.ts')).createMetricsFile({ path, clock, log });
  const hasConsole = settings.console.issue && reload !== undefined;
  const console = hasConsole ? new ConsoleFile({ runDirectory, clock, log, reload }) : undefined;
  const settled = async () => void (await Promise.all([files, metrics, console].map((each) => each?.settled())));
  return { files, metrics, console, settled };
}

/**
 * One that can't be read counts as none: it is written again, and other programs could not read it
 * either.
 */
async function readImagesEnv(stateDirectory: string): Promise<string> {
  return (await readIfPresent(join(stateDirectory, 'images.env')).catch(() => undefined)) ?? '';
}

function openTrust(
  { settings, keysAreGuarded, clock, log }: DaemonOptions,
  { store, hidesRevocations }: NodeState,
  signal: AbortSignal,
): Promise<TrustKeeper> {
  const guard = keysAreGuarded === false ? {} : { ownUid: process.getuid?.() ?? 0 };
  return createTrustKeeper({ settings: settings.trust, ...guard, store, hidesRevocations, clock, log }, signal);
}

/**
 * What is kept on the node's own disk: documents, layers, and the files that travel with releases.
 */
function createFileStores({ settings, node, log }: DaemonOptions) {
  const directory = settings.paths.state_dir;
  const kept = () => minFreePercent(settings.preload, node.facts());
  return {
    documents: new FileBlobs(join(directory, 'blobs'), syncFolder, kept),
    layers: new FileLayers({ folder: join(directory, 'blobs/layers'), minFreePercent: kept, log }),
    releaseFiles: createReleaseFiles(join(directory, 'releases')),
  };
}

/**
 * All media of the daemon: directories of the settings, what `stickpin load` names,
 * `options.providers`, and other nodes. @param peers default none
 */
function createDaemonMedia(
  options: DaemonOptions,
  trust: TrustKeeper,
  documents: Documents = documentsHere,
  peers: readonly MediaProvider[] = [],
): Media {
  const { settings, clock, log, providers, watchBundle } = options;
  const directories = [
    ...settings.media.directories.map((path) => ({ path, layout: 'medium' as const })),
    { path: settings.media.incoming, layout: 'folder' as const },
  ];
  return new Media({
    providers: [new DirectoryMedia({ directories, clock }), new LoadedMedia({ log }), ...providers, ...peers],
    log,
    ...(watchBundle !== undefined && { watchBundle }),
    judge: async (bundles, signal, last) => {
      const trustRevision = trust.revision();
      const known = last?.trustRevision === trustRevision ? last.bundles : [];
      const judged = await judgeBundles(bundles, { trust: trust.trust(), documents, known }, signal);
      return { bundles: judged, trustRevision };
    },
  });
}

/**
 * Creates a registry for the users of `registry.allow_uids` and the daemon's own user. It does not
 * listen yet.
 */
function createDaemonRegistry(
  { settings, clock, log }: DaemonOptions,
  { source, layers, token, isHeld }: Pick<RegistryOptions, 'source' | 'layers' | 'isHeld'> & { readonly token: string },
): Registry {
  const allowedUids = new Set([...settings.registry.allow_uids, process.getuid?.() ?? 0]);
  const peers = new PeerUsers({ clock });
  return createRegistry({
    source,
    clock,
    log,
    token,
    ...(isHeld !== undefined && { isHeld }),
    graceMs: settings.media.grace,
    waitsForOffers: true,
    ...(layers !== undefined && { layers }),
    admit: async (socket) => {
      const uid = await peers.uidOf(socket);
      return uid !== undefined && allowedUids.has(uid) ? `uid ${uid}` : undefined;
    },
    isOpen: async (socket) => (await peers.uidOf(socket)) !== undefined,
  });
}

/** Where the registry listens: the inherited socket, otherwise `registry.listen`. */
function listenTarget({ settings, registryFd }: DaemonOptions): ListenTarget {
  if (registryFd !== undefined) return { fd: registryFd };
  const colon = settings.registry.listen.lastIndexOf(':');
  const host = settings.registry.listen.slice(0, colon);
  return { host, port: Number(settings.registry.listen.slice(colon + 1)) };
}
