import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/**
 * The package's `proto/` directory: the nearest one above this module, be it the source file or the
 * built bundle in `dist/`.
 *
 * @throws Error when no directory above has one: the installation lacks it.
 */
export function findProtoRoot(): string {
  for (let directory = dirname(fileURLToPath(import.meta.url)); ; directory = dirname(directory)) {
    const candidate = join(directory, 'proto');
    if (existsSync(join(candidate, 'runtime/v1/api.proto'))) return candidate;
    if (directory === dirname(directory)) throw new Error(`no proto/runtime/v1/api.proto above ${import.meta.url}`);
  }
}
