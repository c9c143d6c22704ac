import { AppError } from '../../platform/app-error.ts';
import { withDeadline, withEither } from '../../platform/async/abort.ts';
import { pauseAfter } from '../../platform/backoff.ts';
import type { Clock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import { messageIds } from '../../platform/message-ids.ts';
import { Observable, type Unsubscribe } from '../../platform/subscription.ts';
import {
  type BusCall,
  type BusSignal,
  busCall,
  type CallCheck,
  type CallHandler,
  connectMessageBus,
  type MessageBus,
  type OutgoingSignal,
  type SignalHeader,
} from './message-bus.ts';

interface SystemBusOptions {
  readonly clock: Clock;
  readonly log: Log;
  /** Default `DBUS_SYSTEM_BUS_ADDRESS`, else `unix:path=/run/dbus/system_bus_socket`. */
  readonly address?: string;
  readonly env?: NodeJS.ProcessEnv;
  /** The words in log lines: `for the D-Bus API`. Default: none. */
  readonly purpose?: string;
  /** The limit for a new connection. Default 10 s. */
  readonly connectMs?: number;
}

const DEFAULT_ADDRESS = 'unix:path=/run/dbus/system_bus_socket';
const PAUSES = { firstMs: 250, longestMs: 10_000 };
const CONNECT_MS = 10_000;

interface Subscription {
  readonly match: SignalMatch;
  readonly listener: (signal: BusSignal) => void;
}

/** The bus itself, which announces the owners of names. */
export const BUS_NAME = 'org.freedesktop.DBus';

/** D-Bus specification, "Match Rules". `sender` is a well-known name. */
interface SignalMatch {
  readonly sender: string;
  readonly interface: string;
  readonly member: string;
  readonly path?: string;
  readonly arg0?: string;
}

/** Reconnects automatically, once it was started. */
export class SystemBus {
  private readonly address: string;
  private readonly subscriptions = new Set<Subscription>();
  private readonly connections = new Observable();
  /** The unique name behind each watched name. It is empty while there is none. */
  private readonly owners = new Map<string, string>();
  private readonly stop = new AbortController();
  /** It is undefined without a connection. */
  private bus: MessageBus | undefined;
  private handler: CallHandler | undefined;
  private check: CallCheck | undefined;

  constructor(private readonly options: SystemBusOptions) {
    this.address = options.address ?? options.env?.DBUS_SYSTEM_BUS_ADDRESS ?? DEFAULT_ADDRESS;
  }

  /**
   * @throws AppError `platform/bus-unreachable` (`retry`) when the first try fails; others follow
   *   in the background
   */
  async start(signal: AbortSignal): Promise<void> {
    try {
      await withEither([signal, this.stop.signal], (either) => this.connectInTime(either));
    } catch (error) {
      if (!signal.aborted) void this.reconnect();
      throw error;
    }
  }

  /**
   * @throws AppError `platform/bus-unreachable` (`retry`) without a connection; BusErrorReply when
   *   the peer replied with an error
   */
  async call(call: BusCall, signal: AbortSignal): Promise<readonly unknown[]> {
    if (this.bus === undefined) throw unreachable(this.address);
    return this.bus.call(call, signal);
  }

  /** Signals of the current owner of `match.sender`, also after a reconnection. */
  onSignal(match: SignalMatch, listener: (signal: BusSignal) => void): Unsubscribe {
    const subscription = { match, listener };
    this.subscriptions.add(subscription);
    // The connection broke; the next one adds all rules again.
    if (this.bus !== undefined) this.watchMatch(this.bus, match, this.stop.signal).catch(() => undefined);
    return () => {
      this.subscriptions.delete(subscription);
      this.bus?.call(busCall('RemoveMatch', 's', [ruleOf(match)]), this.stop.signal).catch(() => undefined);
    };
  }

  /** It also serves after a reconnection. See {@link MessageBus.serve}. */
  serve(handler: CallHandler, check?: CallCheck): void {
    this.handler = handler;
    this.check = check;
    this.bus?.serve(handler, check);
  }

  /** Dropped without a connection. */
  emit(signal: OutgoingSignal): void {
    this.bus?.emit(signal);
  }

  /**
   * Called after each connection, and when a watched name gets a new owner: earlier signals may be
   * lost.
   */
  onConnected(listener: () => void): Unsubscribe {
    return this.connections.onChange(listener);
  }

  close(): void {
    this.stop.abort(unreachable(this.address));
    this.bus?.close();
  }

  private connectInTime(signal: AbortSignal): Promise<void> {
    const { connectMs = CONNECT_MS } = this.options;
    return withDeadline(`The system bus at ${this.address}`, connectMs, signal, (limited) => this.connect(limited));
  }

  private async connect(signal: AbortSignal): Promise<void> {
    const next = await connectMessageBus(this.address, signal);
    this.owners.clear();
    next.onSignal(
      (received) => this.dispatch(received),
      (header) => this.isExpected(header),
    );
    next.serve(this.handler, this.check);
    try {
      for (const { match } of this.subscriptions) await this.watchMatch(next, match, signal);
    } catch (error) {
      next.close();
      throw error;
    }
    this.bus = next;
    next.onClose((reason) => this.onLost(reason));
    this.connections.notify();
  }

  private onLost(reason: string): void {
    this.bus = undefined;
    if (this.stop.signal.aborted) return;
    const fields = { messageId: messageIds.busLost, reason };
    this.options.log.warn(fields, `Lost the connection to ${this.describe()}: ${reason}`);
    void this.reconnect();
  }

  /** Tries with growing pauses, until it succeeds or the bus is closed. Never throws. */
  private async reconnect(): Promise<void> {
    const { clock, log } = this.options;
    const { signal } = this.stop;
    for (let tries = 1; !signal.aborted; tries += 1) {
      try {
        await clock.sleep(pauseAfter(tries, PAUSES), signal);
        await this.connectInTime(signal);
        log.info({ messageId: messageIds.busBack }, `Connected to ${this.describe()} again`);
        return;
      } catch {
        // The loss was logged; the next attempt follows.
      }
    }
  }

  private describe(): string {
    const { purpose } = this.options;
    return purpose === undefined ? 'the system bus' : `the system bus ${purpose}`;
  }

  private isExpected(header: SignalHeader): boolean {
    if (header.sender === BUS_NAME) return true;
    return [...this.subscriptions].some(
      ({ match }) => fitsHeader(match, header) && this.owners.get(match.sender) === header.sender,
    );
  }

  private dispatch(signal: BusSignal): void {
    if (signal.sender === BUS_NAME && signal.member === 'NameOwnerChanged') {
      const [name, , owner] = signal.body;
      this.owners.set(String(name), String(owner));
      if (owner !== '') this.connections.notify();
      return;
    }
    for (const { match, listener } of [...this.subscriptions]) {
      if (fits(match, signal) && this.owners.get(match.sender) === signal.sender) listener(signal);
    }
  }

  /**
   * Adds the rule and stores the owner of the sender's name, now or when it appears.
   *
   * INVARIANT: all calls are sent before the first await. The bus answers in order, so the rule is
   * active before the next answer to the caller, and no signal is missed in between.
   */
  private async watchMatch(bus: MessageBus, match: SignalMatch, signal: AbortSignal): Promise<void> {
    const rule = bus.call(busCall('AddMatch', 's', [ruleOf(match)]), signal);
    if (this.owners.has(match.sender)) {
      await rule;
      return;
    }
    this.owners.set(match.sender, '');
    const ownerRule = `type='signal',sender='${BUS_NAME}',member='NameOwnerChanged',arg0='${match.sender}'`;
    const [[owner]] = await Promise.all([
      bus.call(busCall('GetNameOwner', 's', [match.sender]), signal).catch(() => ['']),
      bus.call(busCall('AddMatch', 's', [ownerRule]), signal),
      rule,
    ]);
    if (owner !== '') this.owners.set(match.sender, String(owner));
  }
}

function unreachable(address: string): AppError {
  return new AppError({
    code: 'platform/bus-unreachable',
    message: `There is no connection to the system bus at ${address} now; it is being made again. Is dbus.service running?`,
    disposition: 'retry',
  });
}

/** The rule for `AddMatch` and `RemoveMatch`. */
function ruleOf(match: SignalMatch): string {
  const keys = ['sender', 'interface', 'member', 'path', 'arg0'] as const;
  const terms = keys.flatMap((key) => (match[key] === undefined ? [] : [`${key}='${match[key]}'`]));
  return ["type='signal'", ...terms].join(',');
}

/** It ignores `arg0`, which is in the body. */
function fitsHeader(match: SignalMatch, signal: SignalHeader): boolean {
  return (
    match.interface === signal.interface &&
    match.member === signal.member &&
    (match.path === undefined || match.path === signal.path)
  );
}

/** It accepts any sender. */
function fits(match: SignalMatch, signal: BusSignal): boolean {
  return fitsHeader(match, signal) && (match.arg0 === undefined || match.arg0 === signal.body[0]);
}
