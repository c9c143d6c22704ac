import type { Clock } from '../platform/clock.ts';
import type { Log } from '../platform/log.ts';
import { oneLine } from '../platform/plain-text.ts';
import type { ServiceNotifier } from '../ports/node.ts';
import { createDatagramSender, type DatagramSender } from './unix-datagrams.ts';

interface NotifierOptions {
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
  /** Grows while the process works. Default: by its processor time and its reads and writes. */
  readonly work?: () => number;
  /** Default 5 s. */
  readonly extendEveryMs?: number;
}

/**
 * Starts notifications of systemd (sd_notify(3), sd_watchdog_enabled(3)). systemd uses a path
 * (`/run/systemd/notify`); with an abstract socket nothing is sent.
 */
export async function createServiceNotifier(options: NotifierOptions): Promise<SystemdNotifier> {
  const { env, log, healthy, pid = process.pid } = options;
  const { NOTIFY_SOCKET: path, WATCHDOG_USEC: usec, WATCHDOG_PID: watchdogPid } = env;
  for (const name of ['NOTIFY_SOCKET', 'WATCHDOG_USEC', 'WATCHDOG_PID']) delete env[name];
  const isStartedBySystemd = path !== undefined && path !== '';
  if (!isStartedBySystemd || !path.startsWith('/')) {
    const message =
      'NOTIFY_SOCKET is not a path in the filesystem, so systemd gets no message about start, status and stop';
    if (isStartedBySystemd) log.warn({ path }, message);
    return new SystemdNotifier(isStartedBySystemd, undefined, undefined, options);
  }
  const sender = await createDatagramSender(path);
  const isOurs = watchdogPid === undefined || Number(watchdogPid) === pid;
  const timer = isOurs ? startWatchdog(Number(usec ?? 0), healthy, sender) : undefined;
  return new SystemdNotifier(isStartedBySystemd, sender, timer, options);
}

/** See {@link createServiceNotifier}. */
export class SystemdNotifier implements ServiceNotifier {
  /** `NOTIFY_SOCKET` was set, also to an abstract socket. */
  readonly isStartedBySystemd: boolean;
  private readonly monotonicUsec: () => bigint;
  private readonly stop = new AbortController();
  private readonly statuses: StatusThrottle;
  private readonly starting: NodeJS.Timeout | undefined;

  constructor(
    isStartedBySystemd: boolean,
    private readonly sender: DatagramSender | undefined,
    private readonly watchdog: NodeJS.Timeout | undefined,
    options: NotifierOptions,
  ) {
    const { clock, monotonicUsec = () => process.hrtime.bigint() / 1000n } = options;
    this.isStartedBySystemd = isStartedBySystemd;
    this.monotonicUsec = monotonicUsec;
    this.starting = sender && extendStart(sender, options);
    this.statuses = new StatusThrottle(clock, this.stop.signal, (line) => this.send(`STATUS=${line}`));
  }

  ready(): void {
    clearInterval(this.starting);
    this.send('READY=1');
  }

  status(line: string): void {
    if (this.sender !== undefined) this.statuses.set(oneLine(line));
  }

  reloading(): void {
    this.send('RELOADING=1', `MONOTONIC_USEC=${this.monotonicUsec()}`);
  }

  stopping(): void {
    this.statuses.flush();
    this.send('STOPPING=1');
  }

  dispose(): void {
    this.statuses.flush();
    this.stop.abort();
    clearInterval(this.watchdog);
    clearInterval(this.starting);
    this.sender?.close();
  }

  private send(...lines: readonly string[]): void {
    this.sender?.send(Buffer.from(lines.join('\n')));
  }
}

/** A start that works extends its time in these steps, by this much, up to this limit. */
const EXTEND_EVERY_MS = 5_000;
const EXTEND_BY_MS = 60_000;
const LONGEST_START_MS = 15 * 60_000;
/** Processor time. A waiting process uses less in {@link EXTEND_EVERY_MS}. */
const WORK_MS = 250;

/**
 * On a slow machine a start may take longer than `TimeoutStartSec=`, and a process that is killed
 * while it works never starts. A start that waits in vain still ends at the limit, since pulls wait
 * behind its socket.
 */
function extendStart(
  sender: DatagramSender,
  { work = workDone, extendEveryMs = EXTEND_EVERY_MS }: NotifierOptions,
): NodeJS.Timeout {
  let before = work();
  let extensions = LONGEST_START_MS / EXTEND_EVERY_MS;
  const timer = setInterval(() => {
    const now = work();
    if (now > before) sender.send(Buffer.from(`EXTEND_TIMEOUT_USEC=${EXTEND_BY_MS * 1000}`));
    before = now;
    extensions -= 1;
    if (extensions === 0) clearInterval(timer);
  }, extendEveryMs);
  timer.unref();
  return timer;
}

/** getrusage(2) */
function workDone(): number {
  const { userCPUTime, systemCPUTime, fsRead, fsWrite } = process.resourceUsage();
  return Math.floor((userCPUTime + systemCPUTime) / 1000 / WORK_MS) + fsRead + fsWrite;
}

/** Pings at half of the interval, see sd_watchdog_enabled(3). */
function startWatchdog(usec: number, healthy: () => boolean, sender: DatagramSender): NodeJS.Timeout | undefined {
  if (!(usec > 0)) return undefined;
  const timer = setInterval(() => {
    if (healthy()) sender.send(Buffer.from('WATCHDOG=1'));
  }, usec / 2000);
  timer.unref();
  return timer;
}

/** systemd records each change, and nobody reads faster. */
const SHORTEST_MS = 1_000;

/** Sends at most one line a second. Repeated lines are not sent; the last one always is. */
export class StatusThrottle {
  private sent: string | undefined;
  private sentAtMs = Number.NEGATIVE_INFINITY;
  private waiting: string | undefined;
  private isTimed = false;

  /** @param signal ends the wait for the end of a second */
  constructor(
    private readonly clock: Pick<Clock, 'monotonic' | 'sleep'>,
    private readonly signal: AbortSignal,
    private readonly send: (line: string) => void,
  ) {}

  set(line: string): void {
    this.waiting = line;
    this.flushInTime();
  }

  /** Begins a new second. */
  flush(): void {
    const line = this.waiting;
    this.waiting = undefined;
    if (line === undefined || line === this.sent) return;
    this.sent = line;
    this.sentAtMs = this.clock.monotonic();
    this.send(line);
  }

  private flushInTime(): void {
    const leftMs = this.sentAtMs + SHORTEST_MS - this.clock.monotonic();
    if (leftMs <= 0) this.flush();
    else if (!this.isTimed && this.waiting !== undefined) void this.wait(leftMs);
  }

  private async wait(ms: number): Promise<void> {
    this.isTimed = true;
    await this.clock.sleep(ms, this.signal).catch(() => undefined);
    this.isTimed = false;
    if (!this.signal.aborted) this.flushInTime();
  }
}

/** sd_listen_fds(3). `name` is `FileDescriptorName=`, by default the socket unit's name. */
interface ActivatedSocket {
  readonly fd: number;
  readonly name: string;
}

const FIRST_FD = 3;

/**
 * Returns none without socket activation. `LISTEN_PID`, `LISTEN_FDS` and `LISTEN_FDNAMES` are
 * removed from `env`, so that no child process uses them. A Node server listens with
 * `server.listen({ fd })`.
 */
export function takeActivatedSockets(env: NodeJS.ProcessEnv, pid: number = process.pid): readonly ActivatedSocket[] {
  const { LISTEN_PID: listenPid, LISTEN_FDS: listenFds, LISTEN_FDNAMES: listenNames } = env;
  for (const name of ['LISTEN_PID', 'LISTEN_FDS', 'LISTEN_FDNAMES']) delete env[name];
  const count = Number(listenFds ?? 0);
  if (Number(listenPid) !== pid || !Number.isInteger(count) || count < 1) return [];
  const names = listenNames?.split(':') ?? [];
  return Array.from({ length: count }, (_none, index) => ({ fd: FIRST_FD + index, name: names[index] ?? 'unknown' }));
}
