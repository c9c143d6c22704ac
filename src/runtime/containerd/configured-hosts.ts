import { readdir, readlink, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { readIfPresent } from '../../platform/files/durable-file.ts';
import { isTable, parseToml, type TomlTable } from '../config/config-file.ts';
import { configError } from '../cri/runtime-error.ts';
import { readHostsToml, withAbsolutePaths } from './hosts-toml.ts';

/** The file of a registry in its folder. */
export const FILE = 'hosts.toml';
/** The user's file, while ours has its name. */
export const SAVED = 'hosts.toml.stickpin-saved';
/** Our file while it is written. A crash may leave it. */
const STAGED = `.${FILE}.stickpin-new`;
/** How the names of folders begin that are being made or removed. */
export const SCRATCH = '.stickpin-';
const DEFAULT = '_default';

/** The place of one file of ours. */
export interface Place {
  readonly certsDirectory: string;
  /** The further directories that the user's configuration for the registry may be in. */
  readonly others: readonly string[];
  readonly registry: string;
}

/**
 * The user's configuration for the registry of an existing directory: what is in it, or what it
 * hides if it is there for our file alone.
 *
 * @param madeDirectory whether stickpin made the directory
 * @throws AppError `runtime/config` when a file is broken
 */
export async function configuredTable(place: Place, directory: string, madeDirectory: boolean): Promise<TomlTable> {
  return madeDirectory && (await hasOnlyOurs(directory)) ? inheritedTable(place) : ownTable(directory);
}

/** Whether nothing but our file is in a directory. */
export async function hasOnlyOurs(directory: string): Promise<boolean> {
  return (await readdir(directory)).every((name) => name === FILE || name === STAGED);
}

/** The saved file, otherwise the certificates. */
async function ownTable(directory: string): Promise<TomlTable> {
  return (await tableAt(join(directory, SAVED))) ?? (await certificatesIn(directory));
}

/**
 * The configuration that our folder would disable: `_default` beside it, which applies to every
 * registry without a folder, or else the same in the further directories. What stickpin wrote there
 * is left out.
 *
 * @throws AppError `runtime/config` when the file is broken
 */
export async function inheritedTable({ certsDirectory, others, registry }: Place): Promise<TomlTable> {
  if (await isFolder(join(certsDirectory, DEFAULT))) return absoluteTable(join(certsDirectory, DEFAULT));
  for (const other of others) {
    const name = await folderFor(other, registry);
    const table = name === undefined ? undefined : await usersTable(join(other, name));
    if (table !== undefined) return table;
    if (await isFolder(join(other, DEFAULT))) return absoluteTable(join(other, DEFAULT));
  }
  return {};
}

/**
 * The name of the folder for a registry, or of a link to one, which containerd follows. containerd
 * tries `host_port_` before `host:port`.
 *
 * @throws AppError `runtime/config` when something else has the name
 */
export async function folderFor(certsDirectory: string, registry: string): Promise<string | undefined> {
  for (const name of new Set([registry.replace(/:(\d+)$/, '_$1_'), registry]))
    if (await isFolder(join(certsDirectory, name))) return name;
  return undefined;
}

/**
 * The folders of registries in a directory, without links. Empty when there is no such directory.
 */
export async function subdirectories(directory: string): Promise<string[]> {
  try {
    const entries = await readdir(directory, { withFileTypes: true });
    return entries.filter((entry) => entry.isDirectory() && !entry.name.startsWith(SCRATCH)).map((entry) => entry.name);
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return [];
    throw error;
  }
}

/**
 * Whether a folder is there, or a link to one. What can't be read may be in force for containerd,
 * so that it must not count as missing: the sandbox hides some folders of the node.
 */
async function isFolder(path: string): Promise<boolean> {
  try {
    if ((await stat(path)).isDirectory()) return true;
  } catch (error) {
    const target = await readlink(path).catch(() => undefined);
    if (target !== undefined)
      throw configError(
        `${path} is a link to ${target}, which stickpin can't follow: ${reasonOf(error)}. ` +
          'Remove the link, or make it lead to a folder outside of /home, /root and /tmp',
        error,
      );
    if (systemCodeOf(error) === 'ENOENT') return false;
    throw error;
  }
  throw configError(`${path} is not a folder, so containerd can't use it. Remove it, or put a folder in its place`);
}

/** What the user has for the registry of this folder. Undefined when the folder is ours. */
async function usersTable(directory: string): Promise<TomlTable | undefined> {
  const ours = readHostsToml((await readIfPresent(join(directory, FILE))) ?? '');
  if (ours === undefined) return absoluteTable(directory);
  if (ours.madeDirectory && (await hasOnlyOurs(directory))) return undefined;
  return withAbsolutePaths(await ownTable(directory), directory);
}

async function absoluteTable(directory: string): Promise<TomlTable> {
  return withAbsolutePaths((await tableAt(join(directory, FILE))) ?? (await certificatesIn(directory)), directory);
}

async function certificatesIn(directory: string): Promise<TomlTable> {
  const files = (await readdir(directory)).sort();
  const ca = files.filter((name) => name.endsWith('.crt')).map((name) => join(directory, name));
  const client = files
    .filter((name) => name.endsWith('.cert') && files.includes(name.replace(/cert$/, 'key')))
    .map((name) => [join(directory, name), join(directory, name.replace(/cert$/, 'key'))]);
  return { ...(ca.length > 0 && { ca }), ...(client.length > 0 && { client }) };
}

async function tableAt(path: string): Promise<TomlTable | undefined> {
  const text = await readIfPresent(path);
  if (text === undefined) return undefined;
  const parsed = parseToml(text);
  if (parsed.kind === 'fault')
    throw configError(`${path} is broken: ${parsed.reason}. No mirror can be put before it until it is repaired`);
  if ('host' in parsed.table && !isTable(parsed.table.host))
    throw configError(`${path} is broken: host must be a table`);
  return parsed.table;
}
