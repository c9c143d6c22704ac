import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { SyncProgram } from '../../../src/host/disk-sync.ts';

const signal = new AbortController().signal;

/** In place of sync(1): it writes down its arguments, and does what the file `do` says. */
const PROGRAM = `#!/bin/sh
echo "$*" >> "$SYNC_FOLDER/calls"
. "$SYNC_FOLDER/do"
`;

describe('the sync of filesystems', () => {
  const path = process.env.PATH;
  let folder: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'stickpin-sync-'));
    await mkdir(join(folder, 'a'));
    await mkdir(join(folder, 'b'));
    await writeFile(join(folder, 'sync'), PROGRAM, { mode: 0o755 });
    process.env.SYNC_FOLDER = folder;
    process.env.PATH = `${folder}:${path}`;
  });

  afterAll(async () => {
    process.env.PATH = path;
    delete process.env.SYNC_FOLDER;
    await rm(folder, { recursive: true });
  });

  async function calls(
    script: string,
    paths: readonly string[],
    program = new SyncProgram(),
  ): Promise<{ readonly lines: readonly string[]; readonly error: string | undefined }> {
    await writeFile(join(folder, 'calls'), '');
    await writeFile(join(folder, 'do'), script);
    const error = await program.sync(paths, signal).then(
      () => undefined,
      (reason: Error) => reason.message,
    );
    const text = await readFile(join(folder, 'calls'), 'utf8');
    return { lines: text.split('\n').slice(0, -1), error };
  }

  it('is made once for each filesystem', async () => {
    const [a, b] = [join(folder, 'a'), join(folder, 'b')];
    expect(await calls('exit 0', [a, b, a])).toEqual({ lines: [`-f ${a}`], error: undefined });
    expect(await calls('exit 0', [a, '/proc'])).toEqual({ lines: [`-f ${a}`, '-f /proc'], error: undefined });
  });

  /** With mounts as in proc_pid_mountinfo(5): device, mount point, type, source, options. */
  async function callsWith(paths: readonly string[], mounts: readonly string[]): Promise<readonly string[]> {
    const lines = mounts.map((mount, at) => {
      const [device, point, type, source, options] = mount.split(' ');
      return `${at} 1 ${device} / ${point} ro - ${type} ${source} ${options}\n`;
    });
    await writeFile(join(folder, 'mountinfo'), lines.join(''));
    return (await calls('exit 0', paths, new SyncProgram(60_000, join(folder, 'mountinfo')))).lines;
  }
  const nfs = '0:50 /mnt nfs4 server:/x rw';
  const root = '8:1 / ext4 /dev/sda1 rw';

  it('is made for what is mounted below a path, and is on a disk', async () => {
    const a = join(folder, 'a');
    const container = `0:51 ${a}/overlay2/1/merged overlay overlay rw`;
    expect(await callsWith([a], [root, '8:2 /proc xfs /dev/sdb1 rw', nfs, container])).toEqual([`-f ${a}`]);
    expect(await callsWith(['/'], [root, '8:2 /proc xfs /dev/sdb1 rw', nfs, '8:3 /sys vfat /dev/sdc1 ro'])).toEqual([
      '-f /',
      '-f /proc',
    ]);
  });

  it('is made for each writable disk where no path is known, or one is hidden, and waits for no server', async () => {
    const pod = '8:4 /var/lib/kubelet/pods/1 ext4 /dev/sdd rw';
    const mounts = [root, '8:2 /proc zfs tank rw', nfs, '8:3 /sys vfat /dev/sdc1 ro', pod];
    expect(await callsWith([], mounts)).toEqual(['-f /', '-f /proc']);
    expect(await callsWith([join(folder, 'a'), '/hidden/from/us'], mounts)).toEqual([
      `-f ${join(folder, 'a')}`,
      '-f /proc',
    ]);
  });

  it('is one of the whole machine where a disk is hidden, or none is known', async () => {
    const home = ['8:2 /home ext4 /dev/sdb1 rw', '0:60 /home tmpfs tmpfs ro'];
    expect(await callsWith([], [root, ...home])).toEqual(['']);
    expect(await callsWith([], [root, ...home, '8:2 /proc ext4 /dev/sdb1 rw'])).toEqual(['-f /', '-f /proc']);
    expect(await callsWith([folder], [root, ...home])).toEqual([`-f ${folder}`]);
    expect(await callsWith([], ['0:61 / overlay overlay rw', nfs])).toEqual(['']);
  });

  it('fails with what the program says, the path and what to do', async () => {
    const { error } = await calls("echo 'sync: error syncing: Input/output error' >&2; exit 1", [join(folder, 'a')]);
    expect(error).toContain(`the filesystem of ${folder}/a is not safe`);
    expect(error).toContain('Input/output error');
    expect(error).toContain('dmesg');
  });

  it('is given up after its deadline, and the next one waits for its end', async () => {
    const program = new SyncProgram(500);
    const { error } = await calls('exec sleep 300', [join(folder, 'a')], program);
    expect(error).toContain('did not answer within 500 ms');
    expect(await calls('exit 0', [join(folder, 'a')], program)).toMatchObject({ error: undefined });
  });

  it('works with the program of this machine', async () => {
    process.env.PATH = path;
    await new SyncProgram().sync([folder], signal);
    await expect(new SyncProgram().sync(['/proc'], signal)).resolves.toBeUndefined();
  });
});
