import { BusErrorReply } from '../dbus/message-bus.ts';
import type { Clock } from '../platform/clock.ts';
import { type Authority, uidOf } from './authority.ts';

/** The adapters of a {@link CallerBudget}. */
interface BudgetDeps extends Authority {
  readonly clock: Pick<Clock, 'monotonic' | 'sleep'>;
}

/** Processor time that is left, in milliseconds, as it was at `at`. Below zero it is owed. */
interface Account {
  leftMs: number;
  at: number;
}

interface UserAccount extends Account {
  waiting: number;
  /** Resolves when all earlier calls of the user have ended. */
  turn: Promise<void>;
}

/** How much of a processor a user, and all users but root together, get in the long run. */
const SHARE = { user: 0.1, all: 0.3 };
/** How much at once, in milliseconds. */
const BURST = { user: 1_000, all: 2_000 };
/** The least that a call costs, in milliseconds. */
const CALL_MS = 0.1;
const MAX_WAITING = 64;
const MAX_SENDERS = 1_024;
const MAX_ACCOUNTS = 256;

/**
 * Limits the processor time that calls of each user take. Calls beyond it wait, one after the other
 * for each user. Root and our own user have no limit.
 */
export class CallerBudget {
  private readonly deps: BudgetDeps;
  /** By unique name, which a bus never gives twice. */
  private readonly uids = new Map<string, number>();
  private readonly accounts = new Map<number, UserAccount>();
  private readonly all: Account;

  constructor(deps: BudgetDeps) {
    this.deps = deps;
    this.all = { leftMs: BURST.all, at: deps.clock.monotonic() };
  }

  /**
   * Runs `work` when it is the turn of the caller.
   *
   * @param work does not wait for anything, since its time is what counts
   * @param leastMs what it costs at least
   * @throws BusErrorReply `LimitsExceeded` when too many calls of the user wait
   */
  async run<T>(sender: string, work: () => Promise<T>, signal: AbortSignal, leastMs = CALL_MS): Promise<T> {
    const uid = await this.uidOf(sender, signal);
    if (uid === 0 || uid === this.deps.ownUid) return work();
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
    const uid = await uidOf(sender, this.deps, signal);
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
    const account = {
      leftMs: BURST.user,
      at: this.deps.clock.monotonic(),
      waiting: 0,
      turn: Promise.resolve(),
    };
    this.accounts.set(uid, account);
    return account;
  }

  private async paid<T>(account: Account, work: () => Promise<T>, signal: AbortSignal, leastMs: number): Promise<T> {
    const { clock } = this.deps;
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
    const now = this.deps.clock.monotonic();
    account.leftMs = Math.min(burstMs, account.leftMs + (now - account.at) * share);
    account.at = now;
  }
}
