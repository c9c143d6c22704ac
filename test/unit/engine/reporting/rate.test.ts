import { describe, expect, it } from 'vitest';
import { RateGauge } from '../../../../src/engine/loop/status-publisher.ts';

const MIB = 1024 * 1024;

describe('rate gauge', () => {
  it('gives no rate before three seconds of transfer', () => {
    const gauge = new RateGauge();
    for (const second of [0, 1, 2]) gauge.sample(second * 2 * MIB, second * 1_000, true);
    expect(gauge.bytesPerSecond()).toBeUndefined();
    gauge.sample(6 * MIB, 3_000, true);
    expect(gauge.bytesPerSecond()).toBeCloseTo(2 * MIB);
  });

  it('gives no rate before one MiB: 289 bytes in the first second predict nothing about the 20 GiB that follow', () => {
    const gauge = new RateGauge();
    for (const second of [0, 1, 2, 3, 4, 5]) gauge.sample(second * 289, second * 1_000, true);
    expect(gauge.bytesPerSecond()).toBeUndefined();
  });

  it('does not give the first reading more weight than the next ones', () => {
    const gauge = new RateGauge();
    gauge.sample(0, 0, true);
    gauge.sample(289, 1_000, true);
    for (const second of [2, 3, 4]) gauge.sample((second - 1) * 10 * MIB, second * 1_000, true);
    expect(gauge.bytesPerSecond()).toBeGreaterThan(7 * MIB);
  });

  it('does not count the time in which the runtime unpacks and nothing is transferred', () => {
    const gauge = new RateGauge();
    for (const second of [0, 1, 2, 3]) gauge.sample(second * MIB, second * 1_000, true);
    for (const second of [4, 5, 60, 600]) gauge.sample(3 * MIB, second * 1_000, false);
    expect(gauge.bytesPerSecond()).toBeCloseTo(MIB);
  });

  it('counts bytes transferred since the last reading, also of transfers that have ended', () => {
    const gauge = new RateGauge();
    for (const second of [0, 1, 2, 3]) gauge.sample(second * MIB, second * 1_000, false);
    expect(gauge.bytesPerSecond()).toBeCloseTo(MIB);
  });

  it('follows a new rate slowly, and the faster the more time has passed', () => {
    const follow = (seconds: number) => {
      const gauge = new RateGauge();
      for (let second = 0; second <= 60; second += 1) gauge.sample(second * MIB, second * 1_000, true);
      gauge.sample(60 * MIB, 60_000 + seconds * 1_000, true);
      return (gauge.bytesPerSecond() ?? 0) / MIB;
    };
    expect(follow(1)).toBeCloseTo(0.8);
    expect(follow(2)).toBeCloseTo(0.64);
    expect(follow(60)).toBeLessThan(0.001);
  });

  it('gives no rate after a reset', () => {
    const gauge = new RateGauge();
    for (const second of [0, 1, 2, 3, 4]) gauge.sample(second * MIB, second * 1_000, true);
    gauge.reset();
    gauge.sample(50 * MIB, 5_000, true);
    gauge.sample(51 * MIB, 6_000, true);
    expect(gauge.bytesPerSecond()).toBeUndefined();
  });
});
