/**
 * What one peer may cause. Each cost is a bucket that holds a minute's worth and fills evenly, so
 * within any time at most one minute's worth more than the rate is spent.
 */
export const PEER_BUDGET = {
  /** Bundles that are read for the first time, or again without having been verified. */
  bundle: { perMinute: 60 },
  /** Bundles that were rejected. */
  refusal: { perMinute: 16 },
  /** Times that it has something that is needed, after it had nothing or did not answer. */
  arrival: { perMinute: 20 },
  /** Changes of its address. */
  address: { perMinute: 6 },
} as const satisfies Readonly<Record<string, { readonly perMinute: number }>>;

/** Code of the reason why nothing is taken from a peer. */
export const LEFT_OUT = 'fleet/left-out';

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
  readonly beganMs: number;
  readonly endsMs: number;
}

/** Of one peer. Times are monotonic. */
export interface PeerAccount {
  readonly spent: Readonly<Partial<Record<PeerCost, { readonly left: number; readonly atMs: number }>>>;
  /** The last one, which may have ended. */
  readonly exclusion?: Exclusion | undefined;
}

export const NEW_ACCOUNT: PeerAccount = { spent: {} };

/** Undefined while the peer is not left out. */
export function exclusionOf({ exclusion }: PeerAccount, nowMs: number): Exclusion | undefined {
  return exclusion !== undefined && nowMs < exclusion.endsMs ? exclusion : undefined;
}

export function leftOf({ spent }: PeerAccount, cost: PeerCost, nowMs: number): number {
  const { perMinute } = PEER_BUDGET[cost];
  const bucket = spent[cost];
  if (bucket === undefined) return perMinute;
  return Math.min(perMinute, bucket.left + ((nowMs - bucket.atMs) * perMinute) / MINUTE_MS);
}

/** Spends what is there. More begins an exclusion, for longer each time. */
export function charge(account: PeerAccount, cost: PeerCost, count: number, nowMs: number): PeerAccount {
  const left = leftOf(account, cost, nowMs);
  if (count <= left) return { ...account, spent: { ...account.spent, [cost]: { left: left - count, atMs: nowMs } } };
  if (exclusionOf(account, nowMs) !== undefined) return account;
  const before = account.exclusion;
  const isForgiven = before === undefined || nowMs - before.endsMs >= FORGIVEN_MS;
  const number = isForgiven ? 1 : before.count + 1;
  const minutes = OUT_MINUTES[Math.min(number, OUT_MINUTES.length) - 1] ?? 0;
  const endsMs = nowMs + minutes * MINUTE_MS;
  return { spent: {}, exclusion: { count: number, cost, minutes, beganMs: nowMs, endsMs } };
}
