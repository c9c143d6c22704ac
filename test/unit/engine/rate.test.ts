import { describe, expect, it } from 'vitest';
import { createRateGauge } from '../../../src/engine/rate.ts';

describe('rate gauge', () => {
  it('knows nothing before two readings that are half a second apart', () => {
    const gauge = createRateGauge();
    gauge.sample(0, 0);
    expect(gauge.bytesPerSecond()).toBeUndefined();
    gauge.sample(1_000, 499);
    expect(gauge.bytesPerSecond()).toBeUndefined();
    gauge.sample(1_000, 500);
    expect(gauge.bytesPerSecond()).toBe(2_000);
  });

  it('follows a new rate slowly, and the faster the more time has passed', () => {
    const follow = (seconds: number) => {
      const gauge = createRateGauge();
      gauge.sample(0, 0);
      gauge.sample(1_000, 1_000);
      gauge.sample(1_000, 1_000 + seconds * 1_000);
      return gauge.bytesPerSecond() ?? 0;
    };
    expect(follow(1)).toBeCloseTo(800);
    expect(follow(2)).toBeCloseTo(640);
    expect(follow(60)).toBeLessThan(1);
  });

  it('gives the same for one reading in two seconds as for two, when the rate stands', () => {
    const gauge = createRateGauge();
    for (const second of [0, 1, 2, 4, 8]) gauge.sample(second * 5_000, second * 1_000);
    expect(gauge.bytesPerSecond()).toBeCloseTo(5_000);
  });

  it('forgets', () => {
    const gauge = createRateGauge();
    gauge.sample(0, 0);
    gauge.sample(9_000, 1_000);
    gauge.reset();
    gauge.sample(50_000, 2_000);
    expect(gauge.bytesPerSecond()).toBeUndefined();
  });
});
