import { setTimeout as delay } from 'node:timers/promises';
import { type ApiClient, isBusGone, isNotRunning } from '../../api/client.ts';
import { AppError } from '../../platform/app-error.ts';
import { deferred, untilAborted } from '../../platform/async/abort.ts';
import type { CommandContext } from './command-context.ts';

export interface Follower {
  /** Called now and after each change. @returns whether it is done */
  readonly read: (client: ApiClient) => Promise<boolean>;
  /** Called when the daemon does not answer. {@link read} follows once it does. */
  readonly away: (error: AppError) => void;
  /** The daemon may be away at first, too. Default: the first read throws its error. */
  readonly isPatient?: boolean;
  /** More that {@link read} follows, as a new width of the terminal. */
  readonly alsoAfter?: (changed: () => void) => void;
}

/** Pause before the bus is connected again. */
const CONNECT_MS = 1_000;

/** A daemon that runs and does not answer is called again after this time. */
const SILENT_MS = 10_000;

/**
 * Reads after each signal of the daemon, until it is done. Waits while the daemon or the bus is
 * away.
 * @param first closed by the caller; undefined: opens a connection
 * @throws the reason of `signal`; errors of `read`, except unreachable ones
 */
export async function followDaemon(
  first: ApiClient | undefined,
  { connect }: Pick<CommandContext, 'connect'>,
  follower: Follower,
  signal: AbortSignal,
): Promise<void> {
  let isPatient = follower.isPatient === true;
  if (first !== undefined && (await followConnection(first, { ...follower, isPatient }, signal))) return;
  for (;;) {
    try {
      const client = await connect(signal);
      try {
        if (await followConnection(client, { ...follower, isPatient }, signal)) return;
      } finally {
        client.close();
      }
      isPatient = true;
    } catch (error) {
      signal.throwIfAborted();
      if (!isAway(error) || !isPatient) throw error;
      follower.away(error);
    }
    await delay(CONNECT_MS, undefined, { signal });
  }
}

/** @returns false when the connection to the bus has ended */
async function followConnection(client: ApiClient, follower: Follower, signal: AbortSignal): Promise<boolean> {
  let { isPatient = false } = follower;
  let wake = deferred<void>();
  const changed = () => wake.resolve();
  follower.alsoAfter?.(changed);
  // Watching begins before the first read, so that no change is missed.
  await client.watch(changed, signal);
  for (;;) {
    let waitMs: number | undefined;
    try {
      wake = deferred<void>();
      if (await follower.read(client)) return true;
    } catch (error) {
      signal.throwIfAborted();
      if (!isAway(error) || !isPatient) throw error;
      follower.away(error);
      if (isBusGone(error)) return false;
      // The bus reports the end and the start of the daemon, and nothing of one that hangs.
      if (!isNotRunning(error)) waitMs = SILENT_MS;
    }
    isPatient = true;
    await untilWoken(wake.promise, waitMs, signal);
  }
}

async function untilWoken(woken: Promise<void>, waitMs: number | undefined, signal: AbortSignal): Promise<void> {
  if (waitMs === undefined) return untilAborted(woken, signal);
  const pause = new AbortController();
  const pausing = delay(waitMs, undefined, { signal: pause.signal, ref: true }).catch(() => undefined);
  try {
    await untilAborted(Promise.race([woken, pausing]), signal);
  } finally {
    pause.abort();
  }
}

/** Whether an error says that the daemon or the bus does not answer, or that the daemon starts. */
function isAway(error: unknown): error is AppError {
  return error instanceof AppError && (error.code === 'api/unreachable' || error.code === 'api/starting');
}
