import { describe, expect, it } from 'vitest';
import { startAgain, watchKeys } from '../../../../src/app/daemon/changes.ts';
import type { TrustKeeper } from '../../../../src/app/daemon/trust/trust-keeper.ts';
import { defaultSettings } from '../../../../src/domain/settings/settings.ts';
import { systemClock } from '../../../../src/platform/clock.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';
import { createRecordingLog } from '../../../support/recording-log.ts';

/** Time that passes at once. */
const clock = { ...systemClock, sleep: async (_ms: number, signal?: AbortSignal) => signal?.throwIfAborted() };

describe('a daemon that takes other settings', () => {
  it.each([
    ['is refused', () => Promise.reject(new Error('access denied')), /access denied/],
    ['is agreed to, and leads to nothing', () => Promise.resolve(), /no SIGTERM within 10000 ms/],
  ])('ends by itself when its restart %s', async (_how, restart, why) => {
    const [stop, log] = [new AbortController(), createRecordingLog()];
    await startAgain({ restart, stop, clock, log });
    expect(stop.signal.aborted).toBe(true);
    expect(log.lines.map(({ message }) => message)).toEqual([expect.stringMatching(why)]);
  });

  it('ends at once where no systemd started it, and says nothing when a SIGTERM came', async () => {
    const [without, terminated, log] = [new AbortController(), new AbortController(), createRecordingLog()];
    await startAgain({ restart: undefined, stop: without, clock, log });
    expect(without.signal.aborted).toBe(true);
    await startAgain({ restart: async () => terminated.abort(), stop: terminated, clock, log });
    expect(log.lines).toEqual([]);
  });
});

describe('the watch on the keys', () => {
  const folder = folderForEach();

  it('requests a round when the keys are other ones, and only then', async () => {
    let revision = 1;
    let rounds = 0;
    const trust = {
      revision: () => revision,
      reload: async (_signal: AbortSignal, taken: () => void) => taken(),
    } as unknown as TrustKeeper;
    const settings = { ...defaultSettings, trust: { ...defaultSettings.trust, keys_dir: folder } };
    const engine = {
      kick: () => {
        rounds += 1;
      },
    };
    const { reload, stop } = watchKeys({ settings, trust, engine, clock: systemClock, log: createRecordingLog() });
    reload();
    expect(rounds).toBe(0);
    revision = 2;
    reload();
    reload();
    expect(rounds).toBe(1);
    stop();
  });
});
