import { type Dirent, readdirSync } from 'node:fs';
import { join } from 'node:path';

/**
 * All entries below a folder, links as links. `readdirSync()` with `recursive` goes on behind
 * links, and never ends when they lead in a circle.
 */
export function entriesBelow(folder: string): Dirent[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) =>
    entry.isDirectory() ? [entry, ...entriesBelow(join(folder, entry.name))] : [entry],
  );
}
