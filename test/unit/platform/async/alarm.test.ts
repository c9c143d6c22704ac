import { beforeEach, expect, it } from 'vitest';
import { Alarm } from '../../../../src/platform/async/alarm.ts';
import { SimulatedClock } from '../../../support/simulated-clock.ts';

let clock: SimulatedClock;
let rings: number[];
beforeEach(() => {
  clock = new SimulatedClock();
  rings = [];
});
const alarmOn = (on: Pick<SimulatedClock, 'monotonic' | 'sleep'>) => new Alarm(on, () => rings.push(clock.monotonic()));

it('rings once at the time that was set last', async () => {
  const alarm = alarmOn(clock);
  alarm.set(100);
  alarm.set(300);
  alarm.set(200);
  await clock.passUntil(1_000);
  expect(rings).toEqual([200]);
});

it('rings at once when the time is over, and never when there is none', async () => {
  const alarm = alarmOn(clock);
  alarm.set(0);
  await clock.passUntil(10);
  alarm.set(20);
  alarm.set(undefined);
  await clock.passUntil(100);
  expect(rings).toEqual([0]);
});

it('does not ring before its time when a timer fires early', async () => {
  const isEarly = { monotonic: () => clock.monotonic(), sleep: (ms: number, signal: AbortSignal) => clock.sleep(Math.max(ms - 1, 0.5), signal) }; // biome-ignore format: one line
  alarmOn(isEarly).set(100);
  await clock.passUntil(1_000);
  expect(rings).toEqual([100]);
});

it('may be set anew while it rings', async () => {
  const alarm: Alarm = new Alarm(clock, () => {
    rings.push(clock.monotonic());
    if (rings.length < 3) alarm.set(clock.monotonic() + 50);
  });
  alarm.set(50);
  await clock.passUntil(1_000);
  expect(rings).toEqual([50, 100, 150]);
});
