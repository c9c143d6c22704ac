import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { bundleIntoCache } from '../../support/bundles/bundle-program.ts';
import { have, program } from '../../support/requirements.ts';
import { openSampleState } from '../../support/state/open-sample-state.ts';

/** What `change-while-renewing.ts` writes. */
interface Step {
  readonly step: string;
  readonly message?: string;
  readonly error?: string;
  readonly trouble?: string;
  /** Open files. */
  readonly databases?: readonly string[];
  readonly hasStandby?: boolean;
}

describe.runIf(have(program('strace', 'apt-get install strace')))('after a failed sync', { timeout: 120_000 }, () => {
  let recorder: string;
  let folder: string;
  let path: string;

  beforeAll(async () => {
    recorder = await bundleIntoCache('test/support/state/change-while-renewing.ts', 'change-while-renewing');
  });
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'stickpin-failed-sync-'));
    path = join(folder, 'state.db');
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  /** The first sync of the log fails, and so do the calls of `inject` on it. */
  const run = (end: 'change' | 'close', ...inject: readonly string[]) => {
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder);
    openSampleState(path).close();
    const faults = ['fdatasync:error=EIO:when=1', ...inject].flatMap((one) => ['-e', `inject=${one}`]);
    const args = ['-f', '-qq', '-o', join(folder, 'trace'), '-P', `${path}-wal`, ...faults];
    const { stdout, stderr, status } = spawnSync('strace', [...args, process.execPath, recorder, path, end], {
      encoding: 'utf8',
      timeout: 60_000,
      // strace counts the calls of each thread on its own.
      env: { ...process.env, UV_THREADPOOL_SIZE: '1' },
    });
    expect([status, stderr]).toEqual([0, '']);
    const trace = readFileSync(join(folder, 'trace'), 'utf8');
    const steps = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Step);
    return { steps, isWriteFailed: /pwrite64.*\(INJECTED\)/.test(trace) };
  };

  it('and a failed write during the copy all counts as written only when it is in a new file', () => {
    let failed = 0;
    for (let when = 1; failed < 2; when += 1) {
      const { steps, isWriteFailed } = run('change', `pwrite64:error=EIO:when=${when}`);
      const what = `write ${when}: ${JSON.stringify(steps)}`;
      expect(isWriteFailed, what).toBe(true);
      const wasKeptOut = steps.some(({ step, error }) => step.startsWith('meanwhile') && error !== undefined);
      if (!wasKeptOut) continue;
      failed += 1;
      expect(steps.at(-2), what).toEqual({ step: 'settled' });
      expect(steps.at(-3)?.message, what).toMatch(/^All that is recorded is on the disk, in a new /);
      expect(steps.at(-1), what).toEqual({ step: 'end', databases: [path], hasStandby: false });
      const database = new Database(path, { readonly: true });
      expect(database.prepare("SELECT 1 FROM event WHERE kind = 'last'").all(), what).toHaveLength(1);
      database.close();
    }
  });

  it('a state that is closed during the copy leaves no temporary copy and no open file', () => {
    const { steps } = run('close');
    expect(steps.at(-1)).toEqual({ step: 'end', databases: [], hasStandby: false });
  });
});
