import { rmSync } from 'node:fs';
import { join } from 'node:path';

/** Removes the copies of the state database. */
export function loseCopies(stateDirectory: string): void {
  for (const name of ['state.db.copy', 'state.db.copy-before']) rmSync(join(stateDirectory, name), { force: true });
}

/** Removes the signed documents of all releases, from which they could be rebuilt. */
export function loseSigned(stateDirectory: string): void {
  rmSync(join(stateDirectory, 'blobs/bundles'), { recursive: true, force: true });
}
