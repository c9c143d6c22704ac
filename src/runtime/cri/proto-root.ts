import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Above this module, for source files and for the packed program. @throws Error */
export function findProtoRoot(): string {
  for (let directory = dirname(fileURLToPath(import.meta.url)); ; directory = dirname(directory)) {
    const candidate = join(directory, 'proto');
    if (existsSync(join(candidate, 'runtime/v1/api.proto'))) return candidate;
    if (directory === dirname(directory)) throw new Error(`no proto/runtime/v1/api.proto above ${import.meta.url}`);
  }
}
