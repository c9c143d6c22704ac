import { execFileSync, spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { OpenState } from '../../../src/store/database/open-state.ts';
import { bundleIntoCache } from '../../support/bundles/bundle-program.ts';
import { NOON, verified } from '../../support/daemon/scenario.ts';
import { have, program } from '../../support/requirements.ts';
import { openSampleState } from '../../support/state/open-sample-state.ts';

const { signal } = new AbortController();
const event = (kind: string) => ({ at: NOON, kind, message: kind });
const IMAGES = 190;
/** With the number of images of a large platform. */
const release = (sequence: number) =>
  verified({
    ...{ sequence, version: `4.13.${sequence}` },
    images: Object.fromEntries(
      Array.from({ length: IMAGES }, (_, at) => [`app-${sequence}-${at}`, ['base', `layer-${sequence}-${at}`]]),
    ),
  });

let folder: string;
let path: string;
let parts: string;
let opened: OpenState;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'stickpin-parts-'));
  path = join(folder, 'state.db');
  parts = join(folder, 'state.parts');
  opened = openSampleState(path);
});
afterEach(() => {
  opened.close();
  rmSync(folder, { recursive: true, force: true });
});

const names = () => readdirSync(parts).sort();
const versions = () => opened.store.load().bundles.map(({ payload }) => payload.version);
const reopen = () => {
  opened.close();
  opened = openSampleState(path);
  return opened;
};
const lose = () => {
  opened.close();
  for (const suffix of ['', '-wal', '-shm']) rmSync(`${path}${suffix}`, { force: true });
};

async function adopt(sequence: number): Promise<void> {
  const { store } = opened;
  store.adopt(release(sequence), event('bundleVerified'));
  for (const { reference } of release(sequence).contents.images) store.setPulledByUs(reference, true);
  store.change(release(sequence).bundleId, { readyAt: NOON }, event('bundleReady'));
  await writeBoth();
}

/** Both generations name the same files then. */
async function writeBoth(): Promise<void> {
  for (const at of [1, 2]) {
    opened.store.setDocument('floors', `[${at}]`);
    await opened.store.mirror(signal);
  }
}

/** Bytes that this process writes to any file for one milestone. */
async function bytesOfMilestone(activatedAt: number): Promise<number> {
  const written = () => Number(/wchar: (\d+)/.exec(readFileSync('/proc/self/io', 'utf8'))?.[1]);
  const before = written();
  opened.store.change(release(1).bundleId, { activatedAt }, event('bundleActivated'));
  await opened.store.mirror(signal);
  return written() - before;
}

const partOf = (sequence: number) => {
  const found = names().find((name) => readFileSync(join(parts, name), 'utf8').includes(release(sequence).bundleId));
  return join(parts, found ?? 'none');
};

describe('a milestone', { timeout: 300_000 }, () => {
  it('writes nothing of what other releases are, to the database and to its mirror', async () => {
    await adopt(1);
    const alone = await bytesOfMilestone(1);
    for (let sequence = 2; sequence <= 21; sequence += 1) await adopt(sequence);
    const before = names().map((name) => [name, statSync(join(parts, name)).ino]);
    const among = await bytesOfMilestone(2);
    expect(names().map((name) => [name, statSync(join(parts, name)).ino])).toEqual(before);
    const contentBytes = JSON.stringify(release(1)).length;
    expect(contentBytes).toBeGreaterThan(50_000);
    // One small row for each, and the names of its files.
    expect(among - alone).toBeLessThan(20 * 3_000);
    expect(alone).toBeLessThan(contentBytes);
  });

  it('adds one file of content and a few of images for a new release, and both go with it', async () => {
    await adopt(1);
    const first = names();
    await adopt(2);
    const both = names();
    const added = both.filter((name) => !first.includes(name));
    expect(added.length).toBeLessThan(1 + IMAGES / 8);
    expect(added.map((name) => join(parts, name))).toContain(partOf(2));
    opened.store.forget(release(2).bundleId, undefined);
    await opened.store.mirror(signal);
    // The generation before still has it.
    expect(existsSync(partOf(2))).toBe(true);
    opened.store.change(release(1).bundleId, { activatedAt: 1 }, event('bundleActivated'));
    await opened.store.mirror(signal);
    expect(names()).toEqual(first);
  });
});

const DAMAGE: Readonly<Record<string, (file: string) => void>> = {
  gone: (file) => rmSync(file),
  cut: (file) => truncateSync(file, 100),
  changed: (file) => writeFileSync(file, readFileSync(file, 'utf8').replace('layer', 'lajer')),
  'one of another release': (file) => writeFileSync(file, readFileSync(partOf(1))),
  'a folder': (file) => {
    rmSync(file);
    mkdirSync(file);
  },
  'a pipe': (file) => {
    rmSync(file);
    execFileSync('mkfifo', [file]);
  },
  'a link to nothing': (file) => {
    rmSync(file);
    symlinkSync('/nowhere/at/all', file);
  },
};

describe('a file with the content of a release', () => {
  it.each(Object.entries(DAMAGE))(
    'that is %s, with the database: only that release is lost, and is named',
    async (_how, damage) => {
      for (const sequence of [1, 2, 3]) await adopt(sequence);
      const { store } = opened;
      store.change(release(3).bundleId, { activatedAt: NOON }, event('bundleActivated'));
      store.setDocument('floors', '[1]');
      store.setRevocationRecord({ folders: ['/a'], revocations: [] });
      await store.mirror(signal);
      const file = partOf(2);
      damage(file);
      lose();
      const { loss, mirror } = reopen();
      expect(loss?.remains).toBe('earlier');
      expect(loss?.message).toMatch(
        /goes on with .*state\.json of .*with parts of that file: ocp 4\.13\.2 is known again/,
      );
      expect(versions()).toEqual(['4.13.1', '4.13.3']);
      expect(opened.store.load().bundles[1]?.activatedAt).toBe(NOON);
      expect([opened.store.document('floors'), opened.store.document('loss')]).toEqual(['[1]', 'earlier']);
      expect(opened.store.revocationRecord()?.folders).toEqual(['/a']);
      expect(mirror.unreadable().join()).toContain(`${file} could not be used: `);
      // The next mirror is whole, and the damaged file is kept.
      opened.store.adopt(release(2), event('bundleVerified'));
      await opened.store.mirror(signal);
      lose();
      expect(reopen().loss?.remains).toBe('mirror');
      expect(versions()).toEqual(['4.13.1', '4.13.3', '4.13.2']);
    },
  );

  it.each(Object.entries(DAMAGE))(
    'that is %s comes back from the database, and the damaged one is kept',
    async (how, damage) => {
      for (const sequence of [1, 2]) await adopt(sequence);
      const [file, before] = [partOf(2), names()];
      const text = readFileSync(file, 'utf8');
      opened.close();
      damage(file);
      const { loss, mirror, store } = reopen();
      expect(loss).toBeUndefined();
      expect(mirror.unreadable()).toEqual([expect.stringContaining(`${file} could not be used: `)]);
      await store.mirror(signal);
      expect(readFileSync(file, 'utf8')).toBe(text);
      expect(names().filter((name) => !name.includes('.damaged-'))).toEqual(before);
      expect(names().filter((name) => name.includes('.damaged-'))).toHaveLength(how === 'gone' ? 0 : 1);
      reopen();
      expect(opened.mirror.unreadable()).toEqual([]);
    },
  );

  it('that has pulled images and is damaged: no release is lost, and images stay', async () => {
    await adopt(1);
    for (const name of names()) if (join(parts, name) !== partOf(1)) rmSync(join(parts, name));
    lose();
    expect(reopen().loss).toMatchObject({
      remains: 'earlier',
      message: expect.stringContaining('some images that stickpin pulled stay on the disk'),
    });
    expect([versions(), opened.store.load().pulledByUs?.size]).toEqual([['4.13.1'], 0]);
  });

  it.each<[string, () => void]>([
    ['removed', () => rmSync(parts, { recursive: true })],
    ['a file', () => [rmSync(parts, { recursive: true }), writeFileSync(parts, '')]],
    ['a link', () => [renameSync(parts, `${parts}-other`), symlinkSync('/nowhere/at/all', parts)]],
  ])('comes back, all of them, where their folder is %s', async (_what, replace) => {
    for (const sequence of [1, 2]) await adopt(sequence);
    const before = names();
    opened.close();
    replace();
    expect(reopen().loss).toBeUndefined();
    await opened.store.mirror(signal);
    expect(names()).toEqual(before);
    lose();
    expect(reopen().loss?.remains).toBe('mirror');
    expect(versions()).toEqual(['4.13.1', '4.13.2']);
  });

  it('that is removed while the daemon runs comes back with the next milestone', async () => {
    await adopt(1);
    const file = partOf(1);
    rmSync(parts, { recursive: true });
    opened.store.change(release(1).bundleId, { activatedAt: 1 }, event('bundleActivated'));
    await opened.store.mirror(signal);
    expect(existsSync(file)).toBe(true);
  });
});

describe.runIf(have(program('strace', 'apt-get install strace')))('a kill', { timeout: 300_000 }, () => {
  it.each(['rename', 'link', 'unlink'])(
    'at any %s leaves a mirror that has all its files, and no others for long',
    async (call) => {
      const recorder = await bundleIntoCache('test/support/state/record-releases.ts', 'record-releases');
      // strace counts the calls of each thread.
      const env = { ...process.env, UV_THREADPOOL_SIZE: '1' };
      let kills = 0;
      for (let isKilled = true; isKilled; ) {
        opened.close();
        rmSync(folder, { recursive: true, force: true });
        mkdirSync(folder);
        reopen().close();
        const inject = `inject=${call}:signal=KILL:when=${kills + 1}`;
        const args = ['-f', '-qq', '-o', '/dev/null', '-e', inject, process.execPath, recorder, path];
        const { stdout, signal: end } = spawnSync('strace', args, { encoding: 'utf8', env });
        isKilled = end === 'SIGKILL';
        if (isKilled) kills += 1;
        const known = JSON.parse(stdout.trim().split('\n').at(-1) || '[]') as number[];
        const { loss: none, mirror: beside } = reopen();
        expect([none, beside.unreadable()], `kill ${kills}`).toEqual([undefined, []]);
        lose();
        const { loss, mirror } = reopen();
        if (known.length > 0) expect([loss?.remains, mirror.unreadable()], `kill ${kills}`).toEqual(['mirror', []]);
        const sequences = opened.store.load().bundles.map(({ payload }) => payload.sequence);
        // What was said last, or with the step after it.
        expect([known, [...known, (known.at(-1) ?? 0) + 1], known.slice(1)], `kill ${kills}`).toContainEqual(sequences);
        await writeBoth();
        expect(existsSync(parts) ? names().length : 0, `kill ${kills}`).toBeLessThanOrEqual(2 * sequences.length + 1);
      }
      expect(kills).toBeGreaterThan(2);
    },
  );
});
