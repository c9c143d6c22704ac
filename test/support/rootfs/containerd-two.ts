import { mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { buildOnce } from './build-cache.ts';
import { debianMirror } from './debian-mirror.ts';
import { execute } from './execute.ts';

/** Raise `version` to take a newer containerd from the archive, or to build it in another way. */
const recipe = { version: 1, suite: 'testing', packages: ['containerd'] };

/**
 * The folder with the programs of containerd 2 (`containerd`, `ctr`) from Debian's suite `testing`,
 * which the cache gets with the host's apt, by lists of its own. Nothing of the host is changed.
 * They run wherever the glibc of Debian 12 or newer is.
 */
export async function containerdTwoPrograms(): Promise<string> {
  return join(await buildOnce('containerd-two', recipe, build), 'usr/bin');
}

async function build(directory: string): Promise<void> {
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
