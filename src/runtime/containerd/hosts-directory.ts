import { link, lstat, mkdir, rename, rm, unlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { AppError } from '../../platform/app-error.ts';
import { readIfPresent, syncFolder } from '../../platform/files/durable-file.ts';
import { writeDurably } from '../config/durable-file.ts';
import type { MirrorAddress } from '../config/mirror-address.ts';
import { configError, writeError } from '../cri/runtime-error.ts';
import {
  configuredTable,
  FILE,
  folderFor,
  hasOnlyOurs,
  inheritedTable,
  type Place,
  SAVED,
  SCRATCH,
  subdirectories,
} from './configured-hosts.ts';
import { type HostsToml, parseHostsToml, renderHostsToml } from './hosts-toml.ts';

/** Mirrors in one `certs.d` directory. */
export interface HostsDirectory {
  /**
   * Makes our registry the first host of the registries of exactly these repositories. Every other
   * `hosts.toml` of ours is removed, and the user's original file is put back.
   *
   * @throws AppError `runtime/config` for the first registry whose configuration allows no mirror,
   *   after all others have theirs; `runtime/write`
   */
  apply(repositories: readonly string[], signal: AbortSignal): Promise<void>;
  /**
   * Repositories mirrored to our registry now, sorted. Those mirrored to another address appear as
   * `stale …`.
   */
  rendered(signal: AbortSignal): Promise<string[]>;
}

/**
 * {@link HostsDirectory} on the first of the directories of `config_path`. containerd uses the
 * first one that has a folder for a registry. So what the others have for it is taken into our
 * file.
 *
 * INVARIANTS: a user's file gets a second name (a hard link) before our file takes its name, and
 * keeps it until the file has its own name back. So a complete copy exists at any time, also after
 * a crash, and owner, mode and times stay.
 */
export function createHostsDirectory(
  [certsDirectory, ...others]: readonly [string, ...string[]],
  address: MirrorAddress,
): HostsDirectory {
  return {
    apply: async (repositories, signal) => {
      const wanted = groupByRegistry(repositories);
      try {
        for (const name of await subdirectories(certsDirectory)) {
          signal.throwIfAborted();
          await restoreUnless(join(certsDirectory, name), wanted, address);
        }
        await forEachAllowed(wanted, async ([registry, names]) => {
          signal.throwIfAborted();
          await put({ certsDirectory, others, registry }, names, address);
        });
      } catch (error) {
        signal.throwIfAborted();
        throw error instanceof AppError ? error : writeError(certsDirectory, error);
      }
    },
    rendered: async (signal) => {
      const found: string[] = [];
      for (const name of await subdirectories(certsDirectory)) {
        signal.throwIfAborted();
        const text = (await readIfPresent(join(certsDirectory, name, FILE))) ?? '';
        const ours = parseHostsToml(text, address);
        if (ours === undefined) continue;
        const place = { certsDirectory, others, registry: ours.registry };
        const isCurrent = ours.current && (await isAsConfigured(place, name, ours, { text, address }));
        found.push(...ours.repositories.map((each) => (isCurrent ? each : `stale ${each}`)));
      }
      return found.sort();
    },
  };
}

/**
 * Acts on each item, also after the runtime's configuration has kept one of them from it.
 *
 * @throws the first AppError `runtime/config`, at the end; any other error at once
 */
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

/**
 * Whether our file has behind our mirror what the user configures now, since mirrors stay for long.
 * A broken file counts as unchanged, because nothing can be written before it is mended.
 */
async function isAsConfigured(
  place: Place,
  name: string,
  ours: HostsToml,
  { text, address }: { readonly text: string; readonly address: MirrorAddress },
): Promise<boolean> {
  try {
    const { registry, repositories, madeDirectory } = ours;
    const configured = await configuredTable(place, join(place.certsDirectory, name), madeDirectory);
    return renderHostsToml({ registry, repositories, madeDirectory }, address, configured) === text;
  } catch (error) {
    if (error instanceof AppError) return true;
    throw error;
  }
}

async function restoreUnless(
  directory: string,
  wanted: ReadonlyMap<string, readonly string[]>,
  address: MirrorAddress,
): Promise<void> {
  const ours = parseHostsToml((await readIfPresent(join(directory, FILE))) ?? '', address);
  if (ours !== undefined && wanted.has(ours.registry)) return;
  const hasSaved = (await readIfPresent(join(directory, SAVED))) !== undefined;
  if (ours === undefined) {
    // Somebody replaced our file, or a crash came before ours was in place: the file with the
    // original name is the newer one.
    if (hasSaved) await unlink(join(directory, SAVED));
    return;
  }
  if (hasSaved) await rename(join(directory, SAVED), join(directory, FILE));
  else if (ours.madeDirectory && (await hasOnlyOurs(directory))) await removeDirectory(directory);
  else await unlink(join(directory, FILE));
  if (hasSaved) await syncFolder(directory);
}

/**
 * Removes it in one step. For an empty directory containerd assumes a host without mirrors and
 * doesn't read `_default`.
 */
async function removeDirectory(directory: string): Promise<void> {
  const doomed = join(dirname(directory), `${SCRATCH}gone`);
  await rm(doomed, { recursive: true, force: true });
  await rename(directory, doomed);
  await rm(doomed, { recursive: true });
}

async function put(place: Place, repositories: readonly string[], address: MirrorAddress): Promise<void> {
  const { certsDirectory, registry } = place;
  const name = await folderFor(certsDirectory, registry);
  if (name === undefined) {
    const configured = await inheritedTable(place);
    const text = renderHostsToml({ registry, repositories, madeDirectory: true }, address, configured);
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
  if (present !== undefined && ours === undefined) await saveOriginal(directory);
  const madeDirectory = ours?.madeDirectory ?? false;
  const configured = await configuredTable(place, directory, madeDirectory);
  await writeDurably(
    { path: join(directory, FILE) },
    renderHostsToml({ registry, repositories, madeDirectory }, address, configured),
  );
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
