import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { bundleIntoCache } from '../../support/bundles/bundle-program.ts';
import { eventually } from '../../support/eventually.ts';

/** What a daemon keeps in its state directory, and leaves half-written there. */
const FILES = [
  'state.db',
  'state.db-wal',
  'state.db-shm',
  'state.db.new',
  'state.json',
  '.state.json.stickpin-new',
  'state.json.before',
  'state.json.before.new',
  'running.json',
  '.running.json.stickpin-new',
  'registry-token',
  'registry-token.stickpin-new',
  'status.json',
  'images.env',
  'lock',
] as const;

const KINDS: Readonly<Record<string, (path: string) => void>> = {
  folder: (path) => writeFileSync(join(mkdirSync(path, { recursive: true }) ?? path, 'something'), ''),
  pipe: (path) => execFileSync('mkfifo', [path]),
  'link to nothing': (path) => symlinkSync('/nowhere/at/all', path),
  'link to a pipe': (path) => {
    execFileSync('mkfifo', [`${path}-pipe`]);
    symlinkSync(`${path}-pipe`, path);
  },
};

describe('a start with something else in the place of a file', { timeout: 180_000 }, () => {
  let program: string;
  let base: string;
  let child: ChildProcess | undefined;
  let output: string;
  const at = (path: string) => join(base, path);

  beforeAll(async () => {
    program = await bundleIntoCache('src/main.ts', 'daemon-program');
  });
  beforeEach(() => {
    base = mkdtempSync(join(tmpdir(), 'stickpin-strange-'));
    output = '';
    mkdirSync(at('state'));
  });
  afterEach(() => {
    child?.kill('SIGKILL');
    rmSync(base, { recursive: true, force: true });
  });

  const start = async () => {
    writeFileSync(
      at('settings.toml'),
      `[runtime]\nkind = "embedded"\n[registry]\nlisten = "127.0.0.1:0"\n[media]\ndetect = false\n` +
        `[trust]\nkeys_dir = "${at('keys')}"\n[paths]\nstate_dir = "${at('state')}"\nrun_dir = "${at('run')}"\n`,
    );
    child = spawn(process.execPath, [program, '--config', at('settings.toml')], {
      env: { PATH: process.env.PATH, DBUS_SYSTEM_BUS_ADDRESS: `unix:path=${at('no-bus')}` },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const { stdout, stderr } = child;
    for (const stream of [stdout, stderr]) stream?.on('data', (chunk) => (output += String(chunk)));
    await eventually(() => {
      if (child?.exitCode !== null) return;
      expect(output).toContain('stickpin started');
    }, 60_000);
    if (child.exitCode !== null) throw new Error(`it ended with ${child.exitCode}: ${output}`);
    await eventually(() => expect(statSync(at('run/status.json')).size).toBeGreaterThan(0), 60_000);
  };
  const isFile = (name: string) => statSync(at(`state/${name}`)).isFile();

  const kinds = Object.entries(KINDS).map(([kind, put]) => ({ kind, put }));
  it.each(kinds)('a $kind in the place of each of them: it starts, and makes them files again', async ({ put }) => {
    for (const name of FILES) put(at(`state/${name}`));
    await start();
    await eventually(() => {
      for (const name of ['state.db', 'state.json', 'running.json', 'registry-token', 'lock'])
        expect(isFile(name), name).toBe(true);
    }, 60_000);
  });

  const each = ['state.db', 'state.db-wal', 'state.db-shm'].flatMap((name) => kinds.map((kind) => ({ name, ...kind })));
  // The disk of its target may not be mounted yet.
  const refused = each.filter(({ name, kind }) => name === 'state.db' && kind === 'link to nothing');
  it.each(refused)('a $kind in the place of $name is refused by name', async ({ name, put }) => {
    put(at(`state/${name}`));
    await expect(start()).rejects.toThrow();
    expect(output).toContain(`stickpin can't start: ${at(`state/${name}`)} can't be opened`);
  });

  it.each(each.filter((one) => !refused.includes(one)))(
    'a $kind in the place of $name is set aside',
    async ({ name, put }) => {
      put(at(`state/${name}`));
      await start();
      await eventually(() => expect(isFile('state.db')).toBe(true), 60_000);
    },
  );

  it('removes what a kill left of the files of a release', async () => {
    const left = at('state/releases/.staged-old-ocp@4.13.7/manifest.yaml');
    mkdirSync(dirname(left), { recursive: true });
    writeFileSync(left, '');
    await start();
    await eventually(() => expect(readdirSync(at('state/releases'))).toEqual([]), 60_000);
  });

  it('lets only the owner read the database, also a copy that a person put back', async () => {
    await start();
    const modes = () => ['', '-wal', '-shm'].map((suffix) => statSync(at(`state/state.db${suffix}`)).mode & 0o777);
    expect(modes()).toEqual([0o600, 0o600, 0o600]);
    child?.kill('SIGKILL');
    for (const suffix of ['', '-wal', '-shm']) chmodSync(at(`state/state.db${suffix}`), 0o644);
    output = '';
    rmSync(at('run/status.json'));
    await start();
    expect(modes()).toEqual([0o600, 0o600, 0o600]);
  });
});
