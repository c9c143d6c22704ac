import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { factsOf } from '../../../src/media/device/stick-facts.ts';
import { createFakeMachine, type FakeMachine } from '../../support/files/fake-sysfs.ts';

const GiB = 1024 ** 3;
const { signal } = new AbortController();
let machine: FakeMachine;
let swaps: string;
beforeEach(() => {
  machine = createFakeMachine();
  swaps = join(machine.paths.sysRoot, 'swaps');
  describeDisk(machine.addDevice('sda', '8:0'), '8:0', { removable: '0' });
  describeDisk(machine.addDevice('sdb', '8:16', { ID_FS_TYPE: '', ID_SERIAL_SHORT: '4C53' }), '8:16', {
    removable: '1',
  });
  describeDisk(machine.addDevice('sdb1', '8:17', { ID_FS_LABEL: 'HOLIDAYS' }), '8:17', {});
});
afterEach(() => machine[Symbol.dispose]());

/** Writes the files of sysfs that say what a disk is. */
function describeDisk(path: string, number: string, { removable }: { removable?: string }): void {
  writeFileSync(join(path, 'dev'), `${number}\n`);
  writeFileSync(join(path, 'size'), `${(8 * GiB) / 512}\n`);
  writeFileSync(join(path, 'ro'), '0\n');
  if (removable === undefined) return;
  writeFileSync(join(path, 'removable'), `${removable}\n`);
  mkdirSync(join(path, 'device'));
  writeFileSync(join(path, 'device/vendor'), 'SanDisk \n');
  writeFileSync(join(path, 'device/model'), 'Ultra           \n');
}

const facts = (number: string) => factsOf(number, machine.query, { ...machine.paths, swaps }, signal);

describe('what the machine says of a stick', () => {
  it('is its size, model, serial number and content', async () => {
    expect(await facts('8:16')).toEqual({
      node: '/dev/sdb',
      number: '8:16',
      kind: 'disk',
      disk: 'sdb',
      sizeBytes: 8 * GiB,
      model: 'SanDisk Ultra',
      serial: '4C53',
      isRemovable: true,
      isReadOnly: false,
      isSystem: false,
      isInFstab: false,
      uses: [],
      held: [],
      parts: [{ name: 'sdb1', sizeBytes: 8 * GiB, filesystem: 'vfat', label: 'HOLIDAYS' }],
    });
  });

  it('is that a partition is one, and of which disk', async () => {
    expect(await facts('8:17')).toMatchObject({ kind: 'partition', node: '/dev/sdb1', disk: 'sdb', isRemovable: true });
  });

  it.each([
    ['SD', true],
    ['MMC', false],
  ])('is that a card of type %s in a built-in reader can be taken out: %s', async (type, isRemovable) => {
    const card = machine.addDevice('mmcblk0', '179:0');
    describeDisk(card, '179:0', { removable: '0' });
    writeFileSync(join(card, 'device/type'), `${type}\n`);
    expect(await facts('179:0')).toMatchObject({ isRemovable });
  });

  it('is that the disk of the root filesystem is one, also below device-mapper', async () => {
    machine.addDevice('dm-0', '253:0');
    machine.stack('dm-0', 'sda');
    machine.mount('253:0', '/', '/dev/mapper/root');
    expect(await facts('8:0')).toMatchObject({ isSystem: true, isRemovable: false, held: ['sda'] });
  });

  it('is what uses its partitions', async () => {
    machine.mount('8:17', '/run/media/HOLIDAYS', '/dev/sdb1');
    writeFileSync(swaps, 'Filename Type Size\n/dev/sdb1 partition 100\n');
    machine.setFstab('LABEL=HOLIDAYS /mnt vfat defaults 0 0\n');
    expect(await facts('8:16')).toMatchObject({
      isInFstab: true,
      uses: [
        { name: 'sdb1', what: 'mounted at /run/media/HOLIDAYS' },
        { name: 'sdb1', what: 'used as swap' },
      ],
    });
  });

  it('is an error when it is gone', async () => {
    await expect(facts('8:99')).rejects.toMatchObject({ code: 'ENOENT' });
  });
});
