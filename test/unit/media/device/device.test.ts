import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type DeviceVerdict, judgeDevice } from '../../../../src/media/device/device.ts';
import { createFakeMachine, type FakeMachine } from '../../../support/files/fake-sysfs.ts';

const never = new AbortController().signal;

describe('judging a device', () => {
  let machine: FakeMachine;
  beforeEach(() => {
    machine = createFakeMachine();
    machine.addDevice('sda', '8:0', { STICKPIN_MEDIUM: '' });
    machine.addDevice('sda2', '8:2');
    machine.mount('8:2', '/', '/dev/sda2');
  });
  afterEach(() => machine[Symbol.dispose]());

  const judge = (path: string): Promise<DeviceVerdict> => judgeDevice(path, machine.query, machine.paths, never);

  it('accepts a marked partition of another disk', async () => {
    machine.addDevice('sdb', '8:16', { ID_FS_USAGE: '', ID_FS_TYPE: '' });
    const path = machine.addDevice('sdb1', '8:17');
    expect(await judge(path)).toEqual({
      kind: 'medium',
      device: {
        name: 'sdb1',
        node: '/dev/sdb1',
        sysfsPath: path,
        number: '8:17',
        diskSeq: '2',
        filesystem: 'vfat',
        usage: 'filesystem',
        filesystemUuid: 'UUID-sdb1',
      },
    });
  });

  it('accepts a disk without partitions', async () => {
    expect(await judge(machine.addDevice('sdb', '8:16'))).toMatchObject({ kind: 'medium', device: { name: 'sdb' } });
  });

  it('ignores devices that our rule has not marked', async () => {
    expect(await judge(machine.addDevice('sdb', '8:16', { STICKPIN_MEDIUM: '' }))).toEqual({ kind: 'other' });
  });

  it.each([
    ['swap', { ID_FS_USAGE: 'other', ID_FS_TYPE: 'swap' }],
    ['a RAID member', { ID_FS_USAGE: 'raid', ID_FS_TYPE: 'linux_raid_member' }],
    ['an encrypted volume', { ID_FS_USAGE: 'crypto', ID_FS_TYPE: 'crypto_LUKS' }],
  ])('leaves %s of a disk alone that nobody plugs in', async (_what, properties) => {
    expect(await judge(machine.addDevice('sdb', '8:16', { STICKPIN_MEDIUM: '', ...properties }))).toEqual({
      kind: 'other',
    });
  });

  it('refuses every partition of the disk that carries the root', async () => {
    const verdict = await judge(machine.addDevice('sda3', '8:3'));
    expect(verdict).toEqual({ kind: 'refused', name: 'sda3', reason: 'the system itself is on sda' });
  });

  it('finds the disk of the root below device-mapper', async () => {
    machine.addDevice('sdc', '8:32', { STICKPIN_MEDIUM: '' });
    machine.addDevice('sdc3', '8:35', { ID_FS_USAGE: 'raid' });
    machine.addDevice('dm-0', '254:0');
    machine.stack('dm-0', 'sdc3');
    machine.mount('254:0', '/var', '/dev/mapper/vg-var');
    const verdict = await judge(machine.addDevice('sdc1', '8:33'));
    expect(verdict).toMatchObject({ kind: 'refused', reason: 'the system itself is on sdc' });
  });

  it('finds the disk of a root filesystem with its own device number by its source', async () => {
    machine.addDevice('sdd', '8:48', { STICKPIN_MEDIUM: '' });
    machine.addDevice('sdd1', '8:49');
    machine.mount('0:33', '/usr', '/dev/sdd1');
    const verdict = await judge(machine.addDevice('sdd2', '8:50'));
    expect(verdict).toMatchObject({ kind: 'refused', reason: 'the system itself is on sdd' });
  });

  it('refuses what fstab names', async () => {
    machine.setFstab('UUID=uuid-sdb /data auto nofail 0 0\n');
    const verdict = await judge(machine.addDevice('sdb', '8:16'));
    expect(verdict).toMatchObject({ kind: 'refused', reason: expect.stringContaining('fstab') });
  });

  it('refuses what device-mapper uses', async () => {
    const path = machine.addDevice('sdb', '8:16');
    machine.addDevice('dm-1', '254:1');
    machine.stack('dm-1', 'sdb');
    expect(await judge(path)).toMatchObject({ kind: 'refused' });
  });

  it('accepts a hybrid ISO once, as the whole disk', async () => {
    const disk = machine.addDevice('sdb', '8:16', { ID_FS_TYPE: 'iso9660' });
    const partition = machine.addDevice('sdb1', '8:17', { ID_FS_TYPE: 'iso9660' });
    expect(await judge(disk)).toMatchObject({ kind: 'medium' });
    expect(await judge(partition)).toEqual({ kind: 'other' });
  });

  describe('a stick without a filesystem', () => {
    const bare = { STICKPIN_MEDIUM: 'bare', ID_FS_USAGE: '', ID_FS_TYPE: '', ID_FS_UUID: '' };
    const empty = { STICKPIN_MEDIUM: '', ID_FS_USAGE: '', ID_FS_TYPE: '', ID_FS_UUID: '' };

    it('is a medium that has none, bare or with unformatted partitions', async () => {
      expect(await judge(machine.addDevice('sdb', '8:16', bare))).toMatchObject({
        kind: 'medium',
        device: { name: 'sdb', filesystem: '' },
      });
      expect(await judge(machine.addDevice('sdb1', '8:17', empty))).toEqual({ kind: 'other' });
      expect(await judge(join(machine.paths.sysRoot, 'devices/block/sdb'))).toMatchObject({ kind: 'medium' });
    });

    it.each([
      ['has a filesystem on a partition', { ...empty, ID_FS_USAGE: 'filesystem' }],
      ['has a partition that udev has not seen yet', { ...empty, USEC_INITIALIZED: '' }],
    ])('is left alone when it %s', async (_what, partition) => {
      const disk = machine.addDevice('sdb', '8:16', bare);
      machine.addDevice('sdb1', '8:17', empty);
      machine.addDevice('sdb2', '8:18', partition);
      expect(await judge(disk)).toEqual({ kind: 'other' });
    });

    it('is a medium with what is on it, or on its first partition that has something', async () => {
      const luks = { ID_FS_USAGE: 'crypto', ID_FS_TYPE: 'crypto_LUKS', ID_FS_UUID: 'u' };
      expect(await judge(machine.addDevice('sdb', '8:16', { ...bare, ...luks }))).toMatchObject({
        kind: 'medium',
        device: { name: 'sdb', filesystem: 'crypto_LUKS', usage: 'crypto', filesystemUuid: 'u' },
      });
      const disk = machine.addDevice('sdc', '8:32', bare);
      machine.addDevice('sdc1', '8:33', empty);
      machine.addDevice('sdc2', '8:34', { ...empty, ID_FS_USAGE: 'raid', ID_FS_TYPE: 'LVM2_member' });
      expect(await judge(disk)).toMatchObject({ kind: 'medium', device: { name: 'sdc', filesystem: 'LVM2_member' } });
    });

    it('is left alone when this machine uses what is on a partition', async () => {
      const swap = { ...empty, ID_FS_USAGE: 'other', ID_FS_TYPE: 'swap', ID_FS_UUID: 's' };
      const disk = machine.addDevice('sdb', '8:16', bare);
      machine.addDevice('sdb1', '8:17', swap);
      expect(await judge(disk)).toMatchObject({ kind: 'medium' });
      machine.setFstab('UUID=s none swap sw 0 0\n');
      expect(await judge(disk)).toMatchObject({ kind: 'refused', reason: expect.stringContaining('fstab') });
      machine.setFstab('');
      machine.setSwaps('Filename\tType\n/dev/sdb1                partition 1 0 -2\n');
      expect(await judge(disk)).toMatchObject({ kind: 'refused', reason: 'this machine swaps to it' });
      machine.setSwaps('');
      machine.addDevice('dm-3', '254:3');
      machine.stack('dm-3', 'sdb1');
      expect(await judge(disk)).toEqual({ kind: 'other' });
    });

    it('is left alone when our rule has not marked it, and when the system or device-mapper uses it', async () => {
      expect(await judge(machine.addDevice('sdb', '8:16', empty))).toEqual({ kind: 'other' });
      const mapped = machine.addDevice('sdc', '8:32', bare);
      machine.addDevice('dm-2', '254:2');
      machine.stack('dm-2', 'sdc');
      expect(await judge(mapped)).toMatchObject({ kind: 'refused' });
      expect(await judge(machine.addDevice('sda', '8:0', bare))).toEqual({ kind: 'other' });
    });
  });

  it('gives no medium when the device disappeared meanwhile', async () => {
    expect(await judge('/sys/devices/block/gone')).toEqual({ kind: 'other' });
  });
});
