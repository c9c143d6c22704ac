import { describe, expect, it } from 'vitest';
import { FleetWatch } from '../../../../src/fleet/daemon/peer-media.ts';
import { AppError } from '../../../../src/platform/app-error.ts';
import { systemClock } from '../../../../src/platform/clock.ts';
import { eventually } from '../../../support/eventually.ts';
import { createRecordingLog } from '../../../support/recording-log.ts';

const away = new AppError({ code: 'offers/unreachable', message: 'the fleet process is away', disposition: 'retry' });
const document = { version: 1 as const, self: 'worker-1', nodes: [], peers: [] };

describe('FleetWatch', () => {
  it('follows the fleet process, and logs once that it is away', async () => {
    const answers: (() => Promise<{ document: typeof document; etag: string } | undefined>)[] = [];
    const asked: unknown[] = [];
    const log = createRecordingLog();
    const stop = new AbortController();
    const clock = { ...systemClock, sleep: (_ms: number, signal: AbortSignal) => systemClock.sleep(1, signal) };
    const watch = new FleetWatch(
      {
        fleet: async ({ etag }, signal) => {
          asked.push(etag);
          const next = answers.shift();
          if (next !== undefined) return next();
          await systemClock.sleep(60_000, signal);
          return undefined;
        },
      },
      clock,
      log,
    );
    let changes = 0;
    watch.onChange(() => {
      changes += 1;
    });
    const fails = async () => Promise.reject(away);
    answers.push(async () => ({ document, etag: 'a' }));
    answers.push(async () => undefined);
    for (let count = 0; count < 6; count += 1) answers.push(fails);
    answers.push(async () => ({ document, etag: 'b' }));
    const running = watch.run(stop.signal);
    await eventually(() => expect(asked).toHaveLength(10));
    expect(asked).toEqual([undefined, 'a', 'a', undefined, undefined, undefined, undefined, undefined, undefined, 'b']);
    expect(changes).toBe(3);
    expect(watch.view()).toEqual({ self: 'worker-1', nodes: [], peers: [] });
    expect(log.lines.map(({ level, message }) => `${level} ${message}`)).toEqual([
      'warn the fleet process is away; nothing comes from other nodes, see systemctl status stickpin-fleet',
      'info The fleet process answers',
    ]);
    stop.abort();
    await running;
  });

  it('is silent once nothing has answered for five minutes, from its start or the last answer', async () => {
    let nowMs = 0;
    const clock = { ...systemClock, monotonic: () => nowMs };
    const stop = new AbortController();
    const fleet = async () => {
      stop.abort();
      return { document, etag: 'a' };
    };
    const watch = new FleetWatch({ fleet }, clock, createRecordingLog());
    nowMs = 299_999;
    expect(watch.isSilent()).toBe(false);
    nowMs = 300_000;
    expect(watch.isSilent()).toBe(true);
    await watch.run(stop.signal);
    expect(watch.isSilent()).toBe(false);
  });
});
