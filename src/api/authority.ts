import { BusErrorReply, busCall, type CallHeader, variant } from '../host/bus/message-bus.ts';
import { reasonOf } from '../platform/app-error.ts';
import { withDeadline } from '../platform/async/abort.ts';
import type { Clock } from '../platform/clock.ts';
import { ACTIONS, type Action, type ApiBus, SERVICE } from './contract.ts';

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
  const { isAuthorized, isChallenge } = await checkWithPolkit(action, caller, uid, authority, signal);
  if (isAuthorized) return uid;
  if (!isChallenge || isInteractive(caller)) throw refusal('AccessDenied', action, uid, 'polkit does not allow it');
  const why = 'polkit asks for a password, which this call can not give';
  throw refusal('InteractiveAuthorizationRequired', action, uid, why);
}

/** @throws BusErrorReply `AccessDenied` when the bus does not give it */
async function uidOf(sender: string, { bus }: Authority, signal: AbortSignal): Promise<number> {
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

async function checkWithPolkit(
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

/** The remaining processor time in milliseconds at the time `at`. Below zero it is owed. */
interface Account {
  leftMs: number;
  at: number;
}

interface UserAccount extends Account {
  waiting: number;
  /** Resolves when all earlier calls of the user have ended. */
  turn: Promise<void>;
}

/** The share of a processor for a user, and for all users but root together. */
const SHARE = { user: 0.1, all: 0.3 };
/** The most that may be used at once, in milliseconds. */
const BURST = { user: 1_000, all: 2_000 };
/** The least that a call costs, in milliseconds. */
const CALL_MS = 0.1;
const MAX_WAITING = 64;
const MAX_SENDERS = 1_024;
const MAX_ACCOUNTS = 256;

/**
 * Limits the processor time that calls of each user take. Calls beyond it wait, one after the other
 * for each user. Root and the user of the daemon have no limit.
 */
export class CallerBudget {
  /** The keys are unique names, which a bus never gives twice. */
  private readonly uids = new Map<string, number>();
  private readonly accounts = new Map<number, UserAccount>();
  private readonly all: Account;

  constructor(
    private readonly authority: Authority,
    private readonly clock: Pick<Clock, 'monotonic' | 'sleep'>,
  ) {
    this.all = { leftMs: BURST.all, at: clock.monotonic() };
  }

  /**
   * Runs `work` after the earlier calls of the user, and within the limits.
   * @param work does not wait for anything, since its time is what counts
   * @param leastMs what it costs at least
   * @throws BusErrorReply `LimitsExceeded` when too many calls of the user wait
   */
  async run<T>(sender: string, work: () => Promise<T>, signal: AbortSignal, leastMs = CALL_MS): Promise<T> {
    const uid = await this.uidOf(sender, signal);
    if (uid === 0 || uid === this.authority.ownUid) return work();
    const account = this.accountOf(uid);
    if (account.waiting >= MAX_WAITING) {
      const message = `${MAX_WAITING} calls of user ${uid} have no answer yet; wait for one`;
      throw new BusErrorReply('org.freedesktop.DBus.Error.LimitsExceeded', message);
    }
    account.waiting += 1;
    const done = account.turn.then(() => this.paid(account, work, signal, leastMs));
    account.turn = done.then(
      () => undefined,
      () => undefined,
    );
    try {
      return await done;
    } finally {
      account.waiting -= 1;
    }
  }

  private async uidOf(sender: string, signal: AbortSignal): Promise<number> {
    const known = this.uids.get(sender);
    if (known !== undefined) return known;
    const uid = await uidOf(sender, this.authority, signal);
    if (this.uids.size >= MAX_SENDERS) this.uids.clear();
    this.uids.set(sender, uid);
    return uid;
  }

  private accountOf(uid: number): UserAccount {
    const known = this.accounts.get(uid);
    if (known !== undefined) return known;
    if (this.accounts.size >= MAX_ACCOUNTS) {
      for (const [other, account] of this.accounts) {
        this.refill(account, SHARE.user, BURST.user);
        if (account.waiting === 0 && account.leftMs === BURST.user) this.accounts.delete(other);
      }
    }
    const account = { leftMs: BURST.user, at: this.clock.monotonic(), waiting: 0, turn: Promise.resolve() };
    this.accounts.set(uid, account);
    return account;
  }

  private async paid<T>(account: Account, work: () => Promise<T>, signal: AbortSignal, leastMs: number): Promise<T> {
    const { clock } = this;
    for (;;) {
      this.refill(account, SHARE.user, BURST.user);
      this.refill(this.all, SHARE.all, BURST.all);
      const waitMs = Math.max(-account.leftMs / SHARE.user, -this.all.leftMs / SHARE.all);
      if (waitMs <= 0) break;
      await clock.sleep(Math.ceil(waitMs), signal);
    }
    const began = clock.monotonic();
    try {
      return await work();
    } finally {
      const costMs = Math.max(leastMs, clock.monotonic() - began);
      account.leftMs -= costMs;
      this.all.leftMs -= costMs;
    }
  }

  private refill(account: Account, share: number, burstMs: number): void {
    const now = this.clock.monotonic();
    account.leftMs = Math.min(burstMs, account.leftMs + (now - account.at) * share);
    account.at = now;
  }
}
