import type { Clock } from '../../platform/clock.ts';

/** Sends a line of status at most once a second. */
export interface StatusThrottle {
  /**
   * Sends the line now, or at the end of the second with the last one. What is unchanged is not
   * sent.
   */
  say(line: string): void;
  /** Sends at once what still waits. */
  flush(): void;
}

/** systemd records each change, and nobody reads faster. */
const SHORTEST_MS = 1_000;

/**
 * A throttle before `send`. The last line is always sent.
 *
 * @param signal ends the wait for the end of a second
 */
export function createStatusThrottle(
  clock: Pick<Clock, 'monotonic' | 'sleep'>,
  signal: AbortSignal,
  send: (line: string) => void,
): StatusThrottle {
  let sent: string | undefined;
  let sentAt = Number.NEGATIVE_INFINITY;
  let waiting: string | undefined;
  let isTimed = false;
  const flush = () => {
    const line = waiting;
    waiting = undefined;
    if (line === undefined || line === sent) return;
    sent = line;
    sentAt = clock.monotonic();
    send(line);
  };
  const wait = async (ms: number) => {
    isTimed = true;
    await clock.sleep(ms, signal).catch(() => undefined);
    isTimed = false;
    if (!signal.aborted) flushInTime();
  };
  // What `flush` sent meanwhile begins a second of its own.
  const flushInTime = () => {
    const leftMs = sentAt + SHORTEST_MS - clock.monotonic();
    if (leftMs <= 0) flush();
    else if (!isTimed && waiting !== undefined) void wait(leftMs);
  };
  return {
    say: (line) => {
      waiting = line;
      flushInTime();
    },
    flush,
  };
}
