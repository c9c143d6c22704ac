import { clip, plainText } from '../../platform/plain-text.ts';
import { bundleError } from '../bundle-error.ts';
import { limits } from '../limits.ts';

/** The members of a document. `lists` are those whose entries have members of their own. */
export interface KnownMembers {
  readonly entries: Readonly<Record<string, { readonly type: string }>>;
  readonly lists?: Readonly<Record<string, KnownMembers>>;
}

/**
 * Takes members that this stickpin does not know out of `value`, so that it reads bundles of later
 * versions. Without the list `critical` it takes none: the schema then refuses them, as it does
 * inside of any other member, for example `update` and `trust`.
 *
 * @param path what precedes a name: nothing, or `contents.`
 * @returns the paths taken, each once, such as `contents.images.licence`
 * @throws AppError `bundle/schema-version` for one that `critical` names, or for too many
 */
export function takeUnknown(value: unknown, known: KnownMembers, critical: unknown, path = ''): readonly string[] {
  if (!Array.isArray(critical)) return [];
  const taken = new Set<string>();
  takeFrom(value, known, new Set(critical), path, taken);
  return [...taken];
}

/** Returns the paths of the optional members of `value`. Nodes know all others. */
export function optionalMembers(value: object, { entries, lists = {} }: KnownMembers, path = ''): readonly string[] {
  const found = new Set<string>();
  for (const [name, member] of Object.entries(value)) {
    if (entries[name]?.type.endsWith('optional') === true) found.add(`${path}${name}`);
    const inner = lists[name];
    for (const one of inner === undefined ? [] : (member as readonly object[])) {
      for (const below of optionalMembers(one, inner as KnownMembers, `${path}${name}.`)) found.add(below);
    }
  }
  return [...found];
}

function takeFrom(
  value: unknown,
  { entries, lists = {} }: KnownMembers,
  critical: ReadonlySet<unknown>,
  path: string,
  taken: Set<string>,
): void {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return;
  const members = value as Record<string, unknown>;
  for (const name of Object.keys(members)) {
    if (Object.hasOwn(entries, name)) continue;
    const member = clip(plainText(`${path}${name}`), limits.nameBytes);
    if (critical.has(`${path}${name}`)) throw tooNew(`member ${JSON.stringify(member)}, which must not be ignored`);
    taken.add(member);
    if (taken.size > limits.payloadItems) throw tooNew(`more than ${limits.payloadItems} of its members`);
    delete members[name];
  }
  for (const [name, inner] of Object.entries(lists)) {
    const list = members[name];
    if (Array.isArray(list)) for (const one of list) takeFrom(one, inner, critical, `${path}${name}.`, taken);
  }
}

export function tooNew(what: string) {
  return bundleError(
    'bundle/schema-version',
    `made for a newer stickpin: this one does not know ${what}; update stickpin`,
  );
}
