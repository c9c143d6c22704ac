import { mirrorPathOf } from '../../domain/model/reference.ts';
import {
  type ConfigFault,
  type ConfigFile,
  isTable,
  parseToml,
  readConfigFile,
  type TomlTable,
  walkFiles,
} from '../config/config-file.ts';
import { type MirrorAddress, tomlString } from '../config/toml-text.ts';
import { isRepositoryName, listOf, registriesFault, tablesIn, textOf, withLowerKeys } from './registries-fault.ts';

interface RegistriesConfigPaths {
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
interface RegistryEntry {
  readonly file: string;
  readonly prefix: string;
  readonly location: string;
  readonly insecure: boolean;
  readonly blocked: boolean;
  readonly mirrorByDigestOnly: boolean;
  readonly mirrors: readonly RegistryMirror[];
}

interface RegistriesConfig {
  /**
   * One entry for each prefix, sorted by prefix. The entry of a later file replaces an earlier one
   * completely (docs/runtime-facts.md, fact 12).
   */
  readonly entries: readonly RegistryEntry[];
  /** Entries in files after ours. They replace our entries with the same prefix. */
  readonly behindOurs: readonly RegistryEntry[];
  /** Files that containers/image can't parse. If there is one, no image can be pulled. */
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

export function mergeRegistries(
  files: readonly ConfigFile[],
  { configPath, linkPath }: RegistriesConfigPaths,
): RegistriesConfig {
  const faults: ConfigFault[] = [];
  const byPrefix = new Map<string, RegistryEntry>();
  const behindOurs: RegistryEntry[] = [];
  for (const file of files) {
    const found = entriesOf(file, file.path === configPath);
    if (found.kind === 'fault') {
      faults.push({ file: file.path, reason: found.reason });
      continue;
    }
    for (const entry of found.entries) byPrefix.set(entry.prefix, entry);
    const isBehind = file.path !== configPath && Buffer.compare(Buffer.from(file.path), Buffer.from(linkPath)) > 0;
    if (isBehind) behindOurs.push(...found.entries);
  }
  // If there is a drop-in such as ours, containers/image sorts by prefix. The first of two equally
  // long matches wins.
  const entries = [...byPrefix.values()].sort((a, b) => Buffer.compare(Buffer.from(a.prefix), Buffer.from(b.prefix)));
  return { entries, behindOurs, faults };
}

/**
 * The entry that applies to a repository: the longest matching prefix as written, including
 * `*.example.com`. The first of two equally long prefixes wins.
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

function entriesOf(file: ConfigFile, isMain: boolean): FoundEntries {
  if (file.kind === 'unreadable') return { kind: 'fault', reason: file.reason };
  const parsed = parseToml(file.text);
  if (parsed.kind === 'fault') return parsed;
  const table = withLowerKeys(parsed.table);
  const reason = registriesFault(table, isMain);
  if (reason !== undefined) return { kind: 'fault', reason };
  const [insecure, block] = [listOf(table, 'insecure') ?? [], listOf(table, 'block') ?? []];
  const old = entriesOfVersionOne({ insecure, block }, file.path);
  return { kind: 'entries', entries: [...old, ...tablesIn(table.registry).map((one) => entryOf(one, file.path))] };
}

interface VersionOne {
  readonly insecure: readonly string[];
  readonly block: readonly string[];
}

function entriesOfVersionOne({ insecure, block }: VersionOne, file: string): RegistryEntry[] {
  const [insecureNames, blockedNames] = [new Set(insecure), new Set(block)];
  return [...new Set([...block, ...insecure])].map((name) => ({
    file,
    prefix: name,
    location: name,
    insecure: insecureNames.has(name),
    blocked: blockedNames.has(name),
    mirrorByDigestOnly: false,
    mirrors: [],
  }));
}

function entryOf(table: TomlTable, file: string): RegistryEntry {
  const location = textOf(table.location);
  const mirrors = tablesIn(table.mirror);
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

const HEADER = `# Written by stickpin for the images of bundles, and emptied with them. Don't edit.
# Each repository is looked for in stickpin's own registry first; what was configured for it before is kept behind that.
`;

/**
 * The text of our registries drop-in (containers-registries.conf(5); docs/runtime-facts.md, fact
 * 12): one `[[registry]]` for each repository, which is the most specific prefix. It replaces the
 * entry that applied before, so location, flags and mirrors of that entry are copied, with names
 * resolved for this repository.
 */
export function renderRegistriesDropIn(
  repositories: readonly string[],
  address: MirrorAddress,
  configured: readonly RegistryEntry[],
): string {
  const blocks = [...new Set(repositories)].sort().map((repository) => block(repository, address, configured));
  return blocks.length === 0 ? HEADER : `${HEADER}\n${blocks.join('\n')}`;
}

/**
 * The repositories that the text mirrors to `address`, sorted. One with another address (of an
 * earlier run) is listed by that location, so that it never counts as current. Returns undefined
 * when the text is not TOML.
 */
export function parseRegistriesDropIn(text: string, address: MirrorAddress): string[] | undefined {
  return registriesIn(text)
    ?.map(({ prefix, mirror }) => {
      const first = textOf(tablesIn(mirror)[0]?.location);
      return first === ourLocation(textOf(prefix), address) ? textOf(prefix) : first;
    })
    .sort();
}

/** The repositories that the text mirrors to any address. Text that is not TOML has none. */
export function mirroredRepositories(text: string): readonly string[] {
  return (registriesIn(text) ?? []).map(({ prefix }) => textOf(prefix));
}

function registriesIn(text: string): readonly TomlTable[] | undefined {
  const parsed = parseToml(text);
  if (parsed.kind === 'fault') return undefined;
  const { registry = [] } = parsed.table;
  return Array.isArray(registry) ? registry.filter(isTable) : undefined;
}

function block(repository: string, address: MirrorAddress, configured: readonly RegistryEntry[]): string {
  const entry = entryFor(repository, configured);
  const lines = [
    ...(entry === undefined ? [] : [`# behind our mirror: as configured in ${tomlString(entry.file)}`]),
    '[[registry]]',
    `prefix = ${tomlString(repository)}`,
    ...placeOf(repository, entry),
    '',
    '[[registry.mirror]]',
    `location = ${tomlString(ourLocation(repository, address))}`,
    'insecure = true',
    ...(entry === undefined ? [] : entry.mirrors.flatMap((mirror) => keptMirror(repository, entry, mirror))),
  ];
  return `${lines.join('\n')}\n`;
}

/** The location that the runtime tries last. */
function placeOf(repository: string, entry: RegistryEntry | undefined): string[] {
  if (entry === undefined) return [`location = ${tomlString(repository)}`];
  const location = locate(repository, entry.prefix, entry.location);
  // One invalid location makes containers/image fail the whole pull, also from our mirror.
  if (!isRepositoryName(location)) {
    return [
      `# ${tomlString(location)} is a name that no image can have, so that nothing came from there before either`,
      `location = ${tomlString(repository)}`,
      'blocked = true',
    ];
  }
  return [
    `location = ${tomlString(location)}`,
    ...(entry.insecure ? ['insecure = true'] : []),
    ...(entry.blocked ? ['blocked = true'] : []),
  ];
}

function keptMirror(repository: string, entry: RegistryEntry, mirror: RegistryEntry['mirrors'][number]): string[] {
  // mirror-by-digest-only would apply to our mirror too, which must serve tags. digest-only on each
  // other mirror has the same effect.
  const pullFrom = entry.mirrorByDigestOnly ? 'digest-only' : mirror.pullFromMirror;
  const location = locate(repository, entry.prefix, mirror.location);
  if (!isRepositoryName(location)) return [];
  return [
    '',
    '[[registry.mirror]]',
    `location = ${tomlString(location)}`,
    ...(mirror.insecure ? ['insecure = true'] : []),
    ...(pullFrom === undefined ? [] : [`pull-from-mirror = ${tomlString(pullFrom)}`]),
  ];
}

function ourLocation(repository: string, { authority, token }: MirrorAddress): string {
  return `${authority}/${token}/${mirrorPathOf(repository)}`;
}
