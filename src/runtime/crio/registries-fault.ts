import { isCanonicalReference } from '../../domain/model/reference.ts';
import { isTable, type TomlTable } from '../config/config-file.ts';
import { tomlString } from '../config/toml-text.ts';

/**
 * Why containers/image refuses a whole file of registries.conf, and with it each pull. Returns
 * undefined when it takes the file. Each rule was tested with skopeo 1.18
 * (`test/integration/runtime/registries-skopeo.test.ts`).
 * @param table with keys by {@link withLowerKeys}
 */
export function registriesFault(table: TomlTable, isMain: boolean): string | undefined {
  return (
    typeFault(table, ROOT) ??
    versionFault(table, isMain) ??
    first(searchOf(table), searchFault) ??
    first(tablesIn(table.registry), registryFault) ??
    conflict(tablesIn(table.registry)) ??
    first(blockedNames(table), (name) =>
      name === '' ? 'a list of [registries.…] has an empty name' : placeFault(name),
    ) ??
    shortNameFault(table)
  );
}

/** The TOML library of containers/image ignores case. The keys of `aliases` are names. */
export function withLowerKeys(table: TomlTable): TomlTable {
  const folded = (value: unknown, key: string): unknown => {
    if (key === 'aliases') return value;
    if (Array.isArray(value)) return value.map((element) => folded(element, ''));
    return isTable(value) ? withLowerKeys(value) : value;
  };
  const members = Object.entries(table).map(([key, value]) => [key.toLowerCase(), value] as const);
  return Object.fromEntries(members.map(([key, value]) => [key, folded(value, key)]));
}

type Kind = 'a text' | 'true or false' | 'a list of texts' | 'a table' | 'a list of tables';
type Kinds = Readonly<Record<string, Kind>>;

const MIRROR: Kinds = { location: 'a text', insecure: 'true or false', 'pull-from-mirror': 'a text' };
const REGISTRY: Kinds = {
  ...MIRROR,
  prefix: 'a text',
  blocked: 'true or false',
  'mirror-by-digest-only': 'true or false',
  mirror: 'a list of tables',
};
const ROOT: Kinds = {
  registry: 'a list of tables',
  'unqualified-search-registries': 'a list of texts',
  'credential-helpers': 'a list of texts',
  'short-name-mode': 'a text',
  'additional-layer-store-auth-helper': 'a text',
  registries: 'a table',
};
/** Lists of version 1. */
const LISTS = ['search', 'insecure', 'block'] as const;

function isOf(kind: Kind, value: unknown): boolean {
  switch (kind) {
    case 'a text':
      return typeof value === 'string';
    case 'true or false':
      return typeof value === 'boolean';
    case 'a table':
      return isTable(value);
    case 'a list of texts':
      return Array.isArray(value) && value.every((one) => typeof one === 'string');
    case 'a list of tables':
      return Array.isArray(value) && value.every(isTable);
  }
}

function typeFault(table: TomlTable, kinds: Kinds): string | undefined {
  const wrong = Object.entries(kinds).find(([key, kind]) => Object.hasOwn(table, key) && !isOf(kind, table[key]));
  if (wrong !== undefined) return `${wrong[0]} must be ${wrong[1]}`;
  const { registry, mirror, registries } = table;
  return (
    first(tablesIn(registry), (one) => typeFault(one, REGISTRY)) ??
    first(tablesIn(mirror), (one) => typeFault(one, MIRROR)) ??
    (isTable(registries) ? listsFault(registries) : undefined)
  );
}

function listsFault(registries: TomlTable): string | undefined {
  return first(LISTS, (name) => {
    const list = registries[name];
    if (list === undefined) return undefined;
    return isTable(list)
      ? typeFault(list, { registries: 'a list of texts' })?.replace('registries', `registries.${name}.registries`)
      : `registries.${name} must be a table`;
  });
}

/** Version 1 is allowed in registries.conf only, and not beside version 2. An empty list counts. */
function versionFault(table: TomlTable, isMain: boolean): string | undefined {
  if (!LISTS.some((name) => listOf(table, name) !== undefined)) return undefined;
  if (!isMain) return '[registries.…] lists are allowed in registries.conf only';
  const hasNew = tablesIn(table.registry).length > 0 || table['unqualified-search-registries'] !== undefined;
  return hasNew ? '[registries.…] lists and the settings of version 2 must not be mixed' : undefined;
}

/** Returns undefined when it is not set. */
export function listOf({ registries }: TomlTable, name: (typeof LISTS)[number]): readonly string[] | undefined {
  const list = isTable(registries) ? registries[name] : undefined;
  return isTable(list) && Array.isArray(list.registries) ? list.registries.map(textOf) : undefined;
}

function searchOf(table: TomlTable): readonly string[] {
  const { 'unqualified-search-registries': search = [] } = table;
  return [...(listOf(table, 'search') ?? []), ...(Array.isArray(search) ? search.map(textOf) : [])];
}

function blockedNames(table: TomlTable): readonly string[] {
  return [...(listOf(table, 'insecure') ?? []), ...(listOf(table, 'block') ?? [])];
}

/** containers/image removes slashes at the end of a name. */
export function textOf(value: unknown): string {
  return typeof value === 'string' ? value.replace(/\/+$/, '') : '';
}

const HOST = /^(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*|\[[0-9a-f:]+\])(?::\d+)?$/i;

function searchFault(name: string): string | undefined {
  const fault = placeFault(name);
  if (fault !== undefined || HOST.test(name)) return fault;
  return `unqualified-search-registries has ${tomlString(name)}, which is no host`;
}

function placeFault(place: string): string | undefined {
  return /^https?:\/\//.test(place) ? `${tomlString(place)} must be without http:// or https://` : undefined;
}

const PULL_FROM_MIRROR: ReadonlySet<unknown> = new Set(['', 'all', 'digest-only', 'tag-only']);

function registryFault(registry: TomlTable): string | undefined {
  const location = textOf(registry.location);
  const prefix = textOf(registry.prefix) || location;
  const name = tomlString(prefix);
  const mirrors = tablesIn(registry.mirror);
  if (prefix.startsWith('*.') && /[/:@]/.test(prefix)) return `the prefix ${name} must have the form *.example.com`;
  if (location === '' && !prefix.startsWith('*.')) return `the [[registry]] ${name} has no location`;
  const fault = first([prefix, location, ...mirrors.map((mirror) => textOf(mirror.location))], placeFault);
  if (fault !== undefined) return fault;
  if (mirrors.some((mirror) => textOf(mirror.location) === '')) return `a mirror of ${name} has no location`;
  const uses = mirrors.flatMap(({ 'pull-from-mirror': use }) => (use === undefined || use === '' ? [] : [use]));
  if (uses.length > 0 && registry['mirror-by-digest-only'] === true)
    return `${name} has mirror-by-digest-only, and a mirror of it has pull-from-mirror`;
  const unknown = uses.find((use) => !PULL_FROM_MIRROR.has(use));
  return unknown === undefined
    ? undefined
    : `a mirror of ${name} has the unknown pull-from-mirror ${tomlString(String(unknown))}`;
}

/** Two entries of a file with one location must agree. */
function conflict(registries: readonly TomlTable[]): string | undefined {
  const seen = new Map<string, TomlTable>();
  for (const registry of registries) {
    const place = textOf(registry.location) || textOf(registry.prefix);
    const before = seen.get(place) ?? registry;
    seen.set(place, before);
    const flag = ['insecure', 'blocked'].find((name) => (before[name] ?? false) !== (registry[name] ?? false));
    if (flag !== undefined) return `two [[registry]] with the location ${tomlString(place)} differ in ${flag}`;
  }
  return undefined;
}

const SHORT_NAME_MODES: ReadonlySet<unknown> = new Set([undefined, '', 'disabled', 'enforcing', 'permissive']);

function shortNameFault({ 'short-name-mode': mode, aliases }: TomlTable): string | undefined {
  if (!SHORT_NAME_MODES.has(mode)) return `short-name-mode is ${tomlString(String(mode))}, which is unknown`;
  if (!isTable(aliases)) return undefined;
  return first(Object.entries(aliases), ([name, target]) => {
    if (typeof target !== 'string') return `the alias ${tomlString(name)} must be a text`;
    if (!isShortName(name)) return `the alias ${tomlString(name)} must be a name without registry, tag and digest`;
    if (target === '' || isRepositoryName(target)) return undefined;
    return `the alias ${tomlString(name)} names ${tomlString(target)}, which is no repository with its registry`;
  });
}

function isShortName(name: string): boolean {
  const [host = '', ...path] = name.split('/');
  const hasHost = path.length > 0 && (/[.:]/.test(host) || host === 'localhost');
  return !hasHost && isCanonicalReference(`short.example.com/${name}:tag`) && !/[:@]/.test(name);
}

/** A host may be written in upper or lower case. */
export function isRepositoryName(name: string): boolean {
  const slash = name.indexOf('/');
  return slash > 0 && isCanonicalReference(`${name.slice(0, slash).toLowerCase()}${name.slice(slash)}:tag`);
}

export function tablesIn(value: unknown): readonly TomlTable[] {
  return Array.isArray(value) ? value.filter(isTable) : [];
}

function first<T, R>(values: readonly T[], of: (value: T) => R | undefined): R | undefined {
  for (const value of values) {
    const found = of(value);
    if (found !== undefined) return found;
  }
  return undefined;
}
