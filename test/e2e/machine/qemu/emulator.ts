import { join } from 'node:path';
import { unpackedRoot } from '../../../support/rootfs/unpacked-root.ts';

const recipe = { version: 2, suite: 'trixie', architecture: 'amd64', packages: ['qemu-system-x86'] };

const libraries = 'usr/lib/x86_64-linux-gnu';

/**
 * The beginning of a command line that runs QEMU. It is that of a newer Debian than the host may
 * have, since newer ones emulate faster. It is unpacked with all its libraries when the cache lacks
 * it (about 8 s), and nothing is installed.
 */
export async function emulator(): Promise<readonly string[]> {
  const root = await unpackedRoot('qemu', recipe);
  return [
    ...[join(root, libraries, 'ld-linux-x86-64.so.2'), '--library-path', join(root, libraries)],
    join(root, 'usr/bin/qemu-system-x86_64'),
    // Where its firmware is.
    ...['qemu', 'seabios'].flatMap((name) => ['-L', join(root, 'usr/share', name)]),
  ];
}
