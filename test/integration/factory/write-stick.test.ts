import { execFileSync } from 'node:child_process';
import {
  closeSync,
  constants,
  existsSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  readSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import * as v from 'valibot';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { commandAdapters } from '../../../src/app/command-line/command-adapters.ts';
import { FACTORY_DOCUMENTS } from '../../../src/cli/schema/factory-documents.ts';
import type { StickFacts } from '../../../src/domain/model/machine.ts';
import { claimStick, writeStick } from '../../../src/factory/stick/write-stick.ts';
import { installKeys, makeSampleBundle, type SampleBundle, sampleKey } from '../../support/bundles/sample-bundle.ts';
import { eventually } from '../../support/eventually.ts';
import { mounting, mountSmallDisk } from '../../support/files/small-disk.ts';
import { folderForEach } from '../../support/files/temporary-folder.ts';
import { ended } from '../../support/matching.ts';
import { have, program } from '../../support/requirements.ts';
import { runCommand } from '../../support/run-command.ts';

const MiB = 1024 ** 2;
const STICK_BYTES = 120 * MiB;
const key = sampleKey();
const needed = [
  'root',
  mounting,
  program('losetup', 'apt-get install mount'),
  program('mcopy', 'apt-get install mtools'),
  program('mmd', 'apt-get install mtools'),
  program('mkfs.vfat', 'apt-get install dosfstools'),
  program('mkfs.ext4', 'apt-get install e2fsprogs'),
] as const;

/** A loop device in place of a stick, which the machine calls removable. */
describe.runIf(have(...needed))('bundle write', () => {
  const root = folderForEach();
  let device: string;
  let bundle: SampleBundle;
  let facts: StickFacts;
  const at = (name: string) => join(root, name);
  const onStick = () => readFileSync(at('stick'));

  beforeEach(async () => {
    // What was on it before, also where old partition tables have their copy.
    writeFileSync(at('stick'), Buffer.alloc(STICK_BYTES, 0xee));
    device = execFileSync('losetup', ['--find', '--show', at('stick')], { encoding: 'utf8' }).trim();
    bundle = await makeSampleBundle({ dir: root, keys: [key] });
    installKeys(at('keys'), [key]);
    facts = {
      ...(await commandAdapters.readStick(device, new AbortController().signal)),
      isRemovable: true,
      model: 'ACME Stick',
      serial: '1234',
      parts: [{ name: 'sdb1', sizeBytes: 64 * MiB, filesystem: 'vfat', label: 'HOLIDAYS' }],
    };
  });
  afterEach(() => {
    vi.restoreAllMocks();
    execFileSync('losetup', ['--detach', device]);
  });

  const write = (
    what: string,
    more: { args?: string[]; facts?: Partial<StickFacts>; answer?: boolean; signal?: AbortSignal } = {},
  ) => {
    const { answer, signal } = more;
    const adapters = { ...commandAdapters, readStick: async () => ({ ...facts, ...more.facts }) };
    return runCommand(['bundle', 'write', what, device, ...(more.args ?? ['--yes'])], {
      adapters,
      env: { TMPDIR: root },
      ...(answer !== undefined && { confirm: async () => answer }),
      ...(signal !== undefined && { signal }),
    });
  };

  /** Reads the filesystem on the stick and verifies the bundle in it. */
  const verified = async (name: string) => {
    execFileSync('dd', [`if=${at('stick')}`, `of=${at('partition')}`, 'bs=1M', 'skip=1', 'status=none']);
    rmSync(at('medium'), { recursive: true, force: true });
    const env = { ...process.env, MTOOLS_SKIP_CHECK: '1' };
    execFileSync('mkdir', [at('medium')]);
    execFileSync('mcopy', ['-s', '-Q', '-i', at('partition'), '::/stickpin', at('medium')], { env });
    return runCommand(['bundle', 'verify', at(`medium/stickpin/${name}`), '--keys', at('keys'), '--full']);
  };

  it('makes an image of a bundle folder, writes it, reads it back, and clears the end of the stick', async () => {
    const { exitCode, stdout, stderr } = await write(bundle.path);
    expect(stderr).toBe('');
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/^ocp 4\.13\.7 for \w+ is on \/dev\/loop\d+: .* written, read back and compared\./);
    expect((await verified(`ocp-4.13.7-${bundle.payload.arch}`)).exitCode).toBe(0);
    expect(onStick().subarray(-MiB).equals(Buffer.alloc(MiB))).toBe(true);
    expect(execFileSync('ls', ['-A', root], { encoding: 'utf8' })).not.toContain('stickpin-write-');
  });

  it('writes a bundle in one file, also from a path with blanks', async () => {
    const file = at('a bundle.stickpin.tar');
    const layout = join(bundle.path, '..');
    const named = ['--name', 'ocp', '--version', '1.0.0', '--arch', 'amd64', '--sequence', '1', '--out', file];
    writeFileSync(at('advisory'), '{"version": "0.9.0", "reason": "none"}');
    writeFileSync(at('key'), key.privatePem);
    const made = await runCommand(['bundle', 'create', ...named, '--advisory', at('advisory'), '--key', at('key')]);
    expect({ exitCode: made.exitCode, layout }).toMatchObject({ exitCode: 0 });
    for (const filesystem of ['ext4', 'vfat']) {
      expect(await write(file, { args: ['--yes', '--filesystem', filesystem] })).toMatchObject({
        exitCode: 0,
        stderr: '',
      });
    }
    expect((await verified('ocp-1.0.0-amd64.stickpin.tar')).exitCode).toBe(0);
  });

  it('writes a finished image byte for byte', async () => {
    writeFileSync(at('x.img'), Buffer.alloc(9 * MiB, 7));
    truncateSync(at('x.img'), 10 * MiB);
    const refused = await write(at('x.img'));
    expect(refused).toMatchObject(ended(1, 'is not an image of a stick'));
    const image = readFileSync(at('x.img'));
    image.writeUInt16LE(0xaa55, 510);
    writeFileSync(at('x.img'), image);
    const { exitCode, stdout } = await write(at('x.img'), { args: ['--yes', '--json'] });
    expect(v.is(FACTORY_DOCUMENTS['bundle-write'], JSON.parse(stdout))).toBe(true);
    expect(exitCode).toBe(0);
    expect(JSON.parse(stdout)).toEqual({
      schemaVersion: 1,
      path: at('x.img'),
      device: facts.node,
      imageBytes: 10 * MiB,
    });
    expect(
      onStick()
        .subarray(0, 10 * MiB)
        .equals(image),
    ).toBe(true);
    expect(onStick().readUInt8(10 * MiB)).toBe(0xee);
  });

  it('claims the stick by a descriptor for reading, and gives it up before udev has the partition table read', async () => {
    const { target, close } = await claimStick({ device, number: facts.number });
    const closeTarget = target.close;
    let claimedAtClose: boolean | undefined;
    vi.spyOn(target, 'close').mockImplementation(async () => {
      claimedAtClose = isClaimed(device);
      await closeTarget();
    });
    expect(isClaimed(device)).toBe(true);
    expect(accessModes(device).sort()).toEqual(['read', 'read and write']);
    await close();
    expect(claimedAtClose).toBe(false);
    expect(accessModes(device)).toEqual([]);
  });

  it('says what will be lost, and writes nothing without a yes', async () => {
    const asked = await write(bundle.path, { args: [], answer: false });
    expect(asked.exitCode).toBe(1);
    expect(asked.stderr).toMatch(
      /^If you write ocp 4\.13\.7 for \w+ \([^)]+\) to \/dev\/loop\d+, all that is on it will be lost:\n\/dev\/loop\d+: ACME Stick, 120 MiB, serial 1234\n {2}sdb1: 64 MiB, vfat 'HOLIDAYS'\n/,
    );
    expect(asked.stderr).toMatch(/\nstickpin: nothing was written\n$/);
    const alone = await write(bundle.path, { args: [] });
    expect(alone).toMatchObject(ended(1, 'there is no terminal to ask: give --yes'));
    expect(onStick().equals(Buffer.alloc(STICK_BYTES, 0xee))).toBe(true);
    expect((await write(bundle.path, { args: [], answer: true })).exitCode).toBe(0);
  });

  it('writes nothing when another stick is in its place after the question', async () => {
    const adapters = { ...commandAdapters, readStick: async () => facts };
    const { exitCode, stderr } = await runCommand(['bundle', 'write', bundle.path, device], {
      adapters,
      env: { TMPDIR: root },
      confirm: async () => {
        facts = { ...facts, serial: '5678' };
        return true;
      },
    });
    expect(stderr).toMatch(/is another stick than a moment ago, or was changed: look at it again\n$/);
    expect(exitCode).toBe(1);
    expect(onStick().equals(Buffer.alloc(STICK_BYTES, 0xee))).toBe(true);
  });

  it('says that a stick was pulled out, whatever its writes fail with', async () => {
    // A stick whose writes fail after some MiB, since the disk below it is full.
    const disk = mountSmallDisk('tmpfs', 8 * MiB);
    const backing = join(disk.path, 'stick');
    writeFileSync(backing, '');
    truncateSync(backing, 60 * MiB);
    const failing = execFileSync('losetup', ['--find', '--show', backing], { encoding: 'utf8' }).trim();
    writeFileSync(at('x.img'), Buffer.alloc(40 * MiB, 7));
    const { rdev } = statSync(failing);
    const number = `${rdev >> 8}:${rdev & 0xff}`;
    const writeFailing = (onProgress: () => void) =>
      writeStick(
        { image: at('x.img'), imageBytes: 40 * MiB, device: at('node'), number, deviceBytes: 60 * MiB, onProgress },
        new AbortController().signal,
      );
    execFileSync('mknod', [at('node'), 'b', ...number.split(':')]);
    try {
      await expect(writeFailing(() => undefined)).rejects.toThrow(/node can't be written: /);
      await expect(writeFailing(() => rmSync(at('node'), { force: true }))).rejects.toThrow(
        /node was pulled out: it is incomplete now, so plug it in and write it again/,
      );
    } finally {
      execFileSync('losetup', ['--detach', failing]);
      disk.dispose();
    }
  });

  it('refuses what is not a stick, by what this machine says of it', async () => {
    const real = (path: string) => runCommand(['bundle', 'write', bundle.path, path, '--yes']);
    expect((await real(device)).stderr).toMatch(/is not removable, not on USB and no SD card/);
    expect((await real(at('stick'))).stderr).toMatch(/is not a block device: name the device of the stick/);
    expect((await real('/dev/none')).stderr).toMatch(/can't be looked at/);
    expect((await write(bundle.path, { facts: { sizeBytes: MiB } })).stderr).toMatch(
      /use a larger stick, or make volumes/,
    );
    execFileSync('mkfs.ext4', ['-q', '-F', device]);
    const folder = at('mnt');
    execFileSync('mkdir', [folder]);
    execFileSync('mount', [device, folder]);
    try {
      const { uses } = await commandAdapters.readStick(device, new AbortController().signal);
      expect((await write(bundle.path, { facts: { uses } })).stderr).toMatch(
        /is mounted at .*mnt: run umount or swapoff/,
      );
      // Mounted after it was looked at.
      expect((await write(bundle.path)).stderr).toMatch(/can't be opened: another program uses it/);
    } finally {
      execFileSync('umount', [folder]);
    }
    // The kernel lets go of a filesystem a moment after umount(8) has ended.
    await eventually(async () => {
      const { stderr } = await write(bundle.path, { facts: { number: '8:16' } });
      expect(stderr).toMatch(/is another device than a moment ago/);
    });
  });

  it('notices a stick that does not keep its content, and leaves no partition table on it', async () => {
    const path = process.env.PATH;
    execFileSync('mkdir', [at('bin')]);
    process.env.PATH = `${at('bin')}:${path}`;
    try {
      writeFileSync(at('bin/dd'), '#!/bin/sh\n/bin/dd "$@" | tr x y\n', { mode: 0o755 });
      const lying = await write(bundle.path);
      expect(lying.stderr).toMatch(/does not keep what is written to it: it is worn out or a fake; use another stick/);
      writeFileSync(at('bin/dd'), '#!/bin/sh\necho dd: input error >&2; exit 1\n', { mode: 0o755 });
      const unreadable = await write(bundle.path);
      expect(unreadable.stderr).toMatch(/can't be read back: dd: input error/);
      expect([lying.exitCode, unreadable.exitCode]).toEqual([1, 1]);
    } finally {
      process.env.PATH = path;
    }
    expect(firstMiB().equals(Buffer.alloc(MiB))).toBe(true);
  });

  it('leaves no partition table on a stick when it is interrupted', async () => {
    const stop = new AbortController();
    writeFileSync(at('x.img'), Buffer.alloc(100 * MiB, 7));
    const image = openSync(at('x.img'), 'r+');
    execFileSync('sh', ['-c', `printf '\\125\\252' | dd of=${at('x.img')} bs=1 seek=510 conv=notrunc status=none`]);
    closeSync(image);
    const adapters = { ...commandAdapters, readStick: async () => facts };
    let seen = 0;
    const running = runCommand(['bundle', 'write', at('x.img'), device, '--yes'], {
      adapters,
      env: { TMPDIR: root },
      signal: stop.signal,
      // Each look at the clock comes from the progress.
      now: () => {
        seen += 1;
        if (seen > 5) stop.abort();
        return 0;
      },
    });
    expect(await running).toMatchObject(ended(1, 'stickpin: interrupted'));
    expect(firstMiB().equals(Buffer.alloc(MiB))).toBe(true);
  });

  function firstMiB(): Buffer {
    execFileSync('sync', [at('stick')]);
    expect(statSync(at('stick')).size).toBe(STICK_BYTES);
    const bytes = Buffer.alloc(MiB);
    const file = openSync(at('stick'), 'r');
    readSync(file, bytes, 0, MiB, 0);
    closeSync(file);
    return bytes;
  }
});

/** How this process has the device open, by the last digit of the flags in proc_pid_fdinfo(5). */
function accessModes(device: string): string[] {
  return readdirSync('/proc/self/fd')
    .filter((fd) => existsSync(`/proc/self/fd/${fd}`) && readlinkSync(`/proc/self/fd/${fd}`) === device)
    .map((fd) => /^flags:\s*\d*(\d)$/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8'))?.[1])
    .map((digit) => ['read', 'write', 'read and write'][Number(digit) & 3] ?? '');
}

function isClaimed(device: string): boolean {
  try {
    closeSync(openSync(device, constants.O_RDONLY | constants.O_EXCL));
    return false;
  } catch {
    return true;
  }
}
