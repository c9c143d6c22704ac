import { join } from 'node:path';
import { buildOnce } from '../../../support/rootfs/build-cache.ts';
import { debianMirror } from '../../../support/rootfs/debian-mirror.ts';
import { execute } from '../../../support/rootfs/execute.ts';

/** Raise `version` when something else than the names changes how it is unpacked. */
const recipe = { version: 1, suite: 'trixie', package: 'qemu-system-x86' };

const libraries = 'usr/lib/x86_64-linux-gnu';

/**
 * The beginning of a command line that runs QEMU. It is that of a newer Debian than the host may
 * have, since newer ones emulate faster. It is unpacked with all its libraries when the cache lacks
 * it (about 8 s), and nothing is installed.
 */
export async function emulator(): Promise<readonly string[]> {
  const root = join(await buildOnce('qemu', recipe, unpack), 'root');
  return [
    ...[join(root, libraries, 'ld-linux-x86-64.so.2'), '--library-path', join(root, libraries)],
    join(root, 'usr/bin/qemu-system-x86_64'),
    // Where its firmware is.
    ...['qemu', 'seabios'].flatMap((name) => ['-L', join(root, 'usr/share', name)]),
  ];
}

/** mmdebstrap runs no script of a package that it only extracts. */
async function unpack(directory: string): Promise<void> {
  const options = ['--quiet', '--variant=extract', '--architectures=amd64', '--aptopt=Acquire::Retries "5"'];
  const target = [recipe.suite, join(directory, 'root'), await debianMirror()];
  await execute(['mmdebstrap', ...options, `--include=${recipe.package}`, ...target]);
}
