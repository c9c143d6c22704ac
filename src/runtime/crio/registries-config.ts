import {
  type ConfigFault,
  type ConfigFile,
  isTable,
  parseToml,
  readConfigFile,
  type TomlTable,
  walkFiles,
} from '../config/config-file.ts';

/** The paths of containers-registries.conf(5), and our file in it. */
export interface RegistriesConfigPaths {
  /** `/etc/containers/registries.conf` */
  readonly configPath: string;
  /** `/etc/containers/registries.conf.d` */
  readonly configDirectory: string;
  /** Our link in that directory. */
  readonly linkPath: string;
}

/** A `[[registry.mirror]]` as configured. */
interface RegistryMirror {
  readonly location: string;
  readonly insecure: boolean;
  readonly pullFromMirror?: string;
}

/** A `[[registry]]` as configured. An empty `location` means the name itself. */
export interface RegistryEntry {
  readonly file: string;
  readonly prefix: string;
  readonly location: string;
  readonly insecure: boolean;
  readonly blocked: boolean;
  readonly mirrorByDigestOnly: boolean;
  readonly mirrors: readonly RegistryMirror[];
}

/** The registries configuration without our own file. */
export interface RegistriesConfig {
  /**
   * One for each prefix, sorted by prefix. The entry of a later file replaces an earlier one
   * completely (docs/runtime-facts.md, fact 12).
   */
  readonly entries: readonly RegistryEntry[];
  /** Entries in files after ours. They replace our entries with the same prefix. */
  readonly behindOurs: readonly RegistryEntry[];
  /** Files that containers/image can't parse. Then no image can be pulled. */
  readonly faults: readonly ConfigFault[];
}

/**
 * Reads registries.conf, then `*.conf` in the directory, in byte order. Our link and dangling links
 * are left out; dangling links are harmless (docs/runtime-facts.md, fact 12).
 */
export async function readRegistriesConfig(paths: RegistriesConfigPaths, signal: AbortSignal): Promise<ConfigFile[]> {
  const dropIns = await walkFiles(paths.configDirectory, { recursive: false });
  const wanted = dropIns.filter((path) => path.endsWith('.conf') && path !== paths.linkPath);
  const files: ConfigFile[] = [];
  for (const path of [paths.configPath, ...wanted]) {
    const file = await readConfigFile(path, signal);
    if (file !== undefined && !(file.kind === 'unreadable' && file.isDangling)) files.push(file);
  }
  return files;
}

/** The configuration that results from the files. Pure. */
export function mergeRegistries(
  files: readonly ConfigFile[],
  { configPath, linkPath }: RegistriesConfigPaths,
): RegistriesConfig {
  const faults: ConfigFault[] = [];
  const byPrefix = new Map<string, RegistryEntry>();
  const behindOurs: RegistryEntry[] = [];
  for (const file of files) {
    const found = entriesOf(file);
    if (found.kind === 'fault') {
      faults.push({ file: file.path, reason: found.reason });
      continue;
    }
    for (const entry of found.entries) byPrefix.set(entry.prefix, entry);
    const isBehind = file.path !== configPath && Buffer.compare(Buffer.from(file.path), Buffer.from(linkPath)) > 0;
    if (isBehind) behindOurs.push(...found.entries);
  }
  // With a drop-in such as ours, containers/image sorts by prefix. Of two equally long matches the
  // first wins.
  const entries = [...byPrefix.values()].sort((a, b) => Buffer.compare(Buffer.from(a.prefix), Buffer.from(b.prefix)));
  return { entries, behindOurs, faults };
}

/**
 * The entry that applies to a repository: the longest matching prefix as written, including
 * `*.example.com`. Of two equally long ones the first.
 */
export function entryFor(repository: string, entries: readonly RegistryEntry[]): RegistryEntry | undefined {
  let best: RegistryEntry | undefined;
  for (const entry of entries) {
    if (matchedLength(repository, entry.prefix) === 0) continue;
    if (best === undefined || entry.prefix.length > best.prefix.length) best = entry;
  }
  return best;
}

/**
 * The name of `repository` at a location of its entry: the matched part is replaced. An empty
 * location changes nothing.
 */
export function locate(repository: string, prefix: string, location: string): string {
  return location === '' ? repository : location + repository.slice(matchedLength(repository, prefix));
}

/** The number of leading characters of `repository` that match the prefix. 0 for no match. */
function matchedLength(repository: string, prefix: string): number {
  if (prefix.startsWith('*.')) {
    const suffix = prefix.slice(1);
    const start = repository.indexOf(suffix);
    const isSubdomain = start > 0 && !repository.slice(0, start).includes('/');
    return isSubdomain && covers(repository.slice(start), suffix) ? start + suffix.length : 0;
  }
  return covers(repository, prefix) ? prefix.length : 0;
}

function covers(repository: string, prefix: string): boolean {
  if (prefix === '' || !repository.startsWith(prefix)) return false;
  const next = repository[prefix.length];
  return next === undefined || next === '/' || next === ':';
}

type FoundEntries =
  | { readonly kind: 'entries'; readonly entries: readonly RegistryEntry[] }
  | { readonly kind: 'fault'; readonly reason: string };

function entriesOf(file: ConfigFile): FoundEntries {
  if (file.kind === 'unreadable') return { kind: 'fault', reason: file.reason };
  const parsed = parseToml(file.text);
  if (parsed.kind === 'fault') return parsed;
  const { registry = [] } = parsed.table;
  if (!Array.isArray(registry) || !registry.every(isTable))
    return { kind: 'fault', reason: 'registry must be [[registry]] tables' };
  return { kind: 'entries', entries: registry.map((table) => entryOf(table, file.path)) };
}

function entryOf(table: TomlTable, file: string): RegistryEntry {
  const location = textOf(table.location);
  const mirrors = Array.isArray(table.mirror) ? table.mirror.filter(isTable) : [];
  return {
    file,
    prefix: textOf(table.prefix) || location,
    location,
    insecure: table.insecure === true,
    blocked: table.blocked === true,
    mirrorByDigestOnly: table['mirror-by-digest-only'] === true,
    mirrors: mirrors.map((mirror) => ({
      location: textOf(mirror.location),
      insecure: mirror.insecure === true,
      ...(typeof mirror['pull-from-mirror'] === 'string' && { pullFromMirror: mirror['pull-from-mirror'] }),
    })),
  };
}

/** containers/image removes one slash at the end of a name. */
function textOf(value: unknown): string {
  return typeof value === 'string' ? value.replace(/\/$/, '') : '';
}
