import { isCanonicalReference, mirrorPathOf } from '../../domain/model/reference.ts';
import { isTable, parseToml, type TomlTable } from '../config/config-file.ts';
import type { MirrorAddress } from '../config/mirror-address.ts';
import { tomlString } from '../config/toml-text.ts';
import { entryFor, locate, type RegistryEntry } from './registries-config.ts';

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
 * earlier run) is listed by that location, so that it never counts as current. Undefined when the
 * text is not TOML.
 */
export function parseRegistriesDropIn(text: string, address: MirrorAddress): string[] | undefined {
  return registriesIn(text)
    ?.map(({ prefix, mirror }) => {
      const first = Array.isArray(mirror) && isTable(mirror[0]) ? String(mirror[0].location) : '';
      return first === ourLocation(String(prefix), address) ? String(prefix) : first;
    })
    .sort();
}

/** The repositories that the text mirrors, wherever to. None when it is not TOML. */
export function mirroredRepositories(text: string): readonly string[] {
  return (registriesIn(text) ?? []).map(({ prefix }) => String(prefix));
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
  if (!isRepository(location)) {
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

/**
 * Whether it is a valid repository name. With one invalid location containers/image fails the whole
 * pull, also from our mirror.
 */
function isRepository(name: string): boolean {
  const slash = name.indexOf('/');
  // A host may be written in upper or lower case.
  return slash > 0 && isCanonicalReference(`${name.slice(0, slash).toLowerCase()}${name.slice(slash)}:tag`);
}

function keptMirror(repository: string, entry: RegistryEntry, mirror: RegistryEntry['mirrors'][number]): string[] {
  // mirror-by-digest-only would apply to our mirror too, which must serve tags. digest-only on each
  // other mirror has the same effect.
  const pullFrom = entry.mirrorByDigestOnly ? 'digest-only' : mirror.pullFromMirror;
  const location = locate(repository, entry.prefix, mirror.location);
  if (!isRepository(location)) return [];
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
