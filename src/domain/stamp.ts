import type { StoredBundle } from './state.ts';

/**
 * A time for something that happens now: later than every activation and every request for one, also when the wall clock has fallen back, as it
 * does on a node without a battery-backed clock. Their order decides what is activated.
 */
export function stampAfter(bundles: readonly StoredBundle[], now: number): number {
  const times = bundles.flatMap((bundle) => [bundle.activatedAt ?? 0, bundle.activationRequestedAt ?? 0]);
  return Math.max(now, 1 + Math.max(0, ...times));
}
