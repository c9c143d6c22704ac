import { beforeEach, describe, expect, it } from 'vitest';
import { pullError } from '../../../../src/runtime/cri/runtime-error.ts';
import { UnitStop } from '../../../../src/runtime/cri/unit-stop.ts';
import { createFakeUnit, type FakeUnit } from '../../../support/bus/fake-unit.ts';
import { createVirtualClock, type VirtualClock } from '../../../support/fake-ports.ts';

const signal = new AbortController().signal;

let clock: VirtualClock;
let unit: FakeUnit;
let stop: UnitStop;
let changes: number;
let unwatch: () => void;

beforeEach(() => {
  clock = createVirtualClock();
  unit = createFakeUnit();
  changes = 0;
  stop = new UnitStop(['crio.service'], unit.units, clock);
  unwatch = stop.watch(() => {
    changes += 1;
  });
});

/** A call that lasts until it is cancelled. */
const endless = (inner: AbortSignal) =>
  new Promise<never>((_resolve, reject) => {
    inner.addEventListener('abort', () => reject(pullError('runtime/cancelled', 'Pull was cancelled')));
  });

describe('a stop of the unit', () => {
  it('cancels the calls that run, and lets none begin until it is over', async () => {
    const call = stop.guard(endless, signal);
    unit.become('deactivating');
    await expect(call).rejects.toMatchObject({ code: 'runtime/stopping', message: /crio\.service is being stopped/ });
    expect(stop.unit()).toBe('crio.service');
    await expect(stop.guard(async () => 'done', signal)).rejects.toMatchObject({ code: 'runtime/stopping' });
    unit.become('inactive');
    expect(stop.unit()).toBeUndefined();
    expect(await stop.guard(async () => 'done', signal)).toBe('done');
    expect(changes).toBe(2);
  });

  it('explains a call that failed a moment before the signal of the stop', async () => {
    const call = stop.guard(() => Promise.reject(pullError('runtime/unreachable', 'Pull failed')), signal);
    call.catch(() => undefined);
    await clock.advance(100);
    unit.become('deactivating');
    await expect(call).rejects.toMatchObject({ code: 'runtime/stopping' });
  });

  it('explains no other failure', async () => {
    const call = stop.guard(() => Promise.reject(pullError('runtime/unreachable', 'Pull failed')), signal);
    call.catch(() => undefined);
    await clock.advance(500);
    unit.become('deactivating');
    await expect(call).rejects.toMatchObject({ code: 'runtime/unreachable' });
    unit.become('active');
    const full = stop.guard(() => Promise.reject(pullError('runtime/no-space', 'Pull failed')), signal);
    await expect(full).rejects.toMatchObject({ code: 'runtime/no-space' });
  });

  it('is not given as the reason when the caller cancelled', async () => {
    const own = new AbortController();
    const call = stop.guard(endless, own.signal);
    own.abort();
    unit.become('deactivating');
    await expect(call).rejects.toMatchObject({ code: 'runtime/cancelled' });
  });

  it('counts as over after two minutes, even if its end was not noticed', async () => {
    unit.become('deactivating');
    await clock.advance(60_000);
    unit.become('deactivating');
    expect(stop.unit()).toBe('crio.service');
    await clock.advance(60_000);
    expect(stop.unit()).toBeUndefined();
    unit.become('deactivating');
    expect(stop.unit()).toBe('crio.service');
  });

  it('has no effect after the watch was ended', () => {
    unit.become('deactivating');
    unwatch();
    expect(stop.unit()).toBeUndefined();
    unit.become('deactivating');
    expect(stop.unit()).toBeUndefined();
  });
});
