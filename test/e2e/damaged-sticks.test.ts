import { truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import type { StatusReport } from '../../src/domain/report/status-schema.ts';
import { makeSampleBundle, sampleKey } from '../support/bundles/sample-bundle.ts';
import { folderForAll } from '../support/files/temporary-folder.ts';
import { describeMachine } from './machine/describe-machine.ts';
import { startInstalled } from './machine/product/install-package.ts';
import { stickpinOn } from './machine/product/node.ts';
import { askForPanic, type Damage, damageStick } from './machine/qemu/damage.ts';
import { makeStick, type Stick, type StickOptions } from './machine/qemu/stick.ts';

/** Filesystems that lie: the kernel finds errors in them, and a stick may ask it to panic then. */
describeMachine('a node and damaged sticks', 'installed', (machine) => {
  const node = stickpinOn(machine);
  const key = sampleKey('factory-2026');
  const directory = folderForAll();
  let folder: string;
  let bootId: string;

  beforeAll(async () => {
    folder = join(directory, 'medium');
    await makeSampleBundle({ dir: join(folder, 'stickpin'), keys: [key] });
    await machine().output('systemctl enable --now containerd.service');
    await startInstalled(machine(), { keys: { 'factory-2026': key.publicPem } });
    bootId = await machine().output('cat /proc/sys/kernel/random/boot_id');
  });

  const stickOf = async (name: string, filesystem: NonNullable<StickOptions['filesystem']>): Promise<Stick> => {
    const isFilledHere = filesystem !== 'exfat' && filesystem !== 'udf';
    const image = join(directory, `${name}.img`);
    const stick = await makeStick({ image, filesystem, table: 'none', ...(isFilledHere && { folder }) });
    if (!isFilledHere) await machine().fillStick(stick, folder);
    return stick;
  };

  const sticksOf = ({ media }: StatusReport) => media.filter(({ medium }) => medium.startsWith('sd'));

  /** Plugs it in, waits until the daemon has made up its mind, and pulls it out again. */
  const judged = async (stick: Stick, status = /^/) => {
    const plugged = await machine().plug(stick);
    const isDone = (state = '') => state === 'failed' || state === 'read';
    const report = await node.until(
      `the stick to be judged: ${status}`,
      (now) => isDone(sticksOf(now)[0]?.state) && status.test(now.status),
    );
    const options = await machine().output('grep /run/stickpin/media /proc/mounts || true');
    const kernelLog = await machine().output('dmesg --notime --read-clear');
    await plugged.unplug();
    await node.until('the stick to be gone', (now) => sticksOf(now).length === 0);
    return { stick: sticksOf(report)[0], options, kernelLog };
  };

  test.each<readonly [Damage, NonNullable<StickOptions['filesystem']>, RegExp, RegExp]>([
    [
      'ext4 directory',
      'ext4',
      /EXT4-fs error/,
      /^PLUG IN ANOTHER STICK \(M-0[34]\): Cannot read .*the filesystem of the medium is damaged/,
    ],
    [
      'ext4 inode',
      'ext4',
      /EXT4-fs error/,
      /^PLUG IN ANOTHER STICK \(M-0[34]\): Cannot read .*the filesystem of the medium is damaged/,
    ],
    ['vfat chain', 'vfat', /FAT-fs .*: error/, /^PLUG IN ANOTHER STICK \(M-0[34]\): Cannot read .*can't be read/],
    ['exfat chain', 'exfat', /exFAT-fs .*: error/, /^PLUG IN ANOTHER STICK \(M-0[34]\): Cannot read .*can't be read/],
    ['iso9660 directory', 'iso9660', /ISOFS: /, /[Tt]he stick/],
    ['udf entry', 'udf', /UDF-fs: error/, /^PLUG IN ANOTHER STICK \(M-0[34]\): Cannot read .*can't be mounted/],
    ['squashfs directory', 'squashfs', /SQUASHFS error/, /[Tt]he stick.*can't be read/],
    // No folder is read by way of the bitmap.
    ['ext4 bitmap', 'ext4', /EXT4-fs .*mounted/, /ocp 4\.13\.7/],
  ])('%s: the machine lives, and STATUS tells of it', async (damage, filesystem, complaint, status) => {
    const stick = await stickOf(damage.replace(' ', '-'), filesystem);
    await damageStick(stick, damage);
    if (filesystem === 'ext4') await askForPanic(stick);
    const { kernelLog } = await judged(stick, status);
    expect(kernelLog).toMatch(complaint);
    expect(await machine().output('cat /proc/sys/kernel/random/boot_id')).toBe(bootId);
    expect(await machine().output('systemctl is-active stickpin')).toBe('active');
  });

  test('a filesystem that is not allowed is named, with what to do', async () => {
    const { stick, options } = await judged(await stickOf('ext2', 'ext2'));
    expect(stick?.reason?.message).toMatch(/it has the filesystem ext2, which is not mounted.*media\.filesystems/);
    expect(options).toBe('');
  });

  test('a stick without a filesystem is reported, with what to do', async () => {
    const image = join(directory, 'blank.img');
    await writeFile(image, '');
    await truncate(image, 40 * 1024 * 1024);
    // A preload that waits for its stick comes first.
    const { stick } = await judged({ image, filesystem: 'vfat' }, /\bThe stick cannot be read\b/);
    expect(stick?.reason?.message).toMatch(/it has no filesystem that stickpin can read/);
  });

  test('good sticks of all default filesystems are read at once, loaded, and reached by root alone', async () => {
    const options = {
      vfat: 'errors=remount-ro',
      exfat: 'errors=remount-ro',
      ext4: 'errors=remount-ro',
      iso9660: 'nosymfollow',
      udf: 'umask=77',
      squashfs: 'errors=continue',
    } as const;
    const filesystems = Object.keys(options) as (keyof typeof options)[];
    const sticks: Stick[] = [];
    for (const filesystem of filesystems) sticks.push(await stickOf(`good-${filesystem}`, filesystem));
    const plugged = await Promise.all(sticks.map((stick) => machine().plug(stick)));
    const isRead = (now: StatusReport) =>
      sticksOf(now).length === sticks.length &&
      sticksOf(now).every(({ state, bundles }) => state === 'read' && bundles === 1);
    const report = await node.until('all sticks to be read', isRead);
    expect(report.rejected).toEqual([]);
    const mounts = await machine().output('grep /run/stickpin/media/ /proc/mounts');
    for (const filesystem of filesystems) {
      expect(mounts).toMatch(new RegExp(`^\\S+ \\S+ ${filesystem} ro,.*\\b${options[filesystem]}\\b`, 'm'));
    }
    const folder = (await machine().output('ls -d /run/stickpin/media/*/stickpin')).split('\n')[0];
    const asNobody = await machine().run(`setpriv --reuid=65534 --regid=65534 --clear-groups ls '${folder}'`);
    expect(asNobody.stderr).toContain('Permission denied');
    expect(await machine().output('stat --format %a /run/stickpin/media')).toBe('700');
    await node.until('activation', (now) => now.bundles[0]?.phase === 'activated' && now.operation === 'idle');
    for (const stick of plugged) await stick.unplug();
    expect(await machine().output('cat /proc/sys/kernel/random/boot_id')).toBe(bootId);
  });
});
