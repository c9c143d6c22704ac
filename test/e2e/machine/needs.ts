import { packagingNeeds } from '../../support/packages/make-packages.ts';
import { type Needed, program } from '../../support/requirements.ts';

/** The machine is one, and emulating it on another kind would take minutes to boot. */
const x86 = { name: 'an x86-64 machine', isMet: () => process.arch === 'x64', remedy: 'run on one' };

/** What the host must have for a machine and its sticks. */
export const machineNeeds: readonly Needed[] = [
  'root',
  'mmdebstrap',
  'openssl',
  x86,
  program('qemu-img', 'apt-get install qemu-utils'),
  program('sfdisk', 'apt-get install fdisk'),
  ...['mkfs.ext2', 'mkfs.ext4', 'tune2fs', 'debugfs'].map((name) => program(name, 'apt-get install e2fsprogs')),
  program('mkfs.vfat', 'apt-get install dosfstools'),
  program('mkfs.exfat', 'apt-get install exfatprogs'),
  program('mkudffs', 'apt-get install udftools'),
  program('mcopy', 'apt-get install mtools'),
  program('xorriso', 'apt-get install xorriso'),
  ...packagingNeeds,
  program('xz', 'apt-get install xz-utils'),
];
