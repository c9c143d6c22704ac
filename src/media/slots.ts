import type { Medium, MediumId, MediumState } from '../domain/model/medium.ts';
import type { Fault } from '../domain/model/reason.ts';
import { AppError, reasonOf } from '../platform/app-error.ts';
import { createPlaces, type Places } from '../platform/async/concurrency.ts';
import type { Log } from '../platform/log.ts';
import { plainText } from '../platform/plain-text.ts';
import { type Listeners, notifyAll } from '../platform/subscription.ts';
import { MEDIUM_CALLS } from './loaded-media.ts';
import { forgetMedium, type MediaBlobs } from './media-blobs.ts';
import type { OpenMedium, PluggedMedium } from './media-provider.ts';

export interface Slot {
  readonly plugged: PluggedMedium;
  /** Aborts with `media/gone`. */
  readonly gone: AbortController;
  state: MediumState;
  opened: OpenMedium | undefined;
  /** Of its content. A read that began before the last change is outdated. */
  changes: number;
  /** Since the last success. */
  failures: number;
  /** They outlive a mount, as calls that hang do. */
  readonly places: Places;
}

/** Media in the order of arrival. */
export interface Slots {
  readonly byId: Map<MediumId, Slot>;
  readonly listeners: Listeners;
  /** Mounts that are being removed. The same path must not be mounted meanwhile. */
  readonly releasing: Map<MediumId, Promise<void>>;
  readonly blobs: MediaBlobs;
  /** For calls to all media. */
  readonly places: Places;
  /** Before the first, second … retry, in milliseconds. */
  readonly retryMs: readonly number[];
  readonly log: Log;
}

/** A medium with the same id is removed first. */
export function arrive(slots: Slots, plugged: PluggedMedium): void {
  leave(slots, plugged.mediumId);
  slots.byId.set(plugged.mediumId, {
    plugged,
    gone: new AbortController(),
    state: { kind: 'attached' },
    opened: undefined,
    changes: 0,
    failures: 0,
    places: createPlaces(MEDIUM_CALLS.ofOne, slots.places),
  });
  slots.log.debug({ medium: plugged.label }, 'Medium found');
  notifyAll(slots.listeners);
}

/** Another node keeps giving what it gave: most of its changes are new blobs. */
export function changed(slots: Slots, mediumId: MediumId): void {
  const slot = slots.byId.get(mediumId);
  if (slot === undefined) return;
  slot.changes += 1;
  const { state, opened, plugged } = slot;
  if (plugged.peer !== undefined && state.kind === 'read') move(slots, slot, { ...state, isStale: true });
  else move(slots, slot, { kind: opened === undefined ? 'attached' : 'mounted' });
}

/** Ends its streams, and releases its mount in the background. */
export function leave(slots: Slots, mediumId: MediumId): void {
  const slot = slots.byId.get(mediumId);
  if (slot === undefined) return;
  const { label } = slot.plugged;
  slots.byId.delete(mediumId);
  slot.gone.abort(goneError(slot.plugged));
  forgetMedium(slots.blobs, mediumId);
  slots.log.debug({ medium: label }, 'Medium gone');
  notifyAll(slots.listeners);
  const { releasing } = slots;
  const released = slot.plugged.release().finally(() => {
    if (releasing.get(mediumId) === released) releasing.delete(mediumId);
  });
  releasing.set(mediumId, released);
}

export function move(slots: Slots, slot: Slot, state: MediumState): void {
  if (slots.byId.get(slot.plugged.mediumId) !== slot) return;
  slot.state = state;
  notifyAll(slots.listeners);
}

/** Errors with disposition `retry` are tried again a few times, after pauses. */
export function fail(slots: Slots, slot: Slot, error: unknown): void {
  slots.log.debug({ medium: slot.plugged.label, err: error }, 'Medium failed');
  const failed: MediumState = { kind: 'failed', reason: reasonFor(error) };
  move(slots, slot, failed);
  const pauseMs = slots.retryMs[slot.failures];
  slot.failures += 1;
  if (pauseMs === undefined || !(error instanceof AppError) || error.disposition !== 'retry') return;
  const again = () => {
    if (slot.state === failed) changed(slots, slot.plugged.mediumId);
  };
  setTimeout(again, pauseMs).unref();
}

/** Call when the mount of a medium is gone. Open streams continue while they can. */
export function losePlace(slots: Slots, slot: Slot, state: MediumState): void {
  slot.opened = undefined;
  slot.changes += 1;
  forgetMedium(slots.blobs, slot.plugged.mediumId);
  slots.log.debug({ medium: slot.plugged.label }, 'Mount gone');
  move(slots, slot, state);
}

/** Without releasing their mounts. */
export function endAll(slots: Slots): void {
  for (const slot of slots.byId.values()) slot.gone.abort(goneError(slot.plugged));
  slots.byId.clear();
}

export function mediumOf({ plugged, state }: Slot): Medium {
  const { mediumId, label, isDropFolder, peer } = plugged;
  return { mediumId, label: plainText(label), isDropFolder, ...(peer !== undefined && { peer: peer() }), state };
}

function reasonFor(error: unknown): Fault {
  return { code: error instanceof AppError ? error.code : 'media/read', message: reasonOf(error) };
}

function goneError({ label, peer }: PluggedMedium): AppError {
  return new AppError({
    code: 'media/gone',
    message:
      peer === undefined ? `${label} was removed; plug it in again to continue` : `${label} gives nothing any more`,
    disposition: 'wait',
  });
}
