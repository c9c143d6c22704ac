import type { BundleReader } from '../bundle/read/bundle-reader.ts';
import type { BundleId } from '../domain/model/digest.ts';
import type { FoundBundle, MediumId } from '../domain/model/medium.ts';
import type { HeldBundles } from '../offers/kept-bundles.ts';
import { untilAborted, withDeadline, withEither } from '../platform/async/abort.ts';
import { createPlaces, inPlace } from '../platform/async/concurrency.ts';
import type { Log } from '../platform/log.ts';
import { messageIds } from '../platform/message-ids.ts';
import { listen, notifyAll } from '../platform/subscription.ts';
import type { BlobUnion } from '../ports/blobs.ts';
import type { MediaPort } from '../ports/media.ts';
import { boundedBundle, MEDIUM_CALLS } from './loaded-media.ts';
import {
  bundleOnMedia,
  createMediaBlobs,
  forgetAllMedia,
  heldOnMedia,
  mediaBlobUnion,
  offerMedium,
} from './media-blobs.ts';
import {
  type BundleAccess,
  loadError,
  type MediaProvider,
  type MediaSink,
  type MediumBundle,
  type OpenMedium,
} from './media-provider.ts';
import { createMountLook, type ReadMounts } from './mount-look.ts';
import { arrive, changed, endAll, fail, leave, losePlace, mediumOf, move, type Slot, type Slots } from './slots.ts';

export interface Judgement {
  /** By path. */
  readonly bundles: readonly FoundBundle[];
  readonly trustRevision: string;
}

export interface MediaDeps {
  readonly providers: readonly MediaProvider[];
  /** May throw AppError `media/gone`, `media/read`. */
  readonly judge: (
    bundles: readonly MediumBundle[],
    signal: AbortSignal,
    /** Of the same medium, when it is another node. */
    last?: Judgement,
  ) => Promise<Judgement>;
  /** Wraps each bundle, to observe its reads. */
  readonly watchBundle?: (bundle: BundleAccess) => BundleAccess;
  /** For debug lines, and a warning when a transfer switches to another medium. */
  readonly log: Log;
  /** Pauses after failed mounts and reads. Default 2 s, 10 s and 60 s. */
  readonly retryMs?: readonly number[];
  /** Default: `/proc/self/mountinfo`. */
  readonly readMounts?: ReadMounts;
}

export interface Media extends MediaPort {
  /** Of the verified bundles of all media. */
  readonly blobs: BlobUnion;
  /** Undefined when no plugged medium has it. No I/O. */
  readerOf(bundleId: BundleId): BundleReader | undefined;
  /** Of this node, which it may offer to others. */
  readonly held: HeldBundles;
  /** @throws AppError of the first provider that fails */
  start(signal: AbortSignal): Promise<void>;
  rescan(signal: AbortSignal): Promise<void>;
  /** Returns the label. @throws AppError `media/load` (`reject`) */
  load(path: string, signal: AbortSignal): Promise<string>;
  /** Ends every open stream. Mounts stay for the next start. */
  dispose(): Promise<void>;
}

interface MediaWork {
  readonly deps: MediaDeps;
  readonly slots: Slots;
  readonly lookAtMounts: ReturnType<typeof createMountLook>;
  isStarted: boolean;
}

/** How long a mount waits for the removal of the previous one. */
const RELEASE_MS = 35_000;

export function createMedia(deps: MediaDeps): Media {
  const { log, retryMs = [2_000, 10_000, 60_000] } = deps;
  const slots: Slots = {
    byId: new Map(),
    listeners: new Set(),
    releasing: new Map(),
    blobs: createMediaBlobs(log),
    places: createPlaces(MEDIUM_CALLS.ofAll),
    retryMs,
    log,
  };
  const work: MediaWork = { deps, slots, lookAtMounts: createMountLook(deps.readMounts), isStarted: false };
  return {
    blobs: mediaBlobUnion(slots.blobs),
    readerOf: (bundleId) => bundleOnMedia(slots.blobs, bundleId)?.reader,
    held: {
      list: async () => heldOnMedia(slots.blobs),
      onChange: (listener) => listen(slots.blobs.listeners, listener),
    },
    list: () => [...slots.byId.values()].map(mediumOf),
    isLookedAt: () => work.isStarted && deps.providers.every((provider) => provider.isLookedAt?.() ?? true),
    onChange: (listener) => listen(slots.listeners, listener),
    refresh: (signal) => followMounts(work, [...slots.byId.values()], signal),
    mount: (mediumId, signal) => openMedium(work, mediumId, signal),
    read: (mediumId, signal) => readMedium(work, mediumId, signal),
    start: (signal) => startProviders(work, signal),
    rescan: (signal) => rescanAll(work, signal),
    load: (path, signal) => loadNamed(work, path, signal),
    dispose: async () => {
      for (const provider of deps.providers) await provider.dispose();
      endAll(slots);
      forgetAllMedia(slots.blobs);
    },
  };
}

async function startProviders(work: MediaWork, signal: AbortSignal): Promise<void> {
  const { slots } = work;
  const sink: MediaSink = {
    arrived: (plugged) => arrive(slots, plugged),
    changed: (mediumId) => changed(slots, mediumId),
    left: (mediumId) => leave(slots, mediumId),
    turned: () => {
      notifyAll(slots.blobs.listeners);
      notifyAll(slots.listeners);
    },
    lookedAt: () => notifyAll(slots.listeners),
  };
  for (const provider of work.deps.providers) await provider.start(sink, signal);
  work.isStarted = true;
}

async function rescanAll({ deps, slots }: MediaWork, signal: AbortSignal): Promise<void> {
  for (const provider of deps.providers) await provider.rescan(signal);
  for (const mediumId of slots.byId.keys()) changed(slots, mediumId);
}

async function loadNamed({ deps, slots, isStarted }: MediaWork, given: string, signal: AbortSignal): Promise<string> {
  if (!isStarted) throw loadError('The daemon is still starting; try again in a moment');
  const path = given.length > 1 ? given.replace(/\/+$/, '') : given;
  const plugged = [...slots.byId.values()].find((slot) => carries(slot, path));
  if (plugged !== undefined) {
    changed(slots, plugged.plugged.mediumId);
    return plugged.plugged.label;
  }
  for (const provider of deps.providers) {
    const label = await provider.load?.(path, signal);
    if (label !== undefined) return label;
  }
  throw loadError(`${path} is a device, and media.detect is false: mount it, and load the place where it is mounted`);
}

/** A medium at `path`, or in the folder of bundles, is read again and not listed twice. */
function carries({ plugged, opened }: Slot, path: string): boolean {
  if (plugged.mediumId === `load:${path}`) return false; // its provider knows whether it is the same one
  const place = opened?.place ?? plugged.label;
  return path === place || path.startsWith(plugged.isDropFolder ? `${place}/` : `${place}/stickpin/`);
}

async function openMedium(work: MediaWork, mediumId: MediumId, signal: AbortSignal): Promise<void> {
  const { slots, deps } = work;
  const slot = slots.byId.get(mediumId);
  if (slot === undefined || !['attached', 'failed'].includes(slot.state.kind)) return;
  await runStep(slots, slot, signal, async (both) => {
    const { releasing } = slots;
    await withDeadline('The release of the last mount', RELEASE_MS, both, async () => releasing.get(mediumId));
    slot.opened = await slot.plugged.open(both);
    both.throwIfAborted();
    const fields = { medium: slot.plugged.label, messageId: messageIds.mediumMounted, path: slot.opened.place };
    deps.log.debug(fields, 'Medium mounted');
    move(slots, slot, { kind: 'mounted' });
  });
}

async function readMedium(work: MediaWork, mediumId: MediumId, signal: AbortSignal): Promise<void> {
  const { slots } = work;
  const slot = slots.byId.get(mediumId);
  // An unmounted medium leaves an empty directory, which must not count as a medium without
  // bundles.
  if (slot?.plugged.mountPoints !== undefined) await followMounts(work, [slot], signal);
  if (slot?.opened === undefined || !['mounted', 'read'].includes(slot.state.kind)) return;
  const { opened } = slot;
  await runStep(slots, slot, signal, (both) => judgeSlot(work, slot, opened, both));
}

async function judgeSlot(
  { deps, slots }: MediaWork,
  slot: Slot,
  opened: OpenMedium,
  signal: AbortSignal,
): Promise<void> {
  const { changes, plugged, state } = slot;
  const isPeer = plugged.peer !== undefined;
  const bundles = await bundlesOf(slot, opened, deps, signal);
  const last = isPeer && state.kind === 'read' ? state : undefined;
  const { bundles: found, trustRevision } = await deps.judge(bundles, signal, last);
  const judged = isPeer ? found.map(withoutEnvelope) : found;
  signal.throwIfAborted();
  const isStale = slot.changes !== changes;
  if (isStale && !isPeer) return; // it is `mounted` again and will be read again
  offerMedium(slots.blobs, { plugged, gone: slot.gone.signal, bundles, judged });
  slot.failures = 0;
  move(slots, slot, { kind: 'read', bundles: judged, trustRevision, ...(isStale && { isStale }) });
}

/** A node without layers may have them in a moment, so its bundle is no envelope. */
function withoutEnvelope(found: FoundBundle): FoundBundle {
  return found.kind === 'verified' ? { ...found, isEnvelope: false } : found;
}

/** Other nodes are read through a socket, which takes no thread. */
async function bundlesOf(
  { plugged, places }: Slot,
  opened: OpenMedium,
  deps: MediaDeps,
  signal: AbortSignal,
): Promise<readonly MediumBundle[]> {
  const find = () => opened.findBundles(signal);
  if (plugged.peer !== undefined) return (await find()).map((one) => watched(one, deps));
  const found = await inPlace(places, signal, find);
  return found
    .map((one) => watched(one, deps))
    .map((one) => (one.kind === 'bundle' ? boundedBundle(one, places) : one));
}

function watched(bundle: MediumBundle, { watchBundle }: MediaDeps): MediumBundle {
  return bundle.kind === 'bundle' && watchBundle !== undefined ? { ...bundle, ...watchBundle(bundle) } : bundle;
}

/**
 * A medium without a mount becomes `unmounted`; one with another mount point becomes `attached`.
 */
async function followMounts(
  { slots, lookAtMounts }: MediaWork,
  media: readonly Slot[],
  signal: AbortSignal,
): Promise<void> {
  const followed = media.filter(({ opened, state }) => opened !== undefined || state.kind === 'unmounted');
  const before = new Map(followed.map((slot) => [slot, slot.state]));
  for (const [slot, fate] of await lookAtMounts(followed, signal)) {
    if (slot.gone.signal.aborted || slot.state !== before.get(slot)) continue; // the next round checks it again
    if (fate === 'gone' && slot.opened !== undefined) losePlace(slots, slot, { kind: 'unmounted' });
    if (fate === 'elsewhere') losePlace(slots, slot, { kind: 'attached' });
  }
}

/** An error becomes the state of the medium, unless it is gone or the caller aborted. */
async function runStep(
  slots: Slots,
  slot: Slot,
  signal: AbortSignal,
  run: (signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const { changes } = slot;
  try {
    await withEither([signal, slot.gone.signal], (both) => untilAborted(run(both), both));
  } catch (error) {
    if (slot.gone.signal.aborted) return;
    signal.throwIfAborted();
    if (slot.changes === changes) fail(slots, slot, error);
  }
}
