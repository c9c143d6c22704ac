import { BusErrorReply, busCall, type CallHeader, variant } from '../dbus/message-bus.ts';
import { reasonOf } from '../platform/app-error.ts';
import { withDeadline } from '../platform/async/abort.ts';
import { ACTIONS, type Action } from './actions.ts';
import type { ApiBus } from './api-bus.ts';
import { SERVICE } from './contract.ts';

/** The adapters of the permission check. */
export interface Authority {
  readonly bus: Pick<ApiBus, 'call'>;
  /** The user of this process, who may call everything, like root. */
  readonly ownUid: number;
}

type Caller = Pick<CallHeader, 'sender' | 'flags'>;

/** A flag of a call: the caller accepts a wait for a password (D-Bus specification). */
const ALLOW_INTERACTION = 4;
/** The flag of `CheckAuthorization` with the same meaning. */
const ALLOW_USER_INTERACTION = 1;
/** Time for an answer of polkit when no password is needed. */
const ANSWER_MS = 10_000;
const PASSWORD_MS = 120_000;

const ABSENT = new Set([
  'org.freedesktop.DBus.Error.ServiceUnknown',
  'org.freedesktop.DBus.Error.NameHasNoOwner',
  'org.freedesktop.systemd1.NoSuchUnit',
  'org.freedesktop.systemd1.UnitMasked',
]);

/**
 * Allows root, our own user, and users to whom polkit allows the action. Checks the unique name of
 * the caller, which no other process can have.
 *
 * @returns the user id of the caller
 * @throws BusErrorReply `AccessDenied`, or `InteractiveAuthorizationRequired` when a password would
 *   be enough
 */
export async function authorize(
  action: Action,
  caller: Caller,
  authority: Authority,
  signal: AbortSignal,
): Promise<number> {
  const uid = await uidOf(caller.sender, authority, signal);
  if (uid === 0 || uid === authority.ownUid) return uid;
  const { isAuthorized, isChallenge } = await askPolkit(action, caller, uid, authority, signal);
  if (isAuthorized) return uid;
  const isPasswordMissing = isChallenge && !isInteractive(caller);
  throw isPasswordMissing
    ? refusal(
        'InteractiveAuthorizationRequired',
        action,
        uid,
        'polkit asks for a password, which this call can not give',
      )
    : refusal('AccessDenied', action, uid, 'polkit does not allow it');
}

/** The user id of a caller. @throws BusErrorReply `AccessDenied` when the bus does not give it */
export async function uidOf(sender: string, { bus }: Pick<Authority, 'bus'>, signal: AbortSignal): Promise<number> {
  try {
    const [uid] = await bus.call(busCall('GetConnectionUnixUser', 's', [sender]), signal);
    if (typeof uid === 'number') return uid;
  } catch (error) {
    signal.throwIfAborted();
    throw denied(`The bus does not say who called (${reasonOf(error)}), so nothing was done`);
  }
  throw denied('The bus does not say who called, so nothing was done');
}

interface Authorization {
  readonly isAuthorized: boolean;
  /** Whether it would be allowed with a password. */
  readonly isChallenge: boolean;
}

async function askPolkit(
  action: Action,
  caller: Caller,
  uid: number,
  { bus }: Authority,
  parent: AbortSignal,
): Promise<Authorization> {
  const flags = isInteractive(caller) ? ALLOW_USER_INTERACTION : 0;
  const call = {
    destination: 'org.freedesktop.PolicyKit1',
    path: '/org/freedesktop/PolicyKit1/Authority',
    interface: 'org.freedesktop.PolicyKit1.Authority',
    member: 'CheckAuthorization',
    signature: '(sa{sv})sa{ss}us',
    body: [['system-bus-name', { name: variant('s', caller.sender) }], actionId(action), {}, flags, ''],
  };
  try {
    const ms = flags === 0 ? ANSWER_MS : PASSWORD_MS;
    const [result] = await withDeadline('polkit', ms, parent, (on) => bus.call(call, on));
    const [isAuthorized, isChallenge] = Array.isArray(result) ? result : [];
    return { isAuthorized: isAuthorized === true, isChallenge: isChallenge === true };
  } catch (error) {
    parent.throwIfAborted();
    const isAbsent = error instanceof BusErrorReply && ABSENT.has(error.errorName);
    throw refusal('AccessDenied', action, uid, isAbsent ? 'polkit is not there' : `polkit failed: ${reasonOf(error)}`);
  }
}

/** The polkit action id: `io.stickpin1.activate`. */
export function actionId(action: Action): string {
  return `${SERVICE}.${action}`;
}

function isInteractive({ flags }: Caller): boolean {
  return (flags & ALLOW_INTERACTION) !== 0;
}

function refusal(
  name: 'AccessDenied' | 'InteractiveAuthorizationRequired',
  action: Action,
  uid: number,
  why: string,
): BusErrorReply {
  const message = `User ${uid} may not ${ACTIONS[action]} (${actionId(action)}): ${why}. Do it as root, or allow it in a polkit rule`;
  return new BusErrorReply(`org.freedesktop.DBus.Error.${name}`, message);
}

function denied(message: string): BusErrorReply {
  return new BusErrorReply('org.freedesktop.DBus.Error.AccessDenied', message);
}
