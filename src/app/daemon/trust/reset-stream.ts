import { callerText } from '../../../domain/report/events/asked-event.ts';
import { stampAfter } from '../../../domain/state/stamp.ts';
import type { Engine } from '../../../engine/loop/engine.ts';
import { AppError } from '../../../platform/app-error.ts';
import type { Clock } from '../../../platform/clock.ts';
import type { Log } from '../../../platform/log.ts';
import { messageIds } from '../../../platform/message-ids.ts';
import { formatCount } from '../../../platform/sizes.ts';
import type { StateReader, StreamStore } from '../../../ports/state.ts';

/**
 * Resets a stream: its sequence floor, its clock floor, the keys that its bundles added, and what
 * they said of other releases. What is adopted stays, but its sequence, its `created` and its
 * advisories count no more. Returns a sentence about the
 * effect.
 *
 * @param uid the caller, for the history; undefined when not known.
 * @throws AppError `trust/no-stream` (`reject`); `store/write`, `store/no-space`, `store/read-only`
 */
export type StreamResetter = (stream: string, uid: number | undefined) => Promise<string>;

/** The adapters of {@link resetStream}. */
export interface ResetStreamDependencies {
  readonly store: StateReader & StreamStore;
  readonly engine: Pick<Engine, 'resetFloors' | 'hasFloor'>;
  readonly clock: Pick<Clock, 'now'>;
  readonly log: Log;
}

/** As {@link StreamResetter}. */
export async function resetStream(
  stream: string,
  uid: number | undefined,
  { store, engine, clock, log }: ResetStreamDependencies,
): Promise<string> {
  const { bundles, rotation } = store.load();
  const own = bundles.filter(({ payload }) => payload.name === stream);
  if (own.length === 0 && !engine.hasFloor(stream)) throw noStream(stream);
  const ids = new Set<string>(own.map(({ bundleId }) => bundleId));
  const countOf = (brought: typeof rotation.keys) =>
    new Set(brought.map(({ keyId, role = '' }) => `${keyId} ${role}`)).size;
  const keys = countOf(rotation.keys) - countOf(rotation.keys.filter(({ bundleId }) => !ids.has(bundleId)));
  const by = uid === undefined ? 'somebody' : `user ${uid}`;
  const forgotten = keys === 0 ? '' : `, and ${formatCount(keys, 'key')} that its bundles added no longer count`;
  const message = `Stream ${stream} was reset by ${by}: any sequence is accepted again, and advisories of bundles that are known do not count${forgotten}`;
  const at = stampAfter(bundles, clock.now());
  await engine.resetFloors(stream, () =>
    store.resetStream(stream, { at, kind: 'streamReset', message, by: callerText('resetStream', uid) }),
  );
  log.warn({ messageId: messageIds.streamReset, ...(uid !== undefined && { uid }) }, message);
  return `${message}. What is adopted stays; 'stickpin reject' or 'stickpin unpin' gives up a release that is not wanted.`;
}

function noStream(stream: string): AppError {
  const shown = JSON.stringify(stream.slice(0, 80));
  const message = `no bundle of stream ${shown} was adopted here: 'stickpin list' shows the streams`;
  return new AppError({ code: 'trust/no-stream', message, disposition: 'reject' });
}
