import { readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { execute } from '../../../support/rootfs/execute.ts';
import { type CpioMember, cpioArchive } from './cpio.ts';

/**
 * What the kernel needs before it can mount the disk. Raise the image's recipe version when this
 * changes.
 */
const modules = ['virtio_pci', 'virtio_blk', 'ext4'];

const script = `#!/bin/busybox sh
/bin/busybox mount -t devtmpfs dev /dev
for module in /modules/*.ko; do /bin/busybox insmod "$module"; done
until [ -b /dev/vda ]; do /bin/busybox usleep 10000; done
/bin/busybox mount -t ext4 -o noatime /dev/vda /root
/bin/busybox mount -o move /dev /root/dev
exec /bin/busybox switch_root /root /usr/lib/systemd/systemd
`;

/**
 * The smallest initrd that loads the disk's drivers and hands over to the systemd on it; a tenth of
 * what Debian's own takes under emulation.
 */
export async function initrdImage(root: string, kernelRelease: string): Promise<Buffer> {
  const directories = ['bin', 'dev', 'modules', 'root'].map((path) => ({ path, mode: 0o040755 }));
  const programs: CpioMember[] = [
    { path: 'init', mode: 0o100755, content: Buffer.from(script) },
    { path: 'bin/busybox', mode: 0o100755, content: await readFile(join(root, 'usr/bin/busybox')) },
  ];
  return cpioArchive([...directories, ...programs, ...(await moduleMembers(root, kernelRelease))]);
}

async function moduleMembers(root: string, kernelRelease: string): Promise<CpioMember[]> {
  const modprobe = ['chroot', root, '/usr/sbin/modprobe', '-S', kernelRelease];
  const paths = new Set<string>();
  for (const module of modules) {
    const listing = await execute([...modprobe, '--show-depends', module]);
    for (const [, path] of listing.matchAll(/^insmod (\S+)/gm)) if (path !== undefined) paths.add(path);
  }
  const inOrder = [...paths].entries();
  return Promise.all(
    [...inOrder].map(async ([index, path]) => ({
      path: `modules/${String(index).padStart(2, '0')}-${basename(path, '.xz')}`,
      mode: 0o100644,
      content: await decompressed(join(root, path.replace(/^\/lib\//, 'usr/lib/'))),
    })),
  );
}

async function decompressed(path: string): Promise<Buffer> {
  if (!path.endsWith('.xz')) return readFile(path);
  const base64 = await execute(['sh', '-c', 'xz --decompress --stdout "$0" | base64', path]);
  return Buffer.from(base64, 'base64');
}
