import type { Clock } from '../platform/clock.ts';
import type { Log } from '../platform/log.ts';
import { oneLine } from '../platform/plain-text.ts';
import type { ServiceNotifier } from '../ports/node.ts';
import { createDatagramSender, type DatagramSender } from './unix-datagrams.ts';

export interface SystemdNotifier extends ServiceNotifier {
  /** `NOTIFY_SOCKET` was set, also to an abstract socket. */
  readonly isStartedBySystemd: boolean;
  dispose(): void;
}

interface NotifierDeps {
  /**
   * `NOTIFY_SOCKET`, `WATCHDOG_USEC` and `WATCHDOG_PID` are removed: no child process gets them.
   */
  readonly env: NodeJS.ProcessEnv;
  /** While false, no `WATCHDOG=1` is sent, so systemd restarts the service. */
  readonly healthy: () => boolean;
  readonly log: Log;
  readonly clock: Pick<Clock, 'monotonic' | 'sleep'>;
  /** CLOCK_MONOTONIC. Default: of the machine. */
  readonly monotonicUsec?: () => bigint;
  readonly pid?: number;
}

/**
 * sd_notify(3), sd_watchdog_enabled(3). Calls do nothing without `NOTIFY_SOCKET`, or with an
 * abstract socket; systemd uses a path (`/run/systemd/notify`).
 */
export async function createServiceNotifier(deps: NotifierDeps): Promise<SystemdNotifier> {
  const { NOTIFY_SOCKET: path, WATCHDOG_USEC: usec, WATCHDOG_PID: watchdogPid } = deps.env;
  for (const name of ['NOTIFY_SOCKET', 'WATCHDOG_USEC', 'WATCHDOG_PID']) delete deps.env[name];
  if (path === undefined || path === '') return silent;
  if (!path.startsWith('/')) {
    deps.log.warn(
      { path },
      'NOTIFY_SOCKET is not a path in the filesystem, so systemd gets no message about start, status and stop',
    );
    return { ...silent, isStartedBySystemd: true };
  }
  const sender = await createDatagramSender(path);
  const isOurs = watchdogPid === undefined || Number(watchdogPid) === (deps.pid ?? process.pid);
  const timer = isOurs ? startWatchdog(Number(usec ?? 0), deps.healthy, sender) : undefined;
  return notifierOn(sender, timer, deps);
}

const silent: SystemdNotifier = {
  isStartedBySystemd: false,
  ready: () => undefined,
  status: () => undefined,
  reloading: () => undefined,
  stopping: () => undefined,
  dispose: () => undefined,
};

function notifierOn(
  sender: DatagramSender,
  timer: NodeJS.Timeout | undefined,
  { clock, monotonicUsec = () => process.hrtime.bigint() / 1000n }: NotifierDeps,
): SystemdNotifier {
  const stop = new AbortController();
  const send = (...lines: readonly string[]): void => {
    sender.send(Buffer.from(lines.join('\n')));
  };
  const statuses = createStatusThrottle(clock, stop.signal, (line) => send(`STATUS=${line}`));
  return {
    isStartedBySystemd: true,
    ready: () => send('READY=1'),
    status: (line) => statuses.say(oneLine(line)),
    reloading: () => send('RELOADING=1', `MONOTONIC_USEC=${monotonicUsec()}`),
    stopping: () => {
      statuses.flush();
      send('STOPPING=1');
    },
    dispose: () => {
      statuses.flush();
      stop.abort();
      clearInterval(timer);
      sender.close();
    },
  };
}

/** At half of the interval, as in sd_watchdog_enabled(3). */
function startWatchdog(usec: number, healthy: () => boolean, sender: DatagramSender): NodeJS.Timeout | undefined {
  if (!(usec > 0)) return undefined;
  const timer = setInterval(() => {
    if (healthy()) sender.send(Buffer.from('WATCHDOG=1'));
  }, usec / 2000);
  timer.unref();
  return timer;
}

export interface StatusThrottle {
  /** Now, or the last one at the end of the second. Repeated lines are not sent. */
  say(line: string): void;
  flush(): void;
}

/** systemd records each change, and nobody reads faster. */
const SHORTEST_MS = 1_000;

/**
 * The last line is always sent.
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
  // A flush begins a new second.
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
