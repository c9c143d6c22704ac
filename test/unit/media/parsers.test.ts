import { describe, expect, it } from 'vitest';
import { parseUdevProperties, unitNameOfPath } from '../../../src/media/device/device.ts';
import { isInFstab, parseFstab } from '../../../src/media/mounts.ts';
import { parseMountinfo } from '../../../src/platform/files/mountinfo.ts';

describe('unit names', () => {
  it.each([
    ['/run/stickpin/media/7-sdb1', 'run-stickpin-media-7\\x2dsdb1.mount'],
    ['/', '-.mount'],
    ['//a//b/', 'a-b.mount'],
    ['/.hidden/.x', '\\x2ehidden-.x.mount'],
    ['/a b/ü:_', 'a\\x20b-\\xc3\\xbc:_.mount'],
  ])('escapes %s', (path, unit) => {
    expect(unitNameOfPath(path, 'mount')).toBe(unit);
  });
});

describe('mountinfo', () => {
  it('reads device, root, mount point, type and source, past optional fields', () => {
    const text = [
      '25 1 8:2 / / rw,relatime shared:1 - ext4 /dev/sda2 rw',
      '96 25 8:17 / /media/My\\040stick ro,nosuid shared:50 master:2 - vfat /dev/sdb1 ro,uid=0',
      '97 25 0:40 /sub /mnt rw - btrfs /dev/sdc rw',
      'garbage',
      '',
    ].join('\n');
    expect(parseMountinfo(text)).toEqual([
      { device: '8:2', root: '/', mountPoint: '/', type: 'ext4', source: '/dev/sda2', superOptions: ['rw'] },
      {
        device: '8:17',
        root: '/',
        mountPoint: '/media/My stick',
        type: 'vfat',
        source: '/dev/sdb1',
        superOptions: ['ro', 'uid=0'],
      },
      { device: '0:40', root: '/sub', mountPoint: '/mnt', type: 'btrfs', source: '/dev/sdc', superOptions: ['rw'] },
    ]);
  });
});

describe('fstab', () => {
  const stick = {
    DEVNAME: '/dev/sdb1',
    DEVLINKS: '/dev/disk/by-id/usb-x-part1 /dev/disk/by-label/DATA',
    ID_FS_UUID: '1A2B-3C4D',
    ID_FS_LABEL: 'DATA',
    ID_PART_ENTRY_UUID: 'c0ffee00-01',
    ID_PART_ENTRY_NAME: 'my\\x20part',
  };
  /** As udev has a stick whose label and partition name are `Übung 1`. */
  const blanks = {
    DEVNAME: '/dev/sdc1',
    DEVLINKS: '/dev/disk/by-id/usb-A\\x20B-part1 /dev/disk/by-label/Übung\\x201 /dev/disk/by-partlabel/\\xdcbung',
    ID_FS_LABEL: 'Übung_1',
    ID_FS_LABEL_ENC: 'Übung\\x201',
    ID_PART_ENTRY_NAME: 'Übung\\x201',
  };

  it('reads the first column of each line that is not a comment', () => {
    expect(parseFstab('# /dev/sda9 x\n\n  /dev/sda2 / ext4 defaults 0 1\nLABEL=a\\040b\t/x auto\n')).toEqual([
      '/dev/sda2',
      'LABEL=a b',
    ]);
    expect(parseFstab('LABEL=\\303\\234bung\\0401 /x auto')).toEqual(['LABEL=Übung 1']);
  });

  it.each([
    '/dev/sdb1',
    '/dev/disk/by-id/usb-x-part1',
    'UUID=1a2b-3c4d',
    'UUID="1A2B-3C4D"',
    'LABEL=DATA',
    'PARTUUID=C0FFEE00-01',
    'PARTLABEL=my part',
    'ID=usb-x-part1',
    "LABEL='DATA'",
  ])('recognises the device by %s', (source) => {
    expect(isInFstab([source], stick)).toBe(true);
  });

  it.each([
    'LABEL=Übung\\0401',
    'LABEL=Übung_1',
    'PARTLABEL=\\303\\234bung\\0401',
    'ID=usb-A\\040B-part1',
    '/dev/disk/by-label/Übung\\x201',
  ])('recognises names that udev encodes by %s', (source) => {
    expect(isInFstab(parseFstab(source), blanks)).toBe(true);
    expect(isInFstab(parseFstab(source), stick)).toBe(false);
  });

  it.each(['/dev/sdb', 'UUID=1a2b', 'LABEL=data', 'tmpfs', 'UUID=', 'LABEL=""', 'ID=usb-x', 'PARTLABEL=DATA'])(
    'does not count %s as the device',
    (source) => {
      expect(isInFstab([source], stick)).toBe(false);
      expect(isInFstab([source], {})).toBe(false);
    },
  );
});

describe('udev properties', () => {
  it('keeps what comes after the first equals sign', () => {
    expect(parseUdevProperties('DEVNAME=/dev/sdb1\nID_SERIAL=a=b\n=x\nnoise\n')).toEqual({
      DEVNAME: '/dev/sdb1',
      ID_SERIAL: 'a=b',
    });
  });
});
