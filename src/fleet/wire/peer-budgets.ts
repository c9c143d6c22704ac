import type { Clock } from '../../platform/clock.ts';

/**
 * What one peer may cause in a minute. Each cost is a bucket that holds a minute's worth and fills
 * evenly, so within any time at most one minute's worth more than the rate is spent.
 */
export const PEER_BUDGET = {
  /** Bundles that are read for the first time, or again without having been verified. */
  bundle: { perMinute: 60, what: 'bundles to read' },
  /** Bundles that were rejected. */
  refusal: { perMinute: 16, what: 'bundles that this node rejects' },
  /** How often it has something that is needed, after it had nothing or did not answer. */
  arrival: { perMinute: 20, what: 'comings and goings' },
  address: { perMinute: 6, what: 'changes of its address' },
} as const;

export type PeerCost = keyof typeof PEER_BUDGET;

const MINUTE_MS = 60_000;

/** How long a peer is left out, in minutes: the first time, the second time, and so on. */
const OUT_MINUTES = [1, 5, 30, 120, 360] as const;

/** An exclusion is forgotten after this time without another one. */
export const FORGIVEN_MS = 24 * 60 * MINUTE_MS;

export interface Exclusion {
  /** How many there were, with this one. */
  readonly count: number;
  readonly cost: PeerCost;
  readonly minutes: number;
  /** Monotonic. */
  readonly endsMs: number;
}

interface Account {
  readonly available: Map<PeerCost, { readonly count: number; readonly atMs: number }>;
  /** The last one, which may have ended. */
  exclusion: Exclusion | undefined;
}

/** More peers than a cluster has; the one that was charged first is forgotten. */
const MOST_ACCOUNTS = 5_000;

/** What each peer has spent, by its name. */
export class PeerBudgets {
  private readonly accounts = new Map<string, Account>();

  constructor(private readonly clock: Pick<Clock, 'monotonic'>) {}

  /** Undefined while the peer is not left out. */
  exclusion(peer: string): Exclusion | undefined {
    const { exclusion } = this.accounts.get(peer) ?? {};
    return exclusion !== undefined && this.clock.monotonic() < exclusion.endsMs ? exclusion : undefined;
  }

  /** Spends what is there. More begins an exclusion, for longer each time. */
  charge(peer: string, cost: PeerCost, count: number): void {
    const { perMinute } = PEER_BUDGET[cost];
    const nowMs = this.clock.monotonic();
    const account = this.accountOf(peer);
    const before = account.available.get(cost) ?? { count: perMinute, atMs: nowMs };
    const available = Math.min(perMinute, before.count + ((nowMs - before.atMs) * perMinute) / MINUTE_MS);
    if (count <= available) {
      account.available.set(cost, { count: available - count, atMs: nowMs });
    } else if (this.exclusion(peer) === undefined) {
      const last = account.exclusion;
      const number = last === undefined || nowMs - last.endsMs >= FORGIVEN_MS ? 1 : last.count + 1;
      const minutes = OUT_MINUTES[Math.min(number, OUT_MINUTES.length) - 1] ?? 0;
      account.exclusion = { count: number, cost, minutes, endsMs: nowMs + minutes * MINUTE_MS };
      account.available.clear();
    }
  }

  private accountOf(peer: string): Account {
    const account = this.accounts.get(peer) ?? { available: new Map(), exclusion: undefined };
    const [oldest] = this.accounts.keys();
    if (!this.accounts.has(peer) && this.accounts.size >= MOST_ACCOUNTS && oldest !== undefined) {
      this.accounts.delete(oldest);
    }
    this.accounts.set(peer, account);
    return account;
  }
}

/** The text has no full stop. */
export function exclusionText({ cost, minutes, count }: Exclusion): string {
  const { perMinute, what } = PEER_BUDGET[cost];
  const time = minutes < 60 ? `${minutes} min` : `${minutes / 60} h`;
  const again = count === 1 ? '' : ` (time ${count} in a row)`;
  return `it had more than ${perMinute} ${what} in a minute, so nothing is taken from it for ${time}${again}`;
}
