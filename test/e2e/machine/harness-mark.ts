import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildOnce, isBuilt } from '../../support/rootfs/build-cache.ts';
import { execute } from '../../support/rootfs/execute.ts';

const kind = 'harness';
const repository = fileURLToPath(new URL('../../../', import.meta.url));
/** The harness, its own tests, and what builds the guest's root folder. */
const sources = ['test/e2e/machine', 'test/e2e/machine.test.ts', 'test/support/rootfs'];

/**
 * Whether the harness, with exactly these sources and this QEMU, has passed its own tests on this
 * host before.
 */
export async function harnessHasPassed(): Promise<boolean> {
  return isBuilt(kind, await recipe());
}

/** Notes in the cache that all of them passed. */
export async function markHarnessAsPassed(): Promise<void> {
  await buildOnce(kind, await recipe(), async () => undefined);
}

async function recipe(): Promise<unknown> {
  const paths = (await Promise.all(sources.map(filesBelow))).flat().sort();
  const files = await Promise.all(
    paths.map(async (path) => ({
      path,
      sha256: createHash('sha256')
        .update(await readFile(join(repository, path)))
        .digest('hex'),
    })),
  );
  return { files, node: process.version, qemu: await execute(['qemu-system-x86_64', '--version']) };
}

async function filesBelow(path: string): Promise<string[]> {
  if (path.endsWith('.ts')) return [path];
  const entries = await readdir(join(repository, path), { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(repository.length));
}
