import { assertNever } from '../../platform/app-error.ts';
import { hasFilesAlone, type Image, type Payload, type VerifiedBundle } from '../model/bundle.ts';
import { repositoryOf } from '../model/reference.ts';
import { hasRotation, type Revocations } from './approval.ts';

/** Limits what the keys of one role may sign (`keys.d/<name>.toml`). */
export interface Role {
  /** The file's name without `.toml`. A payload that rotates keys names it. */
  readonly name: string;
  /** How many distinct keys of the role must have signed, at least 1. */
  readonly threshold: number;
  /** Globs over the names of streams (see {@link matchesGlob}). */
  readonly streams: readonly string[];
  /** Repositories, including all below them: `registry.example.com/cust`. */
  readonly repositories: readonly string[];
  /** Its bundles may bring or revoke keys of this role. */
  readonly mayRotate: boolean;
  /** Its bundles may say `keep: life`. */
  readonly mayKeepForLife: boolean;
  /** How much disk its releases may take, in bytes. Absent: any. */
  readonly maxBytes?: number;
  /** All ids of the keys that count in it now. Absent when they are not needed. */
  readonly keyIds?: readonly string[];
}

/** Role names follow stream names, so they are safe in a path, a terminal and a database. */
const ROLE_NAME = /^[a-z0-9][a-z0-9-]{0,62}$/;

export function isRoleName(text: string): boolean {
  return ROLE_NAME.test(text);
}

interface ScopedBundle {
  readonly payload: Pick<Payload, 'name'> & Partial<Pick<Payload, 'attachments' | 'advisories' | 'trust'>>;
  readonly contents: { readonly [Kind in 'images' | 'artifacts']?: readonly Pick<Image, 'reference' | 'tags'>[] };
}

export type OutsideScope =
  | { readonly kind: 'stream'; readonly stream: string }
  | { readonly kind: 'repository'; readonly stream: string; readonly repository: string };

export function coversStream({ streams }: Role, stream: string): boolean {
  return streams.some((pattern) => matchesGlob(pattern, stream));
}

/** Compares whole parts: `registry.example.com/cust` excludes `registry.example.com/customer`. */
export function coversRepository({ repositories }: Pick<Role, 'repositories'>, repository: string): boolean {
  return repositories.some((prefix) => repository === prefix || repository.startsWith(`${prefix}/`));
}

/** Content attached to an image has the image's repository. */
export function outsideScope(role: Role, { payload, contents }: ScopedBundle): OutsideScope | undefined {
  const stream = payload.name;
  if (!coversStream(role, stream)) return { kind: 'stream', stream };
  // A role without repositories may sign notices, and no release.
  const isWithoutImages = contents.images === undefined || contents.images.length === 0;
  if (isWithoutImages && hasFilesAlone(payload) && role.repositories.length === 0)
    return { kind: 'repository', stream, repository: 'attached files' };
  for (const { reference, tags } of [...(contents.images ?? []), ...(contents.artifacts ?? [])]) {
    const repository = [reference, ...tags].map(repositoryOf).find((name) => !coversRepository(role, name));
    if (repository !== undefined) return { kind: 'repository', stream, repository };
  }
  return undefined;
}

/** `*` matches any characters, also none, and `?` one. Takes at most pattern times text steps. */
export function matchesGlob(pattern: string, text: string): boolean {
  let at = 0;
  let next = 0;
  /** The last `*`, and the end of the text that it matches. */
  let star: { readonly pattern: number; text: number } | undefined;
  while (next < text.length) {
    if (pattern[at] === '*') {
      star = { pattern: at, text: next };
      at += 1;
    } else if (pattern[at] === text[next] || pattern[at] === '?') {
      at += 1;
      next += 1;
    } else if (star !== undefined) {
      star.text += 1;
      at = star.pattern + 1;
      next = star.text;
    } else return false;
  }
  return /^\**$/.test(pattern.slice(at));
}

type Authority = { readonly kind: 'plain' } | { readonly kind: 'role'; readonly role: Role };

export interface SignatureRules {
  /** How many distinct plain keys must have signed (`trust.threshold`), at least 1. */
  readonly threshold: number;
  /** Roles in force, each name once. */
  readonly roles?: readonly Role[];
  readonly revocations: Revocations;
}

export interface SignedBundle extends ScopedBundle, Pick<VerifiedBundle, 'signedBy' | 'signerKeyIds' | 'signerRoles'> {
  readonly payload: Pick<Payload, 'name' | 'version' | 'trust'>;
}

/**
 * Returns the plain keys if enough of them signed it, and each role with enough signatures that
 * covers its stream and all of its repositories. Signatures of different roles, or of a role and
 * plain keys, don't add up. Revoked keys don't count. While revocations can't be read no key
 * counts.
 */
export function authoritiesOf(bundle: SignedBundle, rules: SignatureRules): readonly Authority[] {
  const { revocations, roles = [], threshold } = rules;
  if (revocations.revocationsUnreadable) return [];
  const plain = plainSigners(bundle).filter((keyId) => !revocations.keyIds.includes(keyId));
  return [
    ...(plain.length >= threshold ? [{ kind: 'plain' } as const] : []),
    ...roles
      .filter((role) => signersLeftIn(role, bundle, revocations).length >= role.threshold)
      .filter((role) => outsideScope(role, bundle) === undefined)
      .map((role) => ({ kind: 'role', role }) as const),
  ];
}

/** Returns the ids of the keys that sign for no role. */
export function plainSigners({ signerKeyIds, signerRoles = [] }: SignedBundle): readonly string[] {
  return signerKeyIds.filter((signer) => signerRoles.every(({ keyId }) => keyId !== signer));
}

/**
 * Returns the names of the roles that brought a release. Empty for a release of plain keys, and for
 * one that a person approved and no key of a role signed.
 */
export function ownerRoles(bundle: SignedBundle, threshold: number): readonly string[] {
  const roles = [...new Set(bundle.signerRoles?.map(({ role }) => role))].sort();
  return plainSigners(bundle).length >= threshold ? [] : roles;
}

export function signersLeftIn(
  { name }: Role,
  { signerRoles = [] }: SignedBundle,
  { inRoles }: Revocations,
): readonly string[] {
  const revoked = inRoles?.get(name) ?? [];
  return signerRoles.flatMap(({ keyId, role }) => (role === name && !revoked.includes(keyId) ? [keyId] : []));
}

/**
 * Bundle format, `trust`. Without `trust.role` a payload rotates plain keys, and plain keys have to
 * trust it. With `trust.role` it rotates keys of that role only, that role has to trust it, and the
 * role must allow it (`may_rotate`).
 */
export function allowsRotation({ payload }: SignedBundle, by: readonly Authority[]): boolean {
  const named = payload.trust?.role;
  return by.some((authority) => {
    switch (authority.kind) {
      case 'plain':
        return named === undefined;
      case 'role':
        return authority.role.name === named && authority.role.mayRotate;
      default:
        return assertNever(authority);
    }
  });
}

/**
 * Bundle format, `trust`: "takes effect when the envelope meets the present threshold", of the
 * plain keys or of the role that the payload names. A bundle that is trusted because its digest was
 * approved changes no key.
 */
export function rotatesKeys(bundle: SignedBundle, rules: SignatureRules): boolean {
  return hasRotation(bundle.payload) && allowsRotation(bundle, authoritiesOf(bundle, rules));
}
