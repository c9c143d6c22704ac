import { AppError } from '../platform/app-error.ts';
import { withDeadline, withEither } from '../platform/async/abort.ts';
import type { Clock } from '../platform/clock.ts';
import type { Log } from '../platform/log.ts';
import { messageIds } from '../platform/message-ids.ts';
import type { Unsubscribe } from '../platform/subscription.ts';
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

/** Reconnects automatically. */
export interface SystemBus {
  /**
   * @throws AppError `platform/bus-unreachable` (`retry`) when the first try fails; others follow
   *   in the background
   */
  start(signal: AbortSignal): Promise<void>;
  /**
   * @throws AppError `platform/bus-unreachable` (`retry`) without a connection; BusErrorReply when
   *   the peer replied with an error
   */
  call(call: BusCall, signal: AbortSignal): Promise<readonly unknown[]>;
  /** Signals of the current owner of `match.sender`, also after a reconnection. */
  onSignal(match: SignalMatch, listener: (signal: BusSignal) => void): Unsubscribe;
  /** Also after a reconnection. See {@link MessageBus.serve}. */
  serve(handler: CallHandler, check?: CallCheck): void;
  /** Dropped without a connection. */
  emit(signal: OutgoingSignal): void;
  /**
   * Called after each connection, and when a watched name gets a new owner: earlier signals may be
   * lost.
   */
  onConnected(listener: () => void): Unsubscribe;
  close(): void;
}

interface SystemBusDeps {
  readonly clock: Clock;
  readonly log: Log;
  /** Default `DBUS_SYSTEM_BUS_ADDRESS`, else `unix:path=/run/dbus/system_bus_socket`. */
  readonly address?: string;
  readonly env?: NodeJS.ProcessEnv;
  /** For log lines, as `for the D-Bus API`. Default nothing. */
  readonly purpose?: string;
  /** For a new connection. Default 10 s. */
  readonly connectMs?: number;
}

const DEFAULT_ADDRESS = 'unix:path=/run/dbus/system_bus_socket';
const FIRST_RETRY_MS = 250;
const LAST_RETRY_MS = 10_000;
const CONNECT_MS = 10_000;

interface Subscription {
  readonly match: SignalMatch;
  readonly listener: (signal: BusSignal) => void;
}

interface Link {
  readonly deps: SystemBusDeps;
  readonly address: string;
  readonly subscriptions: Set<Subscription>;
  readonly connectedListeners: Set<() => void>;
  /** The unique name behind each watched name. Empty while it has none. */
  readonly owners: Map<string, string>;
  readonly stop: AbortController;
  /** Undefined without a connection. */
  bus: MessageBus | undefined;
  handler: CallHandler | undefined;
  check: CallCheck | undefined;
}

/** Connects with `start`. */
export function createSystemBus(deps: SystemBusDeps): SystemBus {
  const link: Link = {
    deps,
    address: deps.address ?? deps.env?.DBUS_SYSTEM_BUS_ADDRESS ?? DEFAULT_ADDRESS,
    subscriptions: new Set(),
    connectedListeners: new Set(),
    owners: new Map(),
    stop: new AbortController(),
    bus: undefined,
    handler: undefined,
    check: undefined,
  };
  return {
    start: (signal) => start(link, signal),
    call: async (call, signal) => {
      if (link.bus === undefined) throw unreachable(link.address);
      return link.bus.call(call, signal);
    },
    onSignal: (match, listener) => subscribe({ match, listener }, link),
    serve: (handler, check) => {
      link.handler = handler;
      link.check = check;
      link.bus?.serve(handler, check);
    },
    emit: (signal) => link.bus?.emit(signal),
    onConnected: (listener) => {
      link.connectedListeners.add(listener);
      return () => {
        link.connectedListeners.delete(listener);
      };
    },
    close: () => {
      link.stop.abort(unreachable(link.address));
      link.bus?.close();
    },
  };
}

async function start(link: Link, signal: AbortSignal): Promise<void> {
  try {
    await withEither([signal, link.stop.signal], (either) => connectInTime(link, either));
  } catch (error) {
    if (!signal.aborted) void reconnect(link);
    throw error;
  }
}

function connectInTime(link: Link, signal: AbortSignal): Promise<void> {
  const { address, deps } = link;
  return withDeadline(`The system bus at ${address}`, deps.connectMs ?? CONNECT_MS, signal, (on) => connect(link, on));
}

async function connect(link: Link, signal: AbortSignal): Promise<void> {
  const next = await connectMessageBus(link.address, signal);
  link.owners.clear();
  next.onSignal(
    (received) => dispatch(received, link),
    (header) => isExpected(header, link),
  );
  next.serve(link.handler, link.check);
  try {
    for (const { match } of link.subscriptions) await watchMatch(next, match, link.owners, signal);
  } catch (error) {
    next.close();
    throw error;
  }
  link.bus = next;
  next.onClose((reason) => onLost(reason, link));
  announce(link);
}

function onLost(reason: string, link: Link): void {
  link.bus = undefined;
  if (link.stop.signal.aborted) return;
  const what = nameOf(link);
  link.deps.log.warn({ messageId: messageIds.busLost, reason }, `Lost the connection to ${what}: ${reason}`);
  void reconnect(link);
}

/** With growing pauses, until it succeeds or the bus is closed. Never throws. */
async function reconnect(link: Link): Promise<void> {
  const { deps, stop } = link;
  for (let waitMs = FIRST_RETRY_MS; !stop.signal.aborted; waitMs = Math.min(waitMs * 2, LAST_RETRY_MS)) {
    try {
      await deps.clock.sleep(waitMs, stop.signal);
      await connectInTime(link, stop.signal);
      deps.log.info({ messageId: messageIds.busBack }, `Connected to ${nameOf(link)} again`);
      return;
    } catch {
      // The loss was logged; the next attempt follows.
    }
  }
}

function nameOf({ deps: { purpose } }: Link): string {
  return purpose === undefined ? 'the system bus' : `the system bus ${purpose}`;
}

function announce({ connectedListeners }: Link): void {
  for (const listener of [...connectedListeners]) listener();
}

function isExpected(header: SignalHeader, { subscriptions, owners }: Link): boolean {
  if (header.sender === BUS_NAME) return true;
  return [...subscriptions].some(
    ({ match }) => fitsHeader(match, header) && owners.get(match.sender) === header.sender,
  );
}

function dispatch(signal: BusSignal, link: Link): void {
  const { subscriptions, owners } = link;
  if (signal.sender === BUS_NAME && signal.member === 'NameOwnerChanged') {
    const [name, , owner] = signal.body;
    owners.set(String(name), String(owner));
    if (owner !== '') announce(link);
    return;
  }
  for (const { match, listener } of [...subscriptions]) {
    if (fits(match, signal) && owners.get(match.sender) === signal.sender) listener(signal);
  }
}

function subscribe(subscription: Subscription, link: Link): Unsubscribe {
  const { subscriptions, owners, stop } = link;
  const { match } = subscription;
  subscriptions.add(subscription);
  // The connection broke; the next one adds all rules again.
  if (link.bus !== undefined) watchMatch(link.bus, match, owners, stop.signal).catch(() => undefined);
  return () => {
    subscriptions.delete(subscription);
    link.bus?.call(busCall('RemoveMatch', 's', [ruleOf(match)]), stop.signal).catch(() => undefined);
  };
}

function unreachable(address: string): AppError {
  return new AppError({
    code: 'platform/bus-unreachable',
    message: `There is no connection to the system bus at ${address} now; it is being made again. Is dbus.service running?`,
    disposition: 'retry',
  });
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

/**
 * Adds the rule and stores the owner of the sender's name, now or when it appears.
 *
 * INVARIANT: all calls are sent before the first await. The bus answers in order, so the rule is
 * active before the next answer to the caller, and no signal is missed in between.
 */
async function watchMatch(
  bus: MessageBus,
  match: SignalMatch,
  owners: Map<string, string>,
  signal: AbortSignal,
): Promise<void> {
  const rule = bus.call(busCall('AddMatch', 's', [ruleOf(match)]), signal);
  if (owners.has(match.sender)) {
    await rule;
    return;
  }
  owners.set(match.sender, '');
  const ownerRule = `type='signal',sender='${BUS_NAME}',member='NameOwnerChanged',arg0='${match.sender}'`;
  const [[owner]] = await Promise.all([
    bus.call(busCall('GetNameOwner', 's', [match.sender]), signal).catch(() => ['']),
    bus.call(busCall('AddMatch', 's', [ownerRule]), signal),
    rule,
  ]);
  if (owner !== '') owners.set(match.sender, String(owner));
}

/** For `AddMatch` and `RemoveMatch`. */
function ruleOf(match: SignalMatch): string {
  const keys = ['sender', 'interface', 'member', 'path', 'arg0'] as const;
  const terms = keys.flatMap((key) => (match[key] === undefined ? [] : [`${key}='${match[key]}'`]));
  return ["type='signal'", ...terms].join(',');
}

/** Without `arg0`, which is in the body. */
function fitsHeader(match: SignalMatch, signal: SignalHeader): boolean {
  return (
    match.interface === signal.interface &&
    match.member === signal.member &&
    (match.path === undefined || match.path === signal.path)
  );
}

/** From any sender. */
function fits(match: SignalMatch, signal: BusSignal): boolean {
  return fitsHeader(match, signal) && (match.arg0 === undefined || match.arg0 === signal.body[0]);
}
