import type { BundleReader } from '../bundle/read/bundle-reader.ts';
import type { BundleId } from '../domain/model/digest.ts';
import type { FoundBundle, Medium, MediumId } from '../domain/model/medium.ts';
import { untilAborted, withDeadline, withEither } from '../platform/async/abort.ts';
import { inPlace } from '../platform/async/concurrency.ts';
import type { Log } from '../platform/log.ts';
import { messageIds } from '../platform/message-ids.ts';
import type { Unsubscribe } from '../platform/subscription.ts';
import type { MediaPort } from '../ports/media.ts';
import type { HeldBundles } from './held-bundles.ts';
import { boundedBundle } from './loaded-media.ts';
import { MediaBlobs } from './media-blobs.ts';
import {
  type BundleAccess,
  type MediaProvider,
  type MediaSink,
  type MediumBundle,
  mediaError,
  type OpenMedium,
} from './media-provider.ts';
import { checkMounts, type ReadMounts } from './mount-look.ts';
import { mediumOf, type Slot, Slots } from './slots.ts';

export interface Judgement {
  /** The bundles, sorted by path. */
  readonly bundles: readonly FoundBundle[];
  readonly trustRevision: string;
}

export interface MediaDeps {
  readonly providers: readonly MediaProvider[];
  /** May throw AppError `media/gone`, `media/read`. */
  readonly judge: (
    bundles: readonly MediumBundle[],
    signal: AbortSignal,
    /** The last judgement of the same medium, when it is another node. */
    last?: Judgement,
  ) => Promise<Judgement>;
  /** Wraps each bundle, to observe its reads. */
  readonly watchBundle?: (bundle: BundleAccess) => BundleAccess;
  /** It gets debug lines, and a warning when a transfer switches to another medium. */
  readonly log: Log;
  /** Pauses after failed mounts and reads. Default 2 s, 10 s and 60 s. */
  readonly retryMs?: readonly number[];
  /** Default: `/proc/self/mountinfo`. */
  readonly readMounts?: ReadMounts;
}

/** How long a mount waits for the removal of the previous one. */
const RELEASE_MS = 35_000;

export class Media implements MediaPort {
  /** The verified bundles of all media. */
  readonly blobs: MediaBlobs;
  /** The bundles of this node, which it may offer to others. */
  readonly held: HeldBundles;
  private readonly slots: Slots;
  private isStarted = false;

  constructor(private readonly deps: MediaDeps) {
    const { log, retryMs = [2_000, 10_000, 60_000] } = deps;
    this.blobs = new MediaBlobs(log);
    this.held = { list: async () => this.blobs.held(), onChange: (listener) => this.blobs.onChange(listener) };
    this.slots = new Slots(this.blobs, retryMs, log);
  }

  list(): readonly Medium[] {
    return [...this.slots.byId.values()].map(mediumOf);
  }

  isListed(): boolean {
    return this.isStarted && this.deps.providers.every((provider) => provider.isListed?.() ?? true);
  }

  onChange(listener: () => void): Unsubscribe {
    return this.slots.onChange(listener);
  }

  /** Returns undefined when no plugged medium has it. No I/O. */
  readerOf(bundleId: BundleId): BundleReader | undefined {
    return this.blobs.bundle(bundleId)?.reader;
  }

  refresh(signal: AbortSignal): Promise<void> {
    return this.followMounts([...this.slots.byId.values()], signal);
  }

  /** @throws AppError of the first provider that fails */
  async start(signal: AbortSignal): Promise<void> {
    const sink: MediaSink = {
      arrived: (plugged) => this.slots.arrive(plugged),
      changed: (mediumId) => this.slots.changed(mediumId),
      left: (mediumId) => this.slots.leave(mediumId),
      turned: () => {
        this.blobs.notify();
        this.slots.notify();
      },
      listed: () => this.slots.notify(),
    };
    for (const provider of this.deps.providers) await provider.start(sink, signal);
    this.isStarted = true;
  }

  async rescan(signal: AbortSignal): Promise<void> {
    for (const provider of this.deps.providers) await provider.rescan(signal);
    for (const mediumId of this.slots.byId.keys()) this.slots.changed(mediumId);
  }

  /** Returns the label. @throws AppError `media/load` (`reject`) */
  async load(given: string, signal: AbortSignal): Promise<string> {
    if (!this.isStarted) throw mediaError('media/load', 'The daemon is still starting; try again in a moment');
    const path = given.length > 1 ? given.replace(/\/+$/, '') : given;
    const plugged = [...this.slots.byId.values()].find((slot) => carries(slot, path));
    if (plugged !== undefined) {
      this.slots.changed(plugged.plugged.mediumId);
      return plugged.plugged.label;
    }
    for (const provider of this.deps.providers) {
      const label = await provider.load?.(path, signal);
      if (label !== undefined) return label;
    }
    throw mediaError(
      'media/load',
      `${path} is a device, and media.detect is false: mount it, and load the place where it is mounted`,
    );
  }

  async mount(mediumId: MediumId, signal: AbortSignal): Promise<void> {
    const slot = this.slots.byId.get(mediumId);
    if (slot === undefined || !['attached', 'failed'].includes(slot.state.kind)) return;
    await this.runStep(slot, signal, async (both) => {
      const { releasing } = this.slots;
      await withDeadline('The release of the last mount', RELEASE_MS, both, async () => releasing.get(mediumId));
      slot.opened = await slot.plugged.open(both);
      both.throwIfAborted();
      const fields = { medium: slot.plugged.label, messageId: messageIds.mediumMounted, path: slot.opened.place };
      this.deps.log.debug(fields, 'Medium mounted');
      this.slots.move(slot, { kind: 'mounted' });
    });
  }

  async read(mediumId: MediumId, signal: AbortSignal): Promise<void> {
    const slot = this.slots.byId.get(mediumId);
    // An unmounted medium leaves an empty directory, which must not count as a medium without
    // bundles.
    if (slot?.plugged.mountPoints !== undefined) await this.followMounts([slot], signal);
    if (slot?.opened === undefined || !['mounted', 'read'].includes(slot.state.kind)) return;
    const { opened } = slot;
    await this.runStep(slot, signal, (both) => this.judgeSlot(slot, opened, both));
  }

  /** Ends every open stream. Mounts stay for the next start. */
  async dispose(): Promise<void> {
    for (const provider of this.deps.providers) await provider.dispose();
    this.slots.endAll();
    this.blobs.forgetAll();
  }

  private async judgeSlot(slot: Slot, opened: OpenMedium, signal: AbortSignal): Promise<void> {
    const { changes, plugged, state } = slot;
    const isPeer = plugged.peer !== undefined;
    const bundles = await this.bundlesOf(slot, opened, signal);
    const last = isPeer && state.kind === 'read' ? state : undefined;
    const { bundles: found, trustRevision } = await this.deps.judge(bundles, signal, last);
    const judged = isPeer ? found.map(withoutEnvelope) : found;
    signal.throwIfAborted();
    const isStale = slot.changes !== changes;
    if (isStale && !isPeer) return; // it is `mounted` again and will be read again
    this.blobs.offer({ plugged, gone: slot.gone.signal, bundles, judged });
    slot.failures = 0;
    this.slots.move(slot, { kind: 'read', bundles: judged, trustRevision, ...(isStale && { isStale }) });
  }

  /** Other nodes are read through a socket, which takes no thread. */
  private async bundlesOf(
    { plugged, places }: Slot,
    opened: OpenMedium,
    signal: AbortSignal,
  ): Promise<readonly MediumBundle[]> {
    const find = () => opened.findBundles(signal);
    if (plugged.peer !== undefined) return (await find()).map((one) => this.watched(one));
    const found = await inPlace(places, signal, find);
    return found
      .map((one) => this.watched(one))
      .map((one) => (one.kind === 'bundle' ? boundedBundle(one, places) : one));
  }

  private watched(bundle: MediumBundle): MediumBundle {
    const { watchBundle } = this.deps;
    return bundle.kind === 'bundle' && watchBundle !== undefined ? { ...bundle, ...watchBundle(bundle) } : bundle;
  }

  /**
   * A medium without a mount becomes `unmounted`; one with another mount point becomes `attached`.
   */
  private async followMounts(media: readonly Slot[], signal: AbortSignal): Promise<void> {
    const followed = media.filter(({ opened, state }) => opened !== undefined || state.kind === 'unmounted');
    const before = new Map(followed.map((slot) => [slot, slot.state]));
    for (const [slot, fate] of await checkMounts(followed, this.deps.readMounts, signal)) {
      if (slot.gone.signal.aborted || slot.state !== before.get(slot)) continue; // the next round checks it again
      if (fate === 'gone' && slot.opened !== undefined) this.slots.losePlace(slot, { kind: 'unmounted' });
      if (fate === 'elsewhere') this.slots.losePlace(slot, { kind: 'attached' });
    }
  }

  /** An error becomes the state of the medium, unless it is gone or the caller aborted. */
  private async runStep(slot: Slot, signal: AbortSignal, run: (signal: AbortSignal) => Promise<void>): Promise<void> {
    const { changes } = slot;
    try {
      await withEither([signal, slot.gone.signal], (both) => untilAborted(run(both), both));
    } catch (error) {
      if (slot.gone.signal.aborted) return;
      signal.throwIfAborted();
      if (slot.changes === changes) this.slots.fail(slot, error);
    }
  }
}

/** A medium at `path`, or in the folder of bundles, is read again and not listed twice. */
function carries({ plugged, opened }: Slot, path: string): boolean {
  if (plugged.mediumId === `load:${path}`) return false; // its provider knows whether it is the same one
  const place = opened?.place ?? plugged.label;
  return path === place || path.startsWith(plugged.isDropFolder ? `${place}/` : `${place}/stickpin/`);
}

/** A node without layers may have them in a moment, so its bundle is no envelope. */
function withoutEnvelope(found: FoundBundle): FoundBundle {
  return found.kind === 'verified' ? { ...found, isEnvelope: false } : found;
}
