import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { reviveBundle } from '../../../src/app/daemon/signed-bundles.ts';
import { openState } from '../../../src/store/database/open-state.ts';
import { bundleIntoCache } from '../../support/bundles/bundle-program.ts';
import { NOON } from '../../support/daemon/scenario.ts';
import { eventually } from '../../support/eventually.ts';
import { mounting, mountSmallDisk } from '../../support/files/small-disk.ts';
import { createRecordingLog } from '../../support/recording-log.ts';
import { have, program } from '../../support/requirements.ts';
import { openSampleState } from '../../support/state/open-sample-state.ts';

const { signal } = new AbortController();
const event = (kind: string) => ({ at: NOON, kind, message: kind });

/** What `record-changes.ts` writes of each step. */
interface Step {
  readonly step: string;
  /** What was logged. */
  readonly message?: string;
  readonly error?: { readonly code: string; readonly message: string };
  readonly trouble?: { readonly code: string; readonly message: string };
}

describe.runIf(have(program('strace', 'apt-get install strace')))('a disk error', { timeout: 120_000 }, () => {
  let recorder: string;
  let folder: string;

  beforeAll(async () => {
    recorder = await bundleIntoCache('test/support/state/record-changes.ts', 'record-changes');
  });
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'stickpin-errors-'));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  /** Records changes while calls on the file fail. `when`: as in strace(1). */
  const record = (files: readonly string[], ...inject: readonly string[]) => {
    const path = join(folder, 'state.db');
    const on = files.flatMap((file) => ['-P', file.startsWith('.') ? join(folder, file) : `${path}${file}`]);
    const faults = inject.flatMap((one) => ['-e', `inject=${one}`]);
    const args = ['-f', '-qq', '-o', join(folder, 'trace'), ...on, ...faults];
    const { stdout, stderr, status } = spawnSync('strace', [...args, process.execPath, recorder, path], {
      encoding: 'utf8',
      // strace counts the calls of each thread on its own.
      env: { ...process.env, UV_THREADPOOL_SIZE: '1' },
    });
    expect([status, stderr]).toEqual([0, '']);
    const steps = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Step);
    return { steps, injected: readFileSync(join(folder, 'trace'), 'utf8').split('(INJECTED)').length - 1 };
  };
  const stored = () => {
    const database = new Database(join(folder, 'state.db'), { readonly: true });
    try {
      return database.prepare('SELECT kind FROM event ORDER BY event_id').pluck().all();
    } finally {
      database.close();
    }
  };

  it('when the database is opened is told, and it is opened again: it does not stay read-only', () => {
    openSampleState(join(folder, 'state.db')).close();
    // The third open is the one for changes; the first two read.
    const { steps, injected } = record([''], 'openat:error=EIO:when=3');
    expect(injected).toBe(1);
    expect(steps.at(-1)).toEqual({ step: 'last' });
    expect(stored()).toContain('last');
  });

  it.each([
    { file: '-wal', call: 'fdatasync' },
    { file: '-wal', call: 'fsync' },
    { file: '', call: 'fsync' },
  ])('of any one $call of state.db$file is told, and all is written nevertheless', ({ file, call }) => {
    let calls = 0;
    for (let when = 1; ; when += 1) {
      rmSync(folder, { recursive: true, force: true });
      mkdirSync(folder);
      openSampleState(join(folder, 'state.db')).close();
      const { steps, injected } = record([file], `${call}:error=EIO:when=${when}`);
      expect(steps.at(-1), `${call} ${when}`).toEqual({ step: 'last' });
      expect(stored(), `${call} ${when}`).toEqual(['first', 'second', 'third', 'last']);
      if (injected === 0) break;
      calls += 1;
      expect(
        steps.filter(({ step, error }) => step === 'log' || error !== undefined),
        `${call} ${when}`,
      ).not.toEqual([]);
    }
    expect(calls).toBeGreaterThan(3);
  });

  it('of a sync is not forgotten when the database is opened again after a change that failed', () => {
    let failed = 0;
    for (let when = 1; ; when += 1) {
      rmSync(folder, { recursive: true, force: true });
      mkdirSync(folder);
      openSampleState(join(folder, 'state.db')).close();
      const { steps } = record(['-wal'], `pwrite64:error=EIO:when=${when}`, 'fdatasync:error=EIO:when=1');
      expect(steps.filter(({ message }) => message?.includes('sync') === true).length, `write ${when}`).toBe(1);
      expect(stored(), `write ${when}`).toEqual(['first', 'second', 'third', 'last']);
      const { step } = steps.find(({ error }) => error !== undefined) ?? {};
      if (step === 'first') failed += 1;
      else if (step !== undefined) break;
    }
    expect(failed).toBeGreaterThan(3);
  });

  it.each([
    { what: 'of syncs of the log', files: ['-wal'], calls: 'fsync' },
    {
      what: 'of syncs of the log and of the new file',
      files: ['-wal', '.state.json.new'],
      calls: 'fdatasync,rename',
    },
  ])('$what that lasts is told as long as it does: nothing counts as written', ({ files, calls }) => {
    openSampleState(join(folder, 'state.db')).close();
    const { steps } = record(files, `${calls}:error=EIO:when=1+`);
    const told = steps.filter(({ error }) => error !== undefined);
    expect(told.length).toBeGreaterThan(0);
    for (const { trouble } of told) expect(trouble).toBeDefined();
    expect(steps.filter(({ step, error }) => step !== 'log' && error === undefined)).toEqual([]);
    expect(readdirSync(folder)).not.toContain('state.db.new');
    // In 20 s, since the pauses grow: 0 s, 5 s, 15 s.
    expect(steps.filter(({ message }) => message?.includes('is copied into a new file')).length).toBeLessThanOrEqual(3);
  });
});

describe.runIf(have(program('strace', 'apt-get install strace')))('a kill', { timeout: 240_000 }, () => {
  it.each(['-wal', ''])('at each write to state.db%s loses nothing that was recorded, and is no loss', async (file) => {
    const recorder = await bundleIntoCache('test/support/state/record-changes.ts', 'record-changes');
    const folder = mkdtempSync(join(tmpdir(), 'stickpin-kills-'));
    const path = join(folder, 'state.db');
    let kills = 0;
    try {
      for (let isKilled = true; isKilled; ) {
        rmSync(folder, { recursive: true, force: true });
        mkdirSync(folder);
        openSampleState(path).close();
        const inject = `inject=pwrite64,ftruncate:signal=KILL:when=${kills + 1}`;
        const args = ['-f', '-qq', '-o', '/dev/null', '-P', `${path}${file}`, '-e', inject];
        const { stdout, signal: end } = spawnSync('strace', [...args, process.execPath, recorder, path], {
          encoding: 'utf8',
        });
        isKilled = end === 'SIGKILL';
        if (isKilled) kills += 1;
        const recorded = [...stdout.matchAll(/"step":"(?!log)(\w+)"\}/g)].map(([, kind]) => kind);
        const { store, loss, close } = openSampleState(path);
        const kinds = store.events(undefined, 10).map(({ kind }) => kind);
        close();
        expect(loss, `kill ${kills}`).toBeUndefined();
        expect(kinds.slice(0, recorded.length), `kill ${kills}`).toEqual(recorded);
        expect(readdirSync(folder).filter((name) => name.includes('damaged'))).toEqual([]);
      }
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
    expect(kills).toBeGreaterThan(10);
  });
});

const ext4 = ['mkfs.ext4', 'chattr'].map((name) => program(name, 'apt-get install e2fsprogs'));

describe.runIf(have('root', mounting, ...ext4))('a database of which a file can not be opened for changes', () => {
  it.each(['', '-shm'])('takes changes as soon as it can be, and none is lost; state.db%s', async (file) => {
    const disk = mountSmallDisk('ext4', 16 * 1024 * 1024);
    const path = join(disk.path, 'state.db');
    const lock = (flag: '+i' | '-i') => execFileSync('chattr', [flag, `${path}${file}`]);
    const from = mkdtempSync(join(tmpdir(), 'stickpin-killed-'));
    try {
      const killed = openSampleState(join(from, 'state.db'));
      killed.store.append(event('first'));
      for (const name of ['state.db', 'state.db-wal', 'state.db-shm']) cpSync(join(from, name), join(disk.path, name));
      killed.close();
      lock('+i');
      const { store, close } = openSampleState(path);
      expect(() => store.append(event('later'))).toThrow(expect.objectContaining({ code: 'store/read-only' }));
      lock('-i');
      await eventually(() => store.append(event('later')), 20_000);
      expect(store.events(undefined, 10).map(({ kind }) => kind)).toEqual(['first', 'later']);
      expect(readdirSync(disk.path).filter((name) => name.includes('damaged'))).toEqual([]);
      close();
    } finally {
      spawnSync('chattr', ['-i', `${path}${file}`]);
      disk.dispose();
      rmSync(from, { recursive: true, force: true });
    }
  });
});

describe.runIf(have('root', mounting))('a database that a kill left on a disk that is read-only at the start', () => {
  it('is written once the disk can be written', async () => {
    const disk = mountSmallDisk('tmpfs', 4 * 1024 * 1024);
    const path = join(disk.path, 'state.db');
    const killed = mkdtempSync(join(tmpdir(), 'stickpin-killed-'));
    try {
      const before = openSampleState(join(killed, 'state.db'));
      before.store.append(event('before'));
      for (const name of readdirSync(killed).filter((one) => one.startsWith('state.db'))) {
        cpSync(join(killed, name), join(disk.path, name));
      }
      before.close();
      expect(['-wal', '-shm'].map((suffix) => existsSync(`${path}${suffix}`))).toEqual([true, true]);
      disk.readOnly();
      const { store, close } = openState({
        path,
        standbyDirectory: join(killed, 'standby'),
        revive: reviveBundle,
        log: createRecordingLog(),
        now: NOON,
      });
      expect(() => store.append(event('later'))).toThrow(expect.objectContaining({ code: 'store/read-only' }));
      expect(store.trouble()).toMatchObject({ code: 'store/read-only' });
      disk.writable();
      await eventually(() => store.append(event('later')), 60_000);
      await store.settled(signal);
      expect(store.trouble()).toBeUndefined();
      expect(store.events(undefined, 10).map(({ kind }) => kind)).toEqual(['before', 'later']);
      close();
    } finally {
      disk.dispose();
      rmSync(killed, { recursive: true, force: true });
    }
  });
});
