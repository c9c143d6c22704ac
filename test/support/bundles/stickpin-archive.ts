import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { execute } from '../rootfs/execute.ts';

/** Makes the archive of a working tree, as a user gets it, in `directory`. Returns its path. */
export async function makeStickpinArchive(repository: string, directory: string): Promise<string> {
  await execute([process.execPath, join(repository, 'packaging/package.mjs'), directory], { cwd: repository });
  const { version } = JSON.parse(await readFile(join(repository, 'package.json'), 'utf8')) as { version: string };
  return join(directory, `stickpin-${version}-linux-${process.arch}.tar.gz`);
}
