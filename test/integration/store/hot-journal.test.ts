import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { reviveBundle } from '../../../src/app/daemon/signed-bundles.ts';
import { openState } from '../../../src/store/database/open-state.ts';
import { bundleIntoCache } from '../../support/bundles/bundle-program.ts';
import { NOON, verified } from '../../support/daemon/scenario.ts';
import { mounting, mountSmallDisk } from '../../support/files/small-disk.ts';
import { createRecordingLog } from '../../support/recording-log.ts';
import { have, program } from '../../support/requirements.ts';
import { openSampleState } from '../../support/state/open-sample-state.ts';

const { signal } = new AbortController();
const event = (kind: string) => ({ at: NOON, kind, message: kind });

let folder: string;
let path: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'stickpin-journal-'));
  path = join(folder, 'state.db');
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** With a release, and a mirror. */
async function makeState(): Promise<void> {
  const { store, close } = openSampleState(path);
  store.adopt(verified(), event('bundleVerified'));
  for (let count = 1; count <= 50; count += 1) store.append({ ...event('large'), message: 'x'.repeat(4_000) });
  await store.mirror(signal);
  close();
}

/** Opens it and changes it. */
function found(at: string) {
  const { store, loss, close } = openSampleState(at);
  store.append(event('later'));
  const names = store.load().bundles.map(({ payload }) => payload.name);
  const trouble = store.trouble();
  close();
  return { names, loss: loss?.remains, trouble };
}

describe('a database that a kill left within a change that a rollback journal undoes', () => {
  beforeEach(async () => {
    await makeState();
    const database = new Database(path);
    database.pragma('journal_mode = DELETE');
    // Pages that are changed go to the file before the commit.
    database.pragma('cache_size = 1');
    database.exec("BEGIN; DELETE FROM event WHERE event_id % 2; UPDATE event SET message = replace(message, 'x', 'y')");
    mkdirSync(join(folder, 'killed'));
    for (const name of ['state.db', 'state.db-journal', 'state.json'])
      cpSync(join(folder, name), join(folder, 'killed', name));
    cpSync(join(folder, 'state.parts'), join(folder, 'killed/state.parts'), { recursive: true });
    database.close();
    path = join(folder, 'killed/state.db');
  });

  it('has what was recorded before, and takes changes', () => {
    expect(found(path)).toEqual({ names: ['ocp'], loss: undefined, trouble: undefined });
    expect(readdirSync(join(folder, 'killed')).filter((name) => name.includes('damaged'))).toEqual([]);
  });

  it('and that is gone is made again from its mirror: the journal changes nothing of it', () => {
    rmSync(path);
    expect(found(path)).toEqual({ names: ['ocp'], loss: 'mirror', trouble: undefined });
    expect(found(path)).toEqual({ names: ['ocp'], loss: undefined, trouble: undefined });
  });

  it.runIf(have('root', mounting))('is read on a disk that is read-only', () => {
    const disk = mountSmallDisk('tmpfs', 4 * 1024 * 1024);
    try {
      cpSync(join(folder, 'killed'), disk.path, { recursive: true });
      disk.readOnly();
      const { store, loss, close } = openState({
        path: join(disk.path, 'state.db'),
        standbyDirectory: join(folder, 'standby'),
        revive: reviveBundle,
        log: createRecordingLog(),
        now: NOON,
      });
      const names = store.load().bundles.map(({ payload }) => payload.name);
      close();
      expect([names, loss]).toEqual([['ocp'], undefined]);
    } finally {
      disk.dispose();
    }
  });
});

describe.runIf(have(program('strace', 'apt-get install strace')))('a kill', { timeout: 240_000 }, () => {
  let recorder: string;
  beforeAll(async () => {
    recorder = await bundleIntoCache('test/support/state/record-changes.ts', 'record-changes');
  });

  it.each([
    { what: 'of a new database', hasMirror: false },
    { what: 'of one that is made from its mirror', hasMirror: true },
  ])('at each change of a file at the first opening $what stops nothing', async ({ hasMirror }) => {
    if (hasMirror) await makeState();
    rmSync(path, { force: true });
    cpSync(folder, `${folder}-before`, { recursive: true });
    let kills = 0;
    try {
      for (let isKilled = true; isKilled; ) {
        rmSync(folder, { recursive: true, force: true });
        cpSync(`${folder}-before`, folder, { recursive: true });
        const files = ['', '-journal', '.new', '.new-journal'].flatMap((suffix) => ['-P', `${path}${suffix}`]);
        const inject = `inject=pwrite64,ftruncate,unlink,rename:signal=KILL:when=${kills + 1}`;
        const args = ['-f', '-qq', '-o', '/dev/null', ...files, '-e', inject];
        const { stdout, signal: end } = spawnSync('strace', [...args, process.execPath, recorder, path], {
          encoding: 'utf8',
          timeout: 60_000,
        });
        isKilled = end === 'SIGKILL' && !stdout.includes('"step":"first"}');
        if (isKilled) kills += 1;
        const { names, trouble } = found(path);
        expect([names, trouble], `kill ${kills}`).toEqual([hasMirror ? ['ocp'] : [], undefined]);
      }
    } finally {
      rmSync(`${folder}-before`, { recursive: true, force: true });
    }
    expect(kills).toBeGreaterThan(5);
  });
});
