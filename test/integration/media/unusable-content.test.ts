import { execFileSync } from 'node:child_process';
import { truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { judgeDevice } from '../../../src/media/device/device.ts';
import { PluggedDevice } from '../../../src/media/device/plugged-device.ts';
import { createFakeMachine } from '../../support/files/fake-sysfs.ts';
import { folderForEach } from '../../support/files/temporary-folder.ts';

const folder = folderForEach();
const never = new AbortController().signal;
const SIZE = 16 * 1024 * 1024;

/** Writes an image with these bytes at these offsets. */
function image(...parts: readonly (readonly [number, Buffer])[]): string {
  const path = join(folder, 'stick.img');
  const end = Math.max(...parts.map(([offset, bytes]) => offset + bytes.length));
  const head = Buffer.alloc(end);
  for (const [offset, bytes] of parts) bytes.copy(head, offset);
  writeFileSync(path, head);
  truncateSync(path, SIZE);
  return path;
}

/** The label of LVM2 with its checksum: CRC-32 with another start, not inverted at the end. */
function lvmLabel(): Buffer {
  const label = Buffer.alloc(512);
  label.write('LABELONE', 0);
  label.writeBigUInt64LE(1n, 8);
  label.writeUInt32LE(32, 20);
  label.write('LVM2 001', 24);
  label.write('abcdef0123456789abcdef0123456789', 32);
  let crc = 0xf597a6cf;
  for (const byte of label.subarray(20)) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  }
  label.writeUInt32LE(crc >>> 0, 16);
  return label;
}

/** The superblock of version 1.2, with its checksum: the sum of its 32-bit words. */
function raidSuperblock(): Buffer {
  const superblock = Buffer.alloc(256);
  superblock.writeUInt32LE(0xa92b4efc, 0);
  superblock.writeUInt32LE(1, 4);
  superblock.write('0123456789abcdef', 16);
  superblock.writeBigUInt64LE(8n, 144);
  let sum = 0n;
  for (let at = 0; at < 256; at += 4) sum += BigInt(superblock.readUInt32LE(at));
  superblock.writeUInt32LE(Number(((sum & 0xffffffffn) + (sum >> 32n)) & 0xffffffffn), 216);
  return superblock;
}

function luksHeader(version: number): Buffer {
  const header = Buffer.alloc(4096);
  header.write('LUKS\xba\xbe', 0, 'latin1');
  header.writeUInt16BE(version, 6);
  header.writeBigUInt64BE(4096n, 8);
  header.write('01234567-89ab-cdef-0123-456789abcdef', 168);
  return header;
}

function bitlocker(): readonly (readonly [number, Buffer])[] {
  const boot = Buffer.alloc(512);
  boot.write('\xeb\x58\x90-FVE-FS-', 0, 'latin1');
  boot.writeBigUInt64LE(8192n, 0xb0);
  const metadata = Buffer.alloc(512);
  metadata.write('-FVE-FS-', 0);
  metadata.writeUInt16LE(64, 8);
  metadata.writeUInt16LE(2, 10);
  return [
    [0, boot],
    [8192, metadata],
  ];
}

/** libblkid, which udev asks too, says what is in the image. */
function udevOf(path: string): Readonly<Record<string, string>> {
  const output = execFileSync('blkid', ['--probe', '--output', 'udev', path], { encoding: 'utf8' });
  const lines = output.trim().split('\n');
  return Object.fromEntries(lines.map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]));
}

const swap = () => {
  const path = image([0, Buffer.alloc(1)]);
  execFileSync('mkswap', [path]);
  return path;
};

it.each([
  ['LUKS1', () => image([0, luksHeader(1)]), 'is encrypted (LUKS), so that'],
  ['LUKS2', () => image([0, luksHeader(2)]), 'is encrypted (LUKS), so that'],
  ['BitLocker', () => image(...bitlocker()), 'is encrypted (BitLocker), so that'],
  ['swap', swap, 'is swap space'],
  ['a member of RAID', () => image([4096, raidSuperblock()]), 'is a member of a RAID (linux_raid_member)'],
  ['a member of LVM', () => image([512, lvmLabel()]), 'is a part of an LVM volume group'],
])('a stick with %s is reported with what it is, and what to do', async (_what, make, said) => {
  using machine = createFakeMachine();
  const disk = machine.addDevice('sdb', '8:16', {
    STICKPIN_MEDIUM: 'bare',
    ID_FS_USAGE: '',
    ID_FS_TYPE: '',
    ...udevOf(make()),
  });
  const verdict = await judgeDevice(disk, machine.query, machine.paths, never);
  if (verdict.kind !== 'medium') throw new Error(`it is ${verdict.kind}`);
  const deps = {
    units: undefined as never,
    mountDirectory: folder,
    filesystems: ['vfat', 'exfat'],
    paths: machine.paths,
  };
  const error = await new PluggedDevice('1-sdb', verdict.device, deps).open(never).catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({ code: 'media/filesystem' });
  expect(String((error as Error).message)).toContain(`it ${said}`);
  expect(String((error as Error).message)).toContain(
    "Write it again with 'stickpin bundle write', or format it as vfat",
  );
});
