import type { Medium, MediumId, MediumState } from '../domain/model/medium.ts';
import type { Fault } from '../domain/model/reason.ts';
import { AppError, reasonOf } from '../platform/app-error.ts';
import { Places } from '../platform/async/concurrency.ts';
import type { Log } from '../platform/log.ts';
import { plainText } from '../platform/plain-text.ts';
import { Observable } from '../platform/subscription.ts';
import { MEDIUM_CALLS } from './loaded-media.ts';
import type { MediaBlobs } from './media-blobs.ts';
import { mediaError, type OpenMedium, type PluggedMedium } from './media-provider.ts';

export interface Slot {
  readonly plugged: PluggedMedium;
  /** Aborts with `media/gone`. */
  readonly gone: AbortController;
  state: MediumState;
  opened: OpenMedium | undefined;
  /** Counts changes of its content. A read that began before the last change is outdated. */
  changes: number;
  /** Counts failures since the last success. */
  failures: number;
  /** They outlive a mount, as calls that hang do. */
  readonly places: Places;
}

/** All plugged media. */
export class Slots extends Observable {
  /** The slots in the order of arrival. */
  readonly byId = new Map<MediumId, Slot>();
  /** Mounts that are being removed. The same path must not be mounted meanwhile. */
  readonly releasing = new Map<MediumId, Promise<void>>();
  /** Limits calls to all media. */
  private readonly places = new Places(MEDIUM_CALLS.ofAll);

  /** @param retryMs before the first, second … retry, in milliseconds */
  constructor(
    readonly blobs: MediaBlobs,
    private readonly retryMs: readonly number[],
    private readonly log: Log,
  ) {
    super();
  }

  /** A medium with the same id is removed first. */
  arrive(plugged: PluggedMedium): void {
    this.leave(plugged.mediumId);
    this.byId.set(plugged.mediumId, {
      plugged,
      gone: new AbortController(),
      state: { kind: 'attached' },
      opened: undefined,
      changes: 0,
      failures: 0,
      places: new Places(MEDIUM_CALLS.ofOne, this.places),
    });
    this.log.debug({ medium: plugged.label }, 'Medium found');
    this.notify();
  }

  /** Another node keeps giving what it gave: most of its changes are new blobs. */
  changed(mediumId: MediumId): void {
    const slot = this.byId.get(mediumId);
    if (slot === undefined) return;
    slot.changes += 1;
    const { state, opened, plugged } = slot;
    if (plugged.peer !== undefined && state.kind === 'read') this.move(slot, { ...state, isStale: true });
    else this.move(slot, { kind: opened === undefined ? 'attached' : 'mounted' });
  }

  /** Ends its streams, and releases its mount in the background. */
  leave(mediumId: MediumId): void {
    const slot = this.byId.get(mediumId);
    if (slot === undefined) return;
    const { label } = slot.plugged;
    this.byId.delete(mediumId);
    slot.gone.abort(goneError(slot.plugged));
    this.blobs.forget(mediumId);
    this.log.debug({ medium: label }, 'Medium gone');
    this.notify();
    const { releasing } = this;
    const released = slot.plugged.release().finally(() => {
      if (releasing.get(mediumId) === released) releasing.delete(mediumId);
    });
    releasing.set(mediumId, released);
  }

  move(slot: Slot, state: MediumState): void {
    if (this.byId.get(slot.plugged.mediumId) !== slot) return;
    slot.state = state;
    this.notify();
  }

  /** Errors with disposition `retry` are tried again a few times, after pauses. */
  fail(slot: Slot, error: unknown): void {
    this.log.debug({ medium: slot.plugged.label, err: error }, 'Medium failed');
    const failed: MediumState = { kind: 'failed', reason: reasonFor(error) };
    this.move(slot, failed);
    const pauseMs = this.retryMs[slot.failures];
    slot.failures += 1;
    if (pauseMs === undefined || !(error instanceof AppError) || error.disposition !== 'retry') return;
    const again = () => {
      if (slot.state === failed) this.changed(slot.plugged.mediumId);
    };
    setTimeout(again, pauseMs).unref();
  }

  /** Call when the mount of a medium is gone. Open streams continue while they can. */
  losePlace(slot: Slot, state: MediumState): void {
    slot.opened = undefined;
    slot.changes += 1;
    this.blobs.forget(slot.plugged.mediumId);
    this.log.debug({ medium: slot.plugged.label }, 'Mount gone');
    this.move(slot, state);
  }

  /** Ends all without releasing their mounts. */
  endAll(): void {
    for (const slot of this.byId.values()) slot.gone.abort(goneError(slot.plugged));
    this.byId.clear();
  }
}

export function mediumOf({ plugged, state }: Slot): Medium {
  const { mediumId, label, isDropFolder, peer } = plugged;
  return { mediumId, label: plainText(label), isDropFolder, ...(peer !== undefined && { peer: peer() }), state };
}

function reasonFor(error: unknown): Fault {
  return { code: error instanceof AppError ? error.code : 'media/read', message: reasonOf(error) };
}

function goneError({ label, peer }: PluggedMedium): AppError {
  const why = peer === undefined ? 'was removed; plug it in again to continue' : 'gives nothing any more';
  return mediaError('media/gone', `${label} ${why}`);
}
