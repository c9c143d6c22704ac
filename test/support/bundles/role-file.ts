import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { SampleKey } from './sample-bundle.ts';

/** What {@link roleText} writes; what is not given has the value of the sample. */
export interface RoleFileOptions {
  readonly threshold?: number;
  readonly streams?: readonly string[];
  readonly repositories?: readonly string[];
  readonly mayRotate?: boolean;
  readonly mayKeepForLife?: boolean;
  readonly maxBytes?: number;
  /** Keys in PEM, or names of files. Default none. */
  readonly keys?: readonly (SampleKey | string)[];
}

/** The file of a role that may sign `customer-*` for `registry.example.com/cust`. */
export function roleText(options: RoleFileOptions): string {
  const { threshold = 1, streams = ['customer-*'], repositories = ['registry.example.com/cust'], keys = [] } = options;
  const sources = keys.map((key) => (typeof key === 'string' ? JSON.stringify(key) : `"""${key.publicPem}"""`));
  return [
    `threshold = ${threshold}`,
    `streams = ${JSON.stringify(streams)}`,
    `repositories = ${JSON.stringify(repositories)}`,
    `may_rotate = ${options.mayRotate ?? false}`,
    ...(options.mayKeepForLife === undefined ? [] : [`may_keep_for_life = ${options.mayKeepForLife}`]),
    ...(options.maxBytes === undefined ? [] : [`max_bytes = ${options.maxBytes}`]),
    `keys = [${sources.join(', ')}]`,
    '',
  ].join('\n');
}

/** Writes `<name>.toml` into a folder of keys, as root alone may write it. */
export function installRole(folder: string, name: string, options: RoleFileOptions): string {
  return installFile(folder, `${name}.toml`, roleText(options));
}

/** Writes a file into a folder of keys, as root alone may write it. Gives its path. */
export function installFile(folder: string, file: string, text: string): string {
  mkdirSync(folder, { recursive: true, mode: 0o755 });
  const path = join(folder, file);
  writeFileSync(path, text);
  chmodSync(path, 0o644);
  return path;
}
