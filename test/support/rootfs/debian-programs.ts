import { mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { buildOnce } from './build-cache.ts';
import { debianMirror } from './debian-mirror.ts';
import { execute } from './execute.ts';

/**
 * Programs of a Debian suite. Raise `version` to take newer ones, or to build them in another way.
 */
export interface ProgramsRecipe {
  readonly version: number;
  readonly suite: string;
  readonly packages: readonly string[];
}

/**
 * The folder `usr/bin` of some packages, without what they depend on, which the cache gets with the
 * host's apt, by lists of its own. Nothing of the host is changed. They run wherever the glibc of
 * Debian 12 or newer is.
 */
export async function debianPrograms(kind: string, recipe: ProgramsRecipe): Promise<string> {
  return join(await buildOnce(kind, recipe, (directory) => build(directory, recipe)), 'usr/bin');
}

async function build(directory: string, recipe: ProgramsRecipe): Promise<void> {
  const work = join(directory, 'apt');
  await mkdir(join(work, 'lists/partial'), { recursive: true });
  await mkdir(join(work, 'cache/archives/partial'), { recursive: true });
  await writeFile(join(work, 'status'), '');
  const keyring = '/usr/share/keyrings/debian-archive-keyring.gpg';
  await writeFile(
    join(work, 'sources.list'),
    `deb [signed-by=${keyring}] ${await debianMirror()} ${recipe.suite} main\n`,
  );
  const options = [
    `Dir::Etc::sourcelist=${join(work, 'sources.list')}`,
    'Dir::Etc::sourceparts=-',
    `Dir::State::lists=${join(work, 'lists')}`,
    `Dir::State::status=${join(work, 'status')}`,
    `Dir::Cache=${join(work, 'cache')}`,
    'APT::Sandbox::User=root',
    'Acquire::Retries=5',
  ].flatMap((option) => ['-o', option]);
  await execute(['apt-get', ...options, 'update']);
  await execute(['sh', '-c', 'cd "$0" && exec "$@"', work, 'apt-get', ...options, 'download', ...recipe.packages]);
  for (const name of await readdir(work)) {
    if (name.endsWith('.deb')) await execute(['dpkg-deb', '-x', join(work, name), directory]);
  }
  await rm(work, { recursive: true });
}
