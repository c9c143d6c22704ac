import {
  charge,
  type Exclusion,
  exclusionOf,
  leftOf,
  NEW_ACCOUNT,
  PEER_BUDGET,
  type PeerAccount,
  type PeerCost,
} from '../../domain/fleet/budget.ts';
import type { Clock } from '../../platform/clock.ts';

/** More peers than a cluster has; the one that was charged first is forgotten. */
const MOST_ACCOUNTS = 5_000;

/** What each peer has spent, by its name. */
export class PeerBudgets {
  private readonly accounts = new Map<string, PeerAccount>();

  constructor(private readonly clock: Pick<Clock, 'monotonic'>) {}

  /** Undefined while the peer is not left out. */
  exclusion(peer: string): Exclusion | undefined {
    return exclusionOf(this.accounts.get(peer) ?? NEW_ACCOUNT, this.clock.monotonic());
  }

  /** Whole ones. */
  left(peer: string, cost: PeerCost): number {
    return Math.floor(leftOf(this.accounts.get(peer) ?? NEW_ACCOUNT, cost, this.clock.monotonic()));
  }

  /** @returns the exclusion that this begins, if it does */
  charge(peer: string, cost: PeerCost, count: number): Exclusion | undefined {
    const before = this.accounts.get(peer) ?? NEW_ACCOUNT;
    const after = charge(before, cost, count, this.clock.monotonic());
    const [oldest] = this.accounts.keys();
    if (!this.accounts.has(peer) && this.accounts.size >= MOST_ACCOUNTS && oldest !== undefined) {
      this.accounts.delete(oldest);
    }
    this.accounts.set(peer, after);
    return after.exclusion === before.exclusion ? undefined : after.exclusion;
  }
}

const WHAT: Readonly<Record<PeerCost, string>> = {
  bundle: 'bundles to read',
  refusal: 'bundles that this node rejects',
  arrival: 'comings and goings',
  address: 'changes of its address',
};

/** Without full stop. */
export function exclusionText({ cost, minutes, count }: Exclusion): string {
  const time = minutes < 60 ? `${minutes} min` : `${minutes / 60} h`;
  const again = count === 1 ? '' : ` (time ${count} in a row)`;
  return `it had more than ${PEER_BUDGET[cost].perMinute} ${WHAT[cost]} in a minute, so nothing is taken from it for ${time}${again}`;
}
