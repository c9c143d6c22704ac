import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { TestProject } from 'vitest/node';
import { makeStickpinArchive } from '../../../support/bundles/stickpin-archive.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** Path of the archive of this working tree, as a user gets it. */
    stickpinArchive: string;
  }
}

const repository = fileURLToPath(new URL('../../../../', import.meta.url));

/** Makes the archive once for all test files of a run, before the first: they run side by side, and the working tree doesn't change under them. */
export async function setup({ provide }: TestProject): Promise<() => Promise<void>> {
  const directory = await mkdtemp(join(tmpdir(), 'stickpin-archive-'));
  provide('stickpinArchive', await makeStickpinArchive(repository, directory));
  return () => rm(directory, { recursive: true, force: true });
}
