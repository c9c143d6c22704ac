import type { StoredBundle } from './state.ts';

/**
 * A time for something that happens now: later than every activation, every request for one and all
 * that followed, also when the wall clock has fallen back, as it does on a node without a
 * battery-backed clock. Their order decides what is activated.
 */
export function stampAfter(bundles: readonly StoredBundle[], now: number): number {
  return Math.max(now, 1 + latestStamp(bundles));
}

/** The latest of the times that {@link stampAfter} gave to these bundles; 0 when it gave none. */
export function latestStamp(bundles: readonly StoredBundle[]): number {
  const times = bundles.flatMap(
    ({ activatedAt, activationBegunAt, activationRequestedAt, activeAt, provenAt, retiredAt, rolledBackAt }) =>
      [activatedAt, activationBegunAt, activationRequestedAt, activeAt, provenAt, retiredAt, rolledBackAt].map(
        (time) => time ?? 0,
      ),
  );
  return Math.max(0, ...times);
}
