import { link, lstat, mkdir, readdir, readlink, rename, rm, stat, unlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { AppError, reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { readIfPresent, syncFolder } from '../../platform/files/durable-file.ts';
import { isTable, parseToml, type TomlTable, writeDurably } from '../config/config-file.ts';
import type { MirrorAddress } from '../config/toml-text.ts';
import { configError, writeError } from '../cri/runtime-error.ts';
import { type HostsToml, parseHostsToml, readHostsToml, renderHostsToml, withAbsolutePaths } from './hosts-toml.ts';

/**
 * Writes to the first directory of `config_path`. containerd uses the first one that has a folder
 * for a registry, so our file includes the configuration of the others. INVARIANT: a user's file
 * gets a second name (a hard link) before our file takes its name, and keeps it until the file has
 * its first name again. So a complete copy always exists, also after a crash, and owner, mode and
 * times stay.
 */
export class HostsDirectory {
  private readonly certsDirectory: string;
  /** Further directories of the user's configuration. */
  private readonly others: readonly string[];

  constructor(
    [certsDirectory, ...others]: readonly [string, ...string[]],
    private readonly address: MirrorAddress,
  ) {
    this.certsDirectory = certsDirectory;
    this.others = others;
  }

  /**
   * Makes our registry the first host of exactly these repositories. Every other `hosts.toml` of
   * ours is removed, and the user's original file is restored.
   * @throws AppError `runtime/config` for the first registry whose configuration allows no mirror,
   *   after the others; `runtime/write`
   */
  async apply(repositories: readonly string[], signal: AbortSignal): Promise<void> {
    const { certsDirectory } = this;
    const wanted = groupByRegistry(repositories);
    try {
      for (const name of await subdirectories(certsDirectory)) {
        signal.throwIfAborted();
        await this.restoreUnless(join(certsDirectory, name), wanted);
      }
      await forEachAllowed(wanted, async ([registry, names]) => {
        signal.throwIfAborted();
        await this.put(registry, names);
      });
    } catch (error) {
      signal.throwIfAborted();
      throw error instanceof AppError ? error : writeError(certsDirectory, error);
    }
  }

  /** The registries, sorted. Those mirrored to another address appear as `stale …`. */
  async rendered(signal: AbortSignal): Promise<string[]> {
    const found: string[] = [];
    for (const name of await subdirectories(this.certsDirectory)) {
      signal.throwIfAborted();
      const directory = join(this.certsDirectory, name);
      const text = (await readIfPresent(join(directory, FILE))) ?? '';
      const ours = parseHostsToml(text, this.address);
      if (ours === undefined) continue;
      const isCurrent = ours.current && (await this.isAsConfigured(directory, ours, text));
      found.push(...ours.repositories.map((each) => (isCurrent ? each : `stale ${each}`)));
    }
    return found.sort();
  }

  /** A broken file counts as unchanged, because nothing can be written before it is repaired. */
  private async isAsConfigured(directory: string, ours: HostsToml, text: string): Promise<boolean> {
    try {
      const { registry, repositories, madeDirectory } = ours;
      return (await this.textOf(directory, { registry, repositories, madeDirectory })) === text;
    } catch (error) {
      if (error instanceof AppError) return true;
      throw error;
    }
  }

  private async restoreUnless(directory: string, wanted: ReadonlyMap<string, readonly string[]>): Promise<void> {
    const ours = parseHostsToml((await readIfPresent(join(directory, FILE))) ?? '', this.address);
    if (ours !== undefined && wanted.has(ours.registry)) return;
    const hasSaved = (await readIfPresent(join(directory, SAVED))) !== undefined;
    if (ours === undefined) {
      // Somebody replaced our file, or a crash came before ours was written: the original name is
      // newer.
      if (hasSaved) await unlink(join(directory, SAVED));
      return;
    }
    if (hasSaved) await rename(join(directory, SAVED), join(directory, FILE));
    else if (ours.madeDirectory && (await hasOnlyOurs(directory))) await removeDirectory(directory);
    else await unlink(join(directory, FILE));
    if (hasSaved) await syncFolder(directory);
  }

  private async put(registry: string, repositories: readonly string[]): Promise<void> {
    const { certsDirectory, address } = this;
    const name = await folderFor(certsDirectory, registry);
    if (name === undefined) {
      const content = { registry, repositories, madeDirectory: true };
      const text = renderHostsToml(content, address, await this.inheritedTable(registry));
      await putDirectory(join(certsDirectory, registry), text);
      return;
    }
    const directory = join(certsDirectory, name);
    if ((await lstat(directory)).isSymbolicLink())
      throw configError(
        `${directory} is a link. stickpin writes no mirror behind it, since other registries may use that folder too. ` +
          'Put a folder with a copy of its files in place of the link',
      );
    const present = await readIfPresent(join(directory, FILE));
    const ours = parseHostsToml(present ?? '', address);
    if (present !== undefined && ours === undefined) {
      // A broken file must be named by its first name in the error, so it is read before the link.
      await tableAt(join(directory, FILE));
      await saveOriginal(directory);
    }
    const content = { registry, repositories, madeDirectory: ours?.madeDirectory ?? false };
    await writeDurably({ path: join(directory, FILE) }, await this.textOf(directory, content));
  }

  /** Includes what our file hides. @throws AppError `runtime/config` for a broken file */
  private async textOf(directory: string, content: HostsToml): Promise<string> {
    const hidesNothing = content.madeDirectory && (await hasOnlyOurs(directory));
    const configured = hidesNothing ? await this.inheritedTable(content.registry) : await ownTable(directory);
    return renderHostsToml(content, this.address, configured);
  }

  /** `_default` beside it, or in the further directories. @throws AppError `runtime/config` */
  private async inheritedTable(registry: string): Promise<TomlTable> {
    const { certsDirectory, others } = this;
    if (await isFolder(join(certsDirectory, DEFAULT))) return absoluteTable(join(certsDirectory, DEFAULT));
    for (const other of others) {
      const name = await folderFor(other, registry);
      const table = name === undefined ? undefined : await usersTable(join(other, name));
      if (table !== undefined) return table;
      if (await isFolder(join(other, DEFAULT))) return absoluteTable(join(other, DEFAULT));
    }
    return {};
  }
}

/** @throws the first AppError `runtime/config`, at the end; any other error at once */
export async function forEachAllowed<T>(items: Iterable<T>, act: (item: T) => Promise<void>): Promise<void> {
  const faults: AppError[] = [];
  for (const item of items) {
    await act(item).catch((error: unknown) => {
      if (!(error instanceof AppError) || error.code !== 'runtime/config') throw error;
      faults.push(error);
    });
  }
  if (faults[0] !== undefined) throw faults[0];
}

/** One rename removes it: containerd doesn't read `_default` if the directory is empty. */
async function removeDirectory(directory: string): Promise<void> {
  const doomed = join(dirname(directory), `${SCRATCH}gone`);
  await rm(doomed, { recursive: true, force: true });
  await rename(directory, doomed);
  await rm(doomed, { recursive: true });
}

async function putDirectory(directory: string, text: string): Promise<void> {
  const staged = join(dirname(directory), `${SCRATCH}new`);
  await rm(staged, { recursive: true, force: true });
  await mkdir(staged, { recursive: true });
  await writeDurably({ path: join(staged, FILE) }, text);
  await rename(staged, directory);
  await syncFolder(dirname(directory));
}

async function saveOriginal(directory: string): Promise<void> {
  await rm(join(directory, SAVED), { force: true });
  await link(join(directory, FILE), join(directory, SAVED));
  await syncFolder(directory);
}

function groupByRegistry(repositories: readonly string[]): Map<string, string[]> {
  const groups = new Map<string, string[]>();
  for (const repository of repositories) {
    const registry = repository.slice(0, repository.indexOf('/'));
    groups.set(registry, [...(groups.get(registry) ?? []), repository]);
  }
  return groups;
}

const FILE = 'hosts.toml';
/** The user's file, while ours has its name. */
const SAVED = 'hosts.toml.stickpin-saved';
/** Our file during a write. A crash may leave it. */
const STAGED = `.${FILE}.stickpin-new`;
/** Prefix of folders that are being made or removed. */
const SCRATCH = '.stickpin-';
const DEFAULT = '_default';

async function hasOnlyOurs(directory: string): Promise<boolean> {
  return (await readdir(directory)).every((name) => name === FILE || name === STAGED);
}

/** The saved file, otherwise the certificates. */
async function ownTable(directory: string): Promise<TomlTable> {
  return (await tableAt(join(directory, SAVED))) ?? (await certificatesIn(directory));
}

/** containerd tries `host_port_` before `host:port`. @throws AppError `runtime/config` */
async function folderFor(certsDirectory: string, registry: string): Promise<string | undefined> {
  for (const name of new Set([registry.replace(/:(\d+)$/, '_$1_'), registry]))
    if (await isFolder(join(certsDirectory, name))) return name;
  return undefined;
}

/** Links are left out. Returns no names when there is no such directory. */
async function subdirectories(directory: string): Promise<string[]> {
  try {
    const entries = await readdir(directory, { withFileTypes: true });
    return entries.filter((entry) => entry.isDirectory() && !entry.name.startsWith(SCRATCH)).map((entry) => entry.name);
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return [];
    throw error;
  }
}

/** An unreadable path counts, since containerd may use it: the sandbox hides some folders. */
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
