import { existsSync, mkdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ConsoleFile } from '../../../../src/app/daemon/console-file.ts';
import type { StatusReport } from '../../../../src/domain/report/status-schema.ts';
import { idleReport } from '../../../support/bus/fake-backend.ts';
import { temporaryFolder } from '../../../support/files/temporary-folder.ts';
import { createRecordingLog } from '../../../support/recording-log.ts';

function made(folder = temporaryFolder()) {
  const reload = join(folder, 'agetty.reload');
  writeFileSync(reload, '');
  let monotonic = 0;
  const log = createRecordingLog();
  const sleeping: { readonly until: number; readonly wake: () => void; readonly signal: AbortSignal }[] = [];
  const clock = {
    now: () => 1_773_144_000_000,
    monotonic: () => monotonic,
    sleep: (ms: number, signal: AbortSignal) =>
      new Promise<void>((wake) => sleeping.push({ until: monotonic + ms, wake, signal })),
  };
  const file = new ConsoleFile({ runDirectory: folder, clock, log, reload });
  const path = join(folder, 'stickpin.issue');
  const report = (text: string, over: Partial<StatusReport> = {}): StatusReport => ({
    ...idleReport(),
    operation: 'idle',
    advice: { action: 'none', words: 'IDLE', text },
    ...over,
  });
  return {
    file,
    path,
    log,
    pass: async (ms: number) => {
      monotonic += ms;
      for (const { until, wake, signal } of sleeping) if (until <= monotonic && !signal.aborted) wake();
      await Promise.resolve();
      await file.settled();
    },
    /** Whether agetty was asked to print it again. */
    publish: async (...args: Parameters<typeof report>) => {
      utimesSync(reload, 1, 1);
      file.publish(report(...args));
      await file.settled();
      return statSync(reload).mtimeMs > 1_000;
    },
    text: () => (existsSync(path) ? readFileSync(path, 'utf8') : undefined),
  };
}

const loading = (doneBytes: number): Partial<StatusReport> => ({
  operation: 'preloading',
  progress: { doneBytes, totalBytes: 100 },
});

describe('the text above a login prompt', () => {
  it('is written at each change and each 10 % of a preload', async () => {
    const { publish, text } = made();
    expect(await publish('No bundle yet.')).toBe(true);
    expect(text()).toContain('\nNo bundle yet.\n');
    expect(await publish('No bundle yet.')).toBe(false);
    const steps: boolean[] = [];
    for (const bytes of [0, 5, 9, 10, 19, 20, 100]) steps.push(await publish(`${bytes} of 100`, loading(bytes)));
    expect(steps).toEqual([true, false, false, true, false, true, true]);
    expect(text()).toContain('] 90 %');
  });

  it('is written once a minute where only numbers change', async () => {
    const { publish, pass, text } = made();
    await publish('Copying layers, 900 MiB left.');
    expect(await publish('Copying layers, 800 MiB left.')).toBe(false);
    expect(await publish('Copying layers, 700 MiB left.')).toBe(false);
    await pass(59_999);
    expect(text()).toContain('900 MiB');
    await pass(1);
    expect(text()).toContain('700 MiB');
    expect(await publish('Checking images, 1 of 9.')).toBe(true);
  });

  it('is not written later when the daemon has gone, or says again what is shown', async () => {
    const { publish, pass, file, text } = made();
    await publish('1 stick');
    await publish('2 stick');
    await publish('1 stick');
    await pass(60_000);
    expect(text()).toContain('1 stick');
    await publish('3 stick');
    await publish('4 stick');
    await file.close();
    await pass(60_000);
    expect(text()).toBeUndefined();
  });

  it('is written at once with another code', async () => {
    const { publish } = made();
    const advice = { action: 'wait' as const, words: 'WAIT' as const, text: 'a' };
    await publish('', { advice: { ...advice, code: 'M-12' } });
    expect(await publish('', { advice: { ...advice, code: 'M-13' } })).toBe(true);
  });

  it('goes with the daemon', async () => {
    const { publish, file, text } = made();
    await publish('No bundle yet.');
    await file.close();
    expect(text()).toBeUndefined();
  });

  it('that can not be written is logged once', async () => {
    const { publish, path, log, file } = made();
    mkdirSync(join(path, 'in-the-way'), { recursive: true });
    await publish('No bundle yet.');
    await publish('Waiting for media.');
    expect(log.lines.filter(({ message }) => message.includes('console'))).toHaveLength(1);
    rmSync(path, { recursive: true });
    await publish('Another text.');
    await file.settled();
    expect(readFileSync(path, 'utf8')).toContain('Another text.');
  });
});
