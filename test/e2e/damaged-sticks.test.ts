import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { makeSampleBundle, sampleKey } from '../support/sample-bundle.ts';
import { askForPanic, type Damage, damageStick } from './machine/damage.ts';
import { describeMachine } from './machine/describe-machine.ts';
import { installStickpin } from './machine/install.ts';
import { stickpinOn } from './machine/node.ts';
import { makeStick, type Stick, type StickOptions } from './machine/stick.ts';

/** Filesystems that lie: the kernel finds errors in them, and a stick may ask it to panic then. */
describeMachine('a node and damaged sticks', {}, (machine) => {
  const node = stickpinOn(machine);
  const key = sampleKey('factory-2026');
  let directory: string;
  let folder: string;
  let bootId: string;

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'stickpin-damaged-'));
    folder = join(directory, 'medium');
    await makeSampleBundle({ dir: join(folder, 'stickpin'), keys: [key] });
    await machine().output('systemctl enable --now containerd.service');
    await installStickpin(machine(), { keys: { 'factory-2026': key.publicPem } });
    bootId = await machine().output('cat /proc/sys/kernel/random/boot_id');
  });
  afterAll(() => rm(directory, { recursive: true, force: true }));

  const stickOf = async (name: string, filesystem: NonNullable<StickOptions['filesystem']>): Promise<Stick> => {
    const isFilledHere = filesystem !== 'exfat' && filesystem !== 'udf';
    const image = join(directory, `${name}.img`);
    const stick = await makeStick({ image, filesystem, table: 'none', ...(isFilledHere && { folder }) });
    if (!isFilledHere) await machine().fillStick(stick, folder);
    return stick;
  };

  /** Plugs it in, waits until the daemon has made up its mind, and pulls it out again. */
  const judged = async (stick: Stick) => {
    const plugged = await machine().plug(stick);
    const isDone = (state: string) => state === 'failed' || state === 'read';
    const report = await node.until('the stick to be judged', ({ media }) => media.some(({ state }) => isDone(state)));
    const options = await machine().output('grep /run/stickpin/media /proc/mounts || true');
    const kernelLog = await machine().output('dmesg --notime --read-clear 2>/dev/null || dmesg -c');
    await plugged.unplug();
    await node.until('the stick to be gone', ({ media }) => media.length === 0);
    return { report, options, kernelLog };
  };

  test.each<readonly [Damage, NonNullable<StickOptions['filesystem']>, RegExp]>([
    ['ext4 directory', 'ext4', /EXT4-fs error/],
    ['ext4 inode', 'ext4', /EXT4-fs error/],
    ['ext4 bitmap', 'ext4', /EXT4-fs/],
    ['vfat chain', 'vfat', /FAT-fs .*error/],
    ['exfat entry', 'exfat', /exFAT-fs .*error/],
    ['iso9660 directory', 'iso9660', /./],
    ['udf entry', 'udf', /UDF-fs/],
    ['squashfs directory', 'squashfs', /SQUASHFS error/],
  ])('%s: the machine lives, and STATUS tells of it', async (damage, filesystem, complaint) => {
    const stick = await stickOf(damage.replace(' ', '-'), filesystem);
    await damageStick(stick, damage);
    if (filesystem === 'ext4') await askForPanic(stick);
    const { report, options, kernelLog } = await judged(stick);
    console.log(
      damage,
      report.status,
      JSON.stringify(report.media),
      JSON.stringify(report.rejected),
      options,
      kernelLog.slice(-1500),
    );
    expect(kernelLog).toMatch(complaint);
    expect(await machine().output('cat /proc/sys/kernel/random/boot_id')).toBe(bootId);
    expect(await machine().output('systemctl is-active stickpin')).toBe('active');
  });

  test('a stick with a filesystem that is not allowed is named, with what to do', async () => {
    const { report, options } = await judged(await stickOf('ext2', 'ext2'));
    expect(report.status).toMatch(
      /^Cannot read sd[a-z]: .*the filesystem ext2 is not mounted by default.*media\.filesystems/,
    );
    expect(options).toBe('');
  });

  test('good sticks are read from every filesystem of the default list, by root alone', async () => {
    for (const filesystem of ['vfat', 'exfat', 'ext4', 'iso9660', 'udf', 'squashfs'] as const) {
      const { report, options } = await judged(await stickOf(`good-${filesystem}`, filesystem));
      expect([filesystem, report.rejected, report.media[0]]).toMatchObject([
        filesystem,
        [],
        { state: 'read', bundles: 1 },
      ]);
      console.log(options);
    }
    await node.until('activation', (report) => report.bundles[0]?.phase === 'activated' && report.operation === 'idle');
    expect(await machine().output('stat --format %a /run/stickpin/media')).toBe('700');
    expect(await machine().output('cat /proc/sys/kernel/random/boot_id')).toBe(bootId);
  });
});
