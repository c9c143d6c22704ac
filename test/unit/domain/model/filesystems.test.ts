import { describe, expect, it } from 'vitest';
import {
  defaultFilesystems,
  filesystemMount,
  filesystemRefusal,
  knownFilesystems,
} from '../../../../src/domain/model/medium.ts';
import { filesystemText } from '../../../../src/domain/report/reasons/image-reasons.ts';

describe('filesystems of media', () => {
  it.each(knownFilesystems)('mounts %s read-only and without devices, programs and links', (type) => {
    expect(filesystemMount(type)?.options).toMatch(/^ro,nosuid,nodev,noexec,nosymfollow(,|$)/);
  });

  it.each([
    ['vfat', 'errors=remount-ro'],
    ['exfat', 'errors=remount-ro'],
    ['ext2', 'errors=remount-ro'],
    ['ext3', 'errors=remount-ro'],
    ['ext4', 'errors=remount-ro'],
  ])('mounts %s so that an error never causes a kernel panic', (type, option) => {
    expect(filesystemMount(type)?.options.split(',')).toContain(option);
  });

  it.each([
    ['ext3', 'noload'],
    ['ext4', 'noload'],
    ['xfs', 'norecovery'],
    ['btrfs', 'rescue=nologreplay'],
    ['f2fs', 'norecovery'],
  ])('never replays the journal of %s', (type, option) => {
    expect(filesystemMount(type)?.options.split(',')).toContain(option);
  });

  it.each(['swap', 'crypto_LUKS', 'hfsplus', 'constructor', ''])('can not mount %s', (type) => {
    expect(filesystemMount(type)).toBeUndefined();
    const refusal = filesystemRefusal(type, [type]);
    expect(refusal).toEqual({ kind: 'unknown', filesystem: type, allowed: [type] });
    expect(refusal && filesystemText(refusal)).toContain('which stickpin does not mount');
  });

  it('mounts by default what the common tools write, and nothing else', () => {
    expect(defaultFilesystems).toEqual(['vfat', 'exfat', 'ext4', 'iso9660', 'udf', 'squashfs']);
    expect(knownFilesystems.filter((type) => filesystemRefusal(type, defaultFilesystems) === undefined)).toEqual(
      defaultFilesystems,
    );
  });

  it('mounts what the settings allow, and says how to allow the others', () => {
    expect(filesystemRefusal('xfs', ['vfat', 'xfs'])).toBeUndefined();
    const refusal = filesystemRefusal('vfat', ['xfs']);
    expect(refusal).toEqual({ kind: 'off', filesystem: 'vfat', allowed: ['xfs'] });
    expect(refusal && filesystemText(refusal)).toContain('media.filesystems = ["xfs", "vfat"]');
  });
});
