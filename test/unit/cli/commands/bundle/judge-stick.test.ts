import { describe, expect, it } from 'vitest';
import { describeStick, refusalOf } from '../../../../../src/cli/commands/bundle/write.ts';
import type { StickFacts } from '../../../../../src/domain/model/machine.ts';

const GiB = 1024 ** 3;
const stick: StickFacts = {
  node: '/dev/sdb',
  number: '8:16',
  kind: 'disk',
  disk: 'sdb',
  sizeBytes: 32 * GiB,
  model: 'SanDisk Ultra',
  serial: '4C53',
  isRemovable: true,
  isReadOnly: false,
  isSystem: false,
  isInFstab: false,
  uses: [],
  held: [],
  parts: [],
};

describe('a device', () => {
  it('that is a free stick of enough size is accepted', () => {
    expect(refusalOf(stick, 32 * GiB)).toBeUndefined();
  });

  it.each<[string, Partial<StickFacts>, RegExp]>([
    ['of the system', { isSystem: true, isRemovable: true }, /holds filesystems of this machine/],
    ['that is a partition', { kind: 'partition', node: '/dev/sdb1' }, /name the whole stick, \/dev\/sdb/],
    ['that is not removable', { isRemovable: false }, /not removable, not on USB and no SD card/],
    ['in fstab', { isInFstab: true }, /in \/etc\/fstab/],
    ['that is mounted', { uses: [{ name: 'sdb1', what: 'mounted at /mnt' }] }, /^sdb1 is mounted at \/mnt: run umount/],
    ['that is swap', { uses: [{ name: 'sdb2', what: 'used as swap' }] }, /^sdb2 is used as swap/],
    ['of device-mapper', { held: ['sdb1'] }, /uses sdb1/],
    ['that is read-only', { isReadOnly: true }, /move its switch/],
    ['without a medium', { sizeBytes: 0 }, /has no medium/],
    ['that is too small', { sizeBytes: 32 * GiB - 1 }, /32\.0 GiB are needed/],
  ])('%s is refused, with what to do', (_name, more, message) => {
    expect(refusalOf({ ...stick, ...more }, 32 * GiB)).toMatch(message);
  });

  it('is described with what is on it', () => {
    const parts = [
      { name: 'sdb1', sizeBytes: GiB, filesystem: 'vfat', label: 'HOLIDAYS' },
      { name: 'sdb2', sizeBytes: GiB, filesystem: '', label: '' },
    ];
    expect(describeStick({ ...stick, parts })).toEqual([
      '/dev/sdb: SanDisk Ultra, 32.0 GiB, serial 4C53',
      "  sdb1: 1.0 GiB, vfat 'HOLIDAYS'",
      '  sdb2: 1.0 GiB, unknown content',
    ]);
    expect(describeStick({ ...stick, model: '', serial: '' })).toEqual([
      '/dev/sdb: unknown model, 32.0 GiB',
      '  no partition and no known filesystem',
    ]);
  });
});
