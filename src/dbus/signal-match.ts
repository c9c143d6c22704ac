import { type BusSignal, busCall, type MessageBus, type SignalHeader } from './message-bus.ts';

/** The name of the bus itself, which announces the owners of names. */
export const BUS_NAME = 'org.freedesktop.DBus';

/** A match rule for signals (D-Bus specification, "Match Rules"). `sender` is a well-known name. */
export interface SignalMatch {
  readonly sender: string;
  readonly interface: string;
  readonly member: string;
  readonly path?: string;
  readonly arg0?: string;
}

/**
 * Adds the rule and stores the current owner of the sender's name. If it has none, the owner is
 * stored when it appears.
 *
 * INVARIANT: all calls are sent before the first await. The bus answers in order, so the rule is
 * active before the next answer to the caller, and no signal is missed in between.
 */
export async function watchMatch(
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

/** The match rule, as `AddMatch` and `RemoveMatch` take it. */
export function ruleOf(match: SignalMatch): string {
  const keys = ['sender', 'interface', 'member', 'path', 'arg0'] as const;
  const terms = keys.flatMap((key) => (match[key] === undefined ? [] : [`${key}='${match[key]}'`]));
  return ["type='signal'", ...terms].join(',');
}

/** Whether the header of a signal matches. `arg0` is in the body and not checked here. */
export function fitsHeader(match: SignalMatch, signal: SignalHeader): boolean {
  return (
    match.interface === signal.interface &&
    match.member === signal.member &&
    (match.path === undefined || match.path === signal.path)
  );
}

/** Whether a signal matches, from any sender. */
export function fits(match: SignalMatch, signal: BusSignal): boolean {
  return fitsHeader(match, signal) && (match.arg0 === undefined || match.arg0 === signal.body[0]);
}
