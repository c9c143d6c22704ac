import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { commandAdapters } from '../../../src/app/command-line/command-adapters.ts';
import { createStoredState } from '../../../src/app/command-line/stored-state.ts';
import { folderForEach } from '../../support/files/temporary-folder.ts';
import { ended } from '../../support/matching.ts';
import { runCommand } from '../../support/run-command.ts';

const TOKEN = '0123456789abcdef0123456789abcdef';
const folder = folderForEach();

/** On a node whose daemon does not run and has left nothing. */
const run = (...args: readonly string[]) =>
  runCommand(['report', '--out', join(folder, 'node.tar.gz'), ...args], {
    env: { DBUS_SYSTEM_BUS_ADDRESS: 'unix:path=/nonexistent/bus' },
    adapters: {
      ...commandAdapters,
      storedState: createStoredState(async () => ({ state_dir: folder, run_dir: folder })),
      supportSecrets: async () => [TOKEN],
      supportSources: [
        ...commandAdapters.supportSources,
        {
          file: 'crio.txt',
          about: 'a journal',
          collect: async () => `GET http://127.0.0.1:5317/${TOKEN}/v2/ password=hunter2\n`,
        },
      ],
    },
  });
const tar = (...args: readonly string[]) =>
  execFileSync('tar', ['--file', join(folder, 'node.tar.gz'), ...args], { encoding: 'utf8' });

describe('stickpin report', () => {
  it('packs everything without a daemon, lists it first, and keeps it from other users', async () => {
    const { exitCode, stdout, stderr } = await run();
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
    const members = tar('--list').trim().split('\n');
    expect(members[0]).toBe('node/CONTENTS');
    for (const name of [
      'doctor.txt',
      'status.json',
      'history.json',
      'settings.toml',
      'fleet.json',
      'journal-stickpin.txt',
      'journal-containerd.txt',
      'journal-rke2-agent.txt',
      'peers.txt',
      'runtime.txt',
      'mounts.txt',
      'udev.txt',
    ])
      expect(members).toContain(`node/${name}`);
    const contents = tar('--extract', '--to-stdout', 'node/CONTENTS');
    expect(stdout).toBe(`${contents}\nMade ${join(folder, 'node.tar.gz')}. Look into it before you send it.\n`);
    for (const member of members.slice(1)) expect(contents).toContain(`  ${member.slice(5)} `);
    expect(tar('--extract', '--to-stdout', 'node/doctor.txt')).toMatch(/FAULT +daemon/);
    expect(tar('--extract', '--to-stdout', 'node/status.json')).toContain("can't be reached");
    expect(tar('--extract', '--to-stdout', 'node/mounts.txt')).toContain(' / ');
    expect(statSync(join(folder, 'node.tar.gz')).mode & 0o777).toBe(0o600);
    expect(readdirSync(folder)).toEqual(['node.tar.gz']);
  });

  it('has no secret in it', async () => {
    await run();
    expect(tar('--extract', '--to-stdout', 'node/crio.txt')).toBe(
      'GET http://127.0.0.1:5317/<removed>/v2/ password=<removed>\n',
    );
    expect(tar('--extract', '--to-stdout')).not.toContain(TOKEN);
  });

  it('tells programs what is in it', async () => {
    const { path, files } = JSON.parse((await run('--json')).stdout);
    expect(path).toBe(join(folder, 'node.tar.gz'));
    expect(files[0]).toEqual({ file: 'doctor.txt', about: expect.any(String), sizeBytes: expect.any(Number) });
  });

  it('replaces no file, and leaves nothing where it can not write', async () => {
    writeFileSync(join(folder, 'node.tar.gz'), 'mine');
    expect(await run()).toMatchObject({ exitCode: 1, stdout: '', stderr: expect.stringContaining('is there already') });
    expect(readFileSync(join(folder, 'node.tar.gz'), 'utf8')).toBe('mine');
    const nowhere = join(folder, 'none/node.tar.gz');
    expect(await run('--out', nowhere)).toMatchObject(ended(1, '--out'));
    expect(existsSync(nowhere)).toBe(false);
  });
});
