import type { BundleLayout } from '../bundle/read/find-bundles.ts';
import type { FoundBundle, Medium, MediumId, MediumState, Reason } from '../domain/model/medium.ts';
import { AppError, reasonOf } from '../platform/app-error.ts';
import { untilAborted, withDeadline } from '../platform/async/abort.ts';
import type { Log } from '../platform/log.ts';
import { messageIds } from '../platform/message-ids.ts';
import { plainText } from '../platform/plain-text.ts';
import type { BlobUnion } from '../ports/blobs.ts';
import type { MediaPort } from '../ports/media.ts';
import { type BlobDirectory, createMediaBlobs } from './media-blobs.ts';
import { createMountLook, type ReadMounts } from './mount-look.ts';
import { loadError } from './provider/load-error.ts';
import type { MediaProvider, PluggedMedium } from './provider/media-provider.ts';

/** What was found on a medium, and by which keys it was judged. */
export interface Judgement {
  readonly bundles: readonly FoundBundle[];
  readonly trustRevision: string;
}

/** What {@link createMedia} needs. */
export interface MediaDeps {
  readonly providers: readonly MediaProvider[];
  /** Finds and judges the bundles below a directory. May throw AppError `media/gone`, `media/read`. */
  readonly judge: (root: string, layout: BundleLayout, signal: AbortSignal) => Promise<Judgement>;
  /** Access to the blobs of a bundle directory on the medium with this root. */
  readonly openBundle: (path: string, root: string) => BlobDirectory;
  /** For debugging, and where a transfer changes over to another medium: what else changed, the engine tells the operator. */
  readonly log: Log;
  /** Pauses before what failed and may work next time is tried again by itself, in milliseconds. Default 2 s, 10 s and 60 s. */
  readonly retryMs?: readonly number[];
  /** The mounts of this process. Default: `/proc/self/mountinfo`. */
  readonly readMounts?: ReadMounts;
}

/** Everything that is plugged in, and its blobs. */
export interface Media extends MediaPort {
  /** Blobs of the verified bundles of all media that were read. */
  readonly blobs: BlobUnion;
  /** Starts all providers. @throws AppError of the first that fails */
  start(signal: AbortSignal): Promise<void>;
  /** Has every provider look again, and every medium read again. */
  rescan(signal: AbortSignal): Promise<void>;
  /** Takes a medium that can't be detected by itself, and returns its label. @throws AppError `media/load` (`reject`) */
  load(path: string, signal: AbortSignal): Promise<string>;
  /** Stops watching and ends every open stream. Mounts stay: whoever starts next finds them. */
  dispose(): Promise<void>;
}

interface Slot {
  readonly plugged: PluggedMedium;
  /** Aborts with `media/gone` when the medium left. */
  readonly gone: AbortController;
  state: MediumState;
  root: string | undefined;
  /** How often what is on it has changed: what was read meanwhile is out of date. */
  changes: number;
  /** Failures since it last worked. */
  failures: number;
}

/** How long a mount waits for the one before it to be taken away. */
const RELEASE_MS = 35_000;

/** Composes providers into one {@link Media}. */
export function createMedia(deps: MediaDeps): Media {
  const slots = new Map<MediumId, Slot>();
  const listeners = new Set<() => void>();
  /** Mounts that are being taken away; the same place must not be mounted meanwhile. */
  const releasing = new Map<MediumId, Promise<void>>();
  let isStarted = false;
  const { retryMs = [2_000, 10_000, 60_000] } = deps;
  const lookAtMount = createMountLook(deps.readMounts);
  const blobs = createMediaBlobs(deps.openBundle, deps.log);

  const notify = (): void => {
    for (const listener of [...listeners]) listener();
  };
  const move = (slot: Slot, state: MediumState): void => {
    if (slots.get(slot.plugged.mediumId) !== slot) return;
    slot.state = state;
    notify();
  };
  const leave = (slot: Slot): void => {
    const { mediumId, label } = slot.plugged;
    slots.delete(mediumId);
    slot.gone.abort(goneError(label));
    blobs.remove(mediumId);
    deps.log.debug({ medium: label }, 'Medium gone');
    notify();
    const released = slot.plugged.release().finally(() => {
      if (releasing.get(mediumId) === released) releasing.delete(mediumId);
    });
    releasing.set(mediumId, released);
  };
  const sink = {
    arrived: (plugged: PluggedMedium) => {
      const before = slots.get(plugged.mediumId);
      if (before !== undefined) leave(before);
      slots.set(plugged.mediumId, {
        plugged,
        gone: new AbortController(),
        state: { kind: 'attached' },
        root: undefined,
        changes: 0,
        failures: 0,
      });
      deps.log.debug({ medium: plugged.label }, 'Medium found');
      notify();
    },
    changed: (mediumId: MediumId) => {
      const slot = slots.get(mediumId);
      if (slot === undefined) return;
      slot.changes += 1;
      move(slot, { kind: slot.root === undefined ? 'attached' : 'mounted' });
    },
    lookedAt: notify,
    left: (mediumId: MediumId) => {
      const slot = slots.get(mediumId);
      if (slot !== undefined) leave(slot);
    },
  };

  const fail = (slot: Slot, error: unknown): void => {
    const reason = reasonFor(error);
    deps.log.debug({ medium: slot.plugged.label, err: error }, 'Medium failed');
    const failed: MediumState = { kind: 'failed', reason };
    move(slot, failed);
    const pauseMs = retryMs[slot.failures];
    slot.failures += 1;
    if (pauseMs === undefined || !(error instanceof AppError) || error.disposition !== 'retry') return;
    const again = () => {
      if (slot.state === failed) sink.changed(slot.plugged.mediumId);
    };
    setTimeout(again, pauseMs).unref();
  };
  /** Its place is no longer where it was read; `state` is what it is instead. Streams that are open go on while they can. */
  const forsake = (slot: Slot, state: MediumState): void => {
    slot.root = undefined;
    slot.changes += 1;
    blobs.remove(slot.plugged.mediumId);
    deps.log.debug({ medium: slot.plugged.label }, 'Mount gone');
    move(slot, state);
  };
  const follow = async (slots: readonly Slot[], signal: AbortSignal): Promise<void> => {
    const followed = slots.filter(({ root, state }) => root !== undefined || state.kind === 'unmounted');
    const before = new Map(followed.map((slot) => [slot, slot.state]));
    for (const [slot, fate] of await lookAtMount(followed, signal)) {
      if (slot.gone.signal.aborted || slot.state !== before.get(slot)) continue; // looked at again in the next round
      if (fate === 'gone' && slot.root !== undefined) forsake(slot, { kind: 'unmounted' });
      if (fate === 'elsewhere') forsake(slot, { kind: 'attached' });
    }
  };
  /** Runs one step of a medium under both signals; what it throws becomes the state, unless the medium left or changed, or the caller stopped. */
  const step = async (slot: Slot, signal: AbortSignal, run: (signal: AbortSignal) => Promise<void>): Promise<void> => {
    const { changes } = slot;
    try {
      const both = AbortSignal.any([signal, slot.gone.signal]);
      await untilAborted(run(both), both);
    } catch (error) {
      if (slot.gone.signal.aborted) return;
      signal.throwIfAborted();
      if (slot.changes === changes) fail(slot, error);
    }
  };
  const readSlot = (slot: Slot, root: string, signal: AbortSignal): Promise<void> =>
    step(slot, signal, async (both) => {
      const { changes } = slot;
      const { bundles, trustRevision } = await deps.judge(root, slot.plugged.layout, both);
      both.throwIfAborted();
      if (slot.changes !== changes) return; // it is `mounted` again, and so read anew
      blobs.set(slot.plugged, slot.gone.signal, root, bundles);
      slot.failures = 0;
      move(slot, { kind: 'read', bundles, trustRevision });
    });

  return {
    blobs,
    list: () => [...slots.values()].map(mediumOf),
    isLookedAt: () => isStarted && deps.providers.every((provider) => provider.isLookedAt?.() ?? true),
    onChange: (listener) => {
      listeners.add(listener);
      return () => {
        listeners.delete(listener);
      };
    },
    refresh: (signal) => follow([...slots.values()], signal),
    mount: async (mediumId, signal) => {
      const slot = slots.get(mediumId);
      if (slot === undefined || !['attached', 'failed'].includes(slot.state.kind)) return;
      await step(slot, signal, async (both) => {
        await withDeadline('The release of the last mount', RELEASE_MS, both, async () => releasing.get(mediumId));
        slot.root = await slot.plugged.mount(both);
        both.throwIfAborted();
        const { label } = slot.plugged;
        deps.log.debug({ medium: label, messageId: messageIds.mediumMounted, path: slot.root }, 'Medium mounted');
        move(slot, { kind: 'mounted' });
      });
    },
    read: async (mediumId, signal) => {
      const slot = slots.get(mediumId);
      // What was unmounted leaves an empty directory, which must not be taken for a medium without bundles.
      if (slot?.plugged.mountPoints !== undefined) await follow([slot], signal);
      if (slot?.root === undefined || !['mounted', 'read'].includes(slot.state.kind)) return;
      await readSlot(slot, slot.root, signal);
    },
    start: async (signal) => {
      for (const provider of deps.providers) await provider.start(sink, signal);
      isStarted = true;
    },
    rescan: async (signal) => {
      for (const provider of deps.providers) await provider.rescan(signal);
      for (const mediumId of slots.keys()) sink.changed(mediumId);
    },
    load: async (path, signal) => {
      if (!isStarted) throw loadError('The daemon is still starting; try again in a moment');
      for (const provider of deps.providers) {
        const label = await provider.load?.(path, signal);
        if (label !== undefined) return label;
      }
      throw loadError(
        `${path} is a device, and media.detect is false: mount it, and load the place where it is mounted`,
      );
    },
    dispose: async () => {
      for (const provider of deps.providers) await provider.dispose();
      for (const slot of slots.values()) slot.gone.abort(goneError(slot.plugged.label));
      slots.clear();
      blobs.clear();
    },
  };
}

function mediumOf({ plugged, state }: Slot): Medium {
  return {
    mediumId: plugged.mediumId,
    label: plainText(plugged.label),
    isDropFolder: plugged.layout === 'folder',
    state,
  };
}

function reasonFor(error: unknown): Reason {
  return { code: error instanceof AppError ? error.code : 'media/read', message: reasonOf(error) };
}

function goneError(label: string): AppError {
  return new AppError({
    code: 'media/gone',
    message: `${label} was removed; plug it in again to continue`,
    disposition: 'wait',
  });
}
