import { describe, expect, it } from 'vitest';
import { Jobs, MediaJobs } from '../../../../src/engine/tasks/jobs.ts';
import { createVirtualClock, type VirtualClock } from '../../../support/fake-ports.ts';

const MEDIA = ['1-sda1', '2-sdb1', '3-sdc1'];

function jobsOn(clock: VirtualClock, onEnd: () => void = () => undefined) {
  const all = new Jobs(clock, onEnd);
  const jobs = new MediaJobs(all, clock, onEnd);
  return { all, jobs, busy: () => MEDIA.filter((mediumId) => jobs.isBusy(mediumId)) };
}

const reasonOf = (error: unknown) => ({ code: 'media/read', message: String(error) });

describe('media jobs', () => {
  it('runs one job for each medium, several media in parallel, and reports each end', async () => {
    const clock = createVirtualClock();
    const ends: number[] = [];
    const { jobs, busy } = jobsOn(clock, () => void ends.push(busy().length));
    let started = 0;
    const work = async (ms: number, signal: AbortSignal) => {
      started += 1;
      await clock.sleep(ms, signal);
    };
    jobs.start('1-sda1', (signal) => work(1_000, signal), reasonOf);
    jobs.start('1-sda1', (signal) => work(1_000, signal), reasonOf);
    jobs.start('2-sdb1', (signal) => work(5_000, signal), reasonOf);
    await clock.advance(1_000);
    expect(busy()).toEqual(['2-sdb1']);
    await clock.advance(4_000);
    expect([started, ends]).toEqual([2, [1, 0]]);
  });

  it('keeps a medium that failed busy for a growing pause, with the reason', async () => {
    const clock = createVirtualClock();
    const { jobs, busy } = jobsOn(clock);
    const fail = () => jobs.start('1-sda1', () => Promise.reject(new Error('EIO')), reasonOf);
    for (const pauseMs of [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]) {
      fail();
      await clock.advance(pauseMs - 1);
      expect(jobs.isBusy('1-sda1')).toBe(true);
      expect(jobs.obstacle()?.message).toBe('Error: EIO');
      await clock.advance(1);
      expect(busy()).toEqual([]);
      expect(jobs.obstacle()).toBeUndefined();
    }
  });

  it("pauses for at most 5 s while the disk of the node can't be written", async () => {
    const clock = createVirtualClock();
    const { jobs, busy } = jobsOn(clock);
    const fail = () =>
      jobs.start(
        '1-sda1',
        () => Promise.reject(new Error('full')),
        () => ({ code: 'store/no-space', message: 'full' }),
      );
    for (const pauseMs of [1_000, 2_000, 4_000, 5_000, 5_000]) {
      fail();
      await clock.advance(pauseMs - 1);
      expect(jobs.isBusy('1-sda1')).toBe(true);
      await clock.advance(1);
      expect(busy()).toEqual([]);
    }
  });

  it('stops at once, also in a pause, and starts nothing more', async () => {
    const clock = createVirtualClock();
    const { all, jobs, busy } = jobsOn(clock);
    jobs.start('1-sda1', () => Promise.reject(new Error('EIO')), reasonOf);
    jobs.start('2-sdb1', (signal) => clock.sleep(60_000, signal), reasonOf);
    await clock.advance(0);
    await all.stop();
    jobs.start('3-sdc1', (signal) => clock.sleep(60_000, signal), reasonOf);
    expect(busy()).toEqual([]);
  });
});
