import { join } from 'node:path';
import { buildOnce } from './build-cache.ts';
import { debianMirror } from './debian-mirror.ts';
import { execute } from './execute.ts';

/** Raise `version` when something else than the names changes how it is unpacked. */
interface UnpackedRecipe {
  readonly version: number;
  readonly suite: string;
  /** As Debian names it. */
  readonly architecture: string;
  readonly packages: readonly string[];
}

/**
 * The root folder of packages with all that they depend on, unpacked when the cache lacks it (8 to
 * 15 s). No script of a package runs, and nothing of the host is changed. Never write to it.
 */
export async function unpackedRoot(kind: string, recipe: UnpackedRecipe): Promise<string> {
  return join(await buildOnce(kind, recipe, (directory) => unpack(directory, recipe)), 'root');
}

async function unpack(directory: string, { suite, architecture, packages }: UnpackedRecipe): Promise<void> {
  const options = ['--quiet', '--variant=extract', `--architectures=${architecture}`, '--aptopt=Acquire::Retries "5"'];
  // Packages of bookworm have files in /bin and /lib.
  const hooks = '--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr';
  const target = [suite, join(directory, 'root'), await debianMirror()];
  await execute(['mmdebstrap', ...options, hooks, `--include=${packages.join(',')}`, ...target]);
}
