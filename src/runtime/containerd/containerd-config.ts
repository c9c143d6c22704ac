import { readdir } from 'node:fs/promises';
import { basename, dirname, isAbsolute, join, matchesGlob, normalize } from 'node:path';
import { readIfPresent } from '../../platform/files/durable-file.ts';
import { isTable, parseToml, type TomlTable } from '../config/config-file.ts';

export type ConfiguredRegistry =
  | ({ readonly kind: 'read' } & RegistrySettings)
  /** The main file is absent, so that containerd uses its defaults. */
  | { readonly kind: 'absent' }
  | { readonly kind: 'unknown' };

interface RegistrySettings {
  /** '' when none is set. */
  readonly configPath: string;
  /** The image of pod sandboxes; '' when none is set. */
  readonly sandboxImage: string;
  /** The older `registry.mirrors`. */
  readonly hasMirrors: boolean;
  /** containerd 2 then pulls without its transfer service. */
  readonly pullsLocally: boolean;
}

/** Files of version 3 have this table. */
const IMAGES_TABLE = 'io.containerd.cri.v1.images';
/** The second table is of version 2, and the last of version 1. */
const TABLES = [IMAGES_TABLE, 'io.containerd.grpc.v1.cri', 'cri'];
/** These make containerd pull as 1.7 does (internal/cri/config, CheckLocalImagePullConfigs). */
const LOCAL_PULL_SETTINGS = ['use_local_image_pull', 'discard_unpacked_layers'];
/** containerd reads each file once; this bounds ours. */
const MAX_FILES = 200;

/**
 * Reads `config_path` from the file at `path` and its `imports`, in containerd's order (containerd,
 * cmd/containerd/server/config, LoadConfig): a file before its imports. A later value wins, also an
 * empty one: `containerd config dump` of 2.1.9 shows that.
 */
export async function readConfiguredRegistry(path: string, signal: AbortSignal): Promise<ConfiguredRegistry> {
  const pending = [path];
  const read = new Set<string>();
  let found = { configPath: '', hasMirrors: false, sandboxImage: '' };
  const local = new Map<string, boolean>();
  for (let next = pending.shift(); next !== undefined; next = pending.shift()) {
    signal.throwIfAborted();
    if (read.has(next)) continue;
    if (read.size >= MAX_FILES) return { kind: 'unknown' };
    read.add(next);
    const table = await tableAt(next);
    if (table === 'absent') {
      if (next === path) return { kind: 'absent' };
      continue;
    }
    if (table === undefined) return { kind: 'unknown' };
    found = { ...found, ...registryIn(table), ...sandboxIn(table) };
    for (const [name, value] of localPullIn(table)) local.set(name, value);
    for (const pattern of stringsIn(table.imports)) pending.push(...(await importedBy(next, pattern)));
  }
  return { kind: 'read', ...found, pullsLocally: [...local.values()].includes(true) };
}

async function tableAt(path: string): Promise<TomlTable | 'absent' | undefined> {
  try {
    const text = await readIfPresent(path);
    if (text === undefined) return 'absent';
    const parsed = parseToml(text);
    return parsed.kind === 'table' ? parsed.table : undefined;
  } catch {
    return undefined;
  }
}

function registryIn({ plugins }: TomlTable): { configPath?: string; hasMirrors?: boolean } {
  let found: { configPath?: string; hasMirrors?: boolean } = {};
  for (const name of TABLES) {
    const plugin = isTable(plugins) ? plugins[name] : undefined;
    const registry = isTable(plugin) ? plugin.registry : undefined;
    if (!isTable(registry)) continue;
    const { config_path: configPath, mirrors } = registry;
    found = {
      ...found,
      ...(typeof configPath === 'string' && found.configPath === undefined && { configPath }),
      ...(isTable(mirrors) && Object.keys(mirrors).length > 0 && { hasMirrors: true }),
    };
  }
  return found;
}

/** Files of version 3 have it among the pinned images. */
function sandboxIn({ plugins }: TomlTable): { sandboxImage?: string } {
  const found = TABLES.flatMap((name) => {
    const plugin = isTable(plugins) ? plugins[name] : undefined;
    if (!isTable(plugin)) return [];
    return [isTable(plugin.pinned_images) ? plugin.pinned_images.sandbox : undefined, plugin.sandbox_image];
  });
  const image = found.find((value) => typeof value === 'string');
  return typeof image === 'string' ? { sandboxImage: image } : {};
}

function localPullIn({ plugins }: TomlTable): readonly (readonly [string, boolean])[] {
  const table = isTable(plugins) ? plugins[IMAGES_TABLE] : undefined;
  if (!isTable(table)) return [];
  return LOCAL_PULL_SETTINGS.flatMap((name) => {
    const value = table[name];
    return typeof value === 'boolean' ? [[name, value] as const] : [];
  });
}

function stringsIn(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((each): each is string => typeof each === 'string') : [];
}

/** containerd takes a path without `*` as it is (cmd/containerd/server/config, resolveImports). */
async function importedBy(importer: string, pattern: string): Promise<readonly string[]> {
  const path = isAbsolute(pattern) ? normalize(pattern) : join(dirname(importer), pattern);
  return path.includes('*') ? filesMatching(path) : [path];
}

/** Sorted like Go's filepath.Glob. Unreadable folders have no files. */
async function filesMatching(pattern: string): Promise<readonly string[]> {
  if (!/[*?[]/.test(pattern)) return [pattern];
  const found: string[] = [];
  for (const folder of await filesMatching(dirname(pattern))) {
    const names = await readdir(folder).catch(() => []);
    const matching = names.filter((name) => isMatch(name, basename(pattern)));
    found.push(...matching.sort().map((name) => join(folder, name)));
  }
  return found;
}

/** A wildcard of Go also matches the dot of a hidden name. */
function isMatch(name: string, pattern: string): boolean {
  return matchesGlob(name, pattern) || (name.startsWith('.') && matchesGlob(`_${name.slice(1)}`, pattern));
}

/** Undefined means unknown, for example the default of containerd 2. `info`: of CRI `Status`. */
export async function sandboxImage(
  info: Readonly<Record<string, string>>,
  configFile: string | undefined,
  signal: AbortSignal,
): Promise<string | undefined> {
  const { sandboxImage: reported } = reportedConfig(info);
  if (typeof reported === 'string' && reported !== '') return reported;
  const configured = configFile === undefined ? undefined : await readConfiguredRegistry(configFile, signal);
  return (configured?.kind === 'read' && configured.sandboxImage) || undefined;
}

/** The root of containerd, where the blobs are. `info`: of CRI `Status`. */
export function reportedRoots(info: Readonly<Record<string, string>>): readonly string[] {
  const { containerdRootDir: root } = reportedConfig(info);
  return typeof root === 'string' && root !== '' ? [root] : [];
}

/** The configuration in the verbose answer of CRI `Status`. It is empty when it can't be read. */
export function reportedConfig({ config = '' }: Readonly<Record<string, string>>): TomlTable {
  try {
    const reported: unknown = JSON.parse(config);
    return isTable(reported) ? reported : {};
  } catch {
    return {};
  }
}
