import { AppError } from '../platform/app-error.ts';
import { withDeadline } from '../platform/async/abort.ts';
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

/** Which signals are wanted (D-Bus specification, "Match Rules"). `sender` is a well-known name. */
interface SignalMatch {
  readonly sender: string;
  readonly interface: string;
  readonly member: string;
  readonly path?: string;
  readonly arg0?: string;
}

/** A connection to the system bus that is made again whenever it breaks. */
export interface SystemBus {
  /** Connects for the first time. @throws AppError `platform/bus-unreachable` (`retry`); later attempts go on by themselves. */
  start(signal: AbortSignal): Promise<void>;
  /** @throws AppError `platform/bus-unreachable` (`retry`) while there is no connection; BusErrorReply when the peer said no. */
  call(call: BusCall, signal: AbortSignal): Promise<readonly unknown[]>;
  /** Hands over matching signals that the present owner of `match.sender` sent, across reconnections. */
  onSignal(match: SignalMatch, listener: (signal: BusSignal) => void): Unsubscribe;
  /** Answers incoming calls, across reconnections; see {@link MessageBus.serve}. */
  serve(handler: CallHandler, check?: CallCheck): void;
  /** Sends a signal; lost without a word while there is no connection. */
  emit(signal: OutgoingSignal): void;
  /**
   * Calls `listener` after each connection, and when a new owner took the name of a sender that is watched: signals may have been missed
   * before.
   */
  onConnected(listener: () => void): Unsubscribe;
  close(): void;
}

/** What {@link createSystemBus} needs. */
export interface SystemBusDeps {
  readonly clock: Clock;
  readonly log: Log;
  /** D-Bus server address; default `DBUS_SYSTEM_BUS_ADDRESS`, else `unix:path=/run/dbus/system_bus_socket`. */
  readonly address?: string;
  readonly env?: NodeJS.ProcessEnv;
  /** How long the bus may take to answer a new connection; default 10 s. */
  readonly connectMs?: number;
}

const DEFAULT_ADDRESS = 'unix:path=/run/dbus/system_bus_socket';
const BUS_NAME = 'org.freedesktop.DBus';
const FIRST_RETRY_MS = 250;
const LAST_RETRY_MS = 10_000;
/** A bus that takes connections but has not answered for this long is left and tried again. */
const CONNECT_MS = 10_000;

interface Subscription {
  readonly match: SignalMatch;
  readonly listener: (signal: BusSignal) => void;
}

/** Makes a {@link SystemBus}; nothing is connected before `start`. */
export function createSystemBus(deps: SystemBusDeps): SystemBus {
  const address = deps.address ?? deps.env?.DBUS_SYSTEM_BUS_ADDRESS ?? DEFAULT_ADDRESS;
  const subscriptions = new Set<Subscription>();
  const connectedListeners = new Set<() => void>();
  const owners = new Map<string, string>();
  const stop = new AbortController();
  let bus: MessageBus | undefined;
  let handler: CallHandler | undefined;
  let check: CallCheck | undefined;

  const announce = (): void => {
    for (const listener of [...connectedListeners]) listener();
  };
  const dispatch = (signal: BusSignal): void => {
    if (signal.sender === BUS_NAME && signal.member === 'NameOwnerChanged') {
      const [name, , owner] = signal.body;
      owners.set(String(name), String(owner));
      if (owner !== '') announce();
      return;
    }
    for (const { match, listener } of [...subscriptions]) {
      if (fits(match, signal) && owners.get(match.sender) === signal.sender) listener(signal);
    }
  };

  const isExpected = (header: SignalHeader): boolean =>
    header.sender === BUS_NAME ||
    [...subscriptions].some(({ match }) => fitsHeader(match, header) && owners.get(match.sender) === header.sender);

  const connect = async (signal: AbortSignal): Promise<void> => {
    const next = await connectMessageBus(address, signal);
    owners.clear();
    next.onSignal(dispatch, isExpected);
    next.serve(handler, check);
    try {
      for (const { match } of subscriptions) await watch(next, match, owners, signal);
    } catch (error) {
      next.close();
      throw error;
    }
    bus = next;
    next.onClose((reason) => {
      bus = undefined;
      if (stop.signal.aborted) return;
      deps.log.warn({ messageId: messageIds.busLost, reason }, `Lost the connection to the system bus: ${reason}`);
      void reconnect();
    });
    announce();
  };

  const connectInTime = (signal: AbortSignal): Promise<void> =>
    withDeadline(`The system bus at ${address}`, deps.connectMs ?? CONNECT_MS, signal, connect);

  const reconnect = async (): Promise<void> => {
    for (let waitMs = FIRST_RETRY_MS; !stop.signal.aborted; waitMs = Math.min(waitMs * 2, LAST_RETRY_MS)) {
      try {
        await deps.clock.sleep(waitMs, stop.signal);
        await connectInTime(stop.signal);
        deps.log.info({ messageId: messageIds.busBack }, 'Connected to the system bus again');
        return;
      } catch {
        // The loss was logged; the next attempt follows.
      }
    }
  };

  return {
    start: async (signal) => {
      try {
        await connectInTime(AbortSignal.any([signal, stop.signal]));
      } catch (error) {
        if (!signal.aborted) void reconnect();
        throw error;
      }
    },
    call: async (call, signal) => {
      if (bus === undefined) throw unreachable(address);
      return bus.call(call, signal);
    },
    onSignal: (match, listener) => {
      const subscription = { match, listener };
      subscriptions.add(subscription);
      // A failure means that the connection broke; connecting again adds every rule.
      if (bus !== undefined) watch(bus, match, owners, stop.signal).catch(() => undefined);
      return () => {
        subscriptions.delete(subscription);
        bus?.call(busCall('RemoveMatch', 's', [ruleOf(match)]), stop.signal).catch(() => undefined);
      };
    },
    serve: (next, nextCheck) => {
      handler = next;
      check = nextCheck;
      bus?.serve(next, nextCheck);
    },
    emit: (signal) => bus?.emit(signal),
    onConnected: (listener) => {
      connectedListeners.add(listener);
      return () => {
        connectedListeners.delete(listener);
      };
    },
    close: () => {
      stop.abort(unreachable(address));
      bus?.close();
    },
  };
}

/**
 * Adds the rule and learns who owns the sender's name now; a name that nobody owns is learned when it appears.
 *
 * INVARIANT: all calls are sent before anything is awaited. The bus works them in order, so whatever the caller asks for next
 * (as a list of what is there) is answered after the rule holds, and nothing falls between the two.
 */
async function watch(
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

function ruleOf(match: SignalMatch): string {
  const keys = ['sender', 'interface', 'member', 'path', 'arg0'] as const;
  const terms = keys.flatMap((key) => (match[key] === undefined ? [] : [`${key}='${match[key]}'`]));
  return ["type='signal'", ...terms].join(',');
}

function fitsHeader(match: SignalMatch, signal: SignalHeader): boolean {
  return (
    match.interface === signal.interface &&
    match.member === signal.member &&
    (match.path === undefined || match.path === signal.path)
  );
}

function fits(match: SignalMatch, signal: BusSignal): boolean {
  return fitsHeader(match, signal) && (match.arg0 === undefined || match.arg0 === signal.body[0]);
}

function unreachable(address: string): AppError {
  return new AppError({
    code: 'platform/bus-unreachable',
    message: `There is no connection to the system bus at ${address} now; it is being made again. Is dbus.service running?`,
    disposition: 'retry',
  });
}
