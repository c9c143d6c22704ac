import type { Contents, Payload } from '../model/bundle.ts';
import { repositoryOf } from '../model/reference.ts';
import { matchesGlob } from './glob.ts';

/** What the keys of one role may sign (`keys.d/<name>.toml`). */
export interface Role {
  /** The file's name without `.toml`; a payload that rotates keys names it. */
  readonly name: string;
  /** How many distinct keys of the role must have signed, at least 1. */
  readonly threshold: number;
  /** Globs over the names of streams: see {@link matchesGlob}. */
  readonly streams: readonly string[];
  /** Repositories with all that is below them: `registry.example.com/cust`. */
  readonly repositories: readonly string[];
  /** Whether its bundles may bring or revoke keys of this role. */
  readonly mayRotate: boolean;
  /** All ids of the keys that count in it now. Absent where they are not needed. */
  readonly keyIds?: readonly string[];
}

/** As the names of streams: such a name is safe in a path, a terminal and a database. */
const ROLE_NAME = /^[a-z0-9][a-z0-9-]{0,62}$/;

/** Whether a role may have this name: 1 to 63 lower-case letters, digits and hyphens. */
export function isRoleName(text: string): boolean {
  return ROLE_NAME.test(text);
}

/** As much of a bundle as the scope of a role is about. */
export interface ScopedBundle {
  readonly payload: Pick<Payload, 'name'>;
  readonly contents: Pick<Contents, 'images'>;
}

/** What of a bundle a role may not sign. */
export type OutsideScope =
  | { readonly kind: 'stream'; readonly stream: string }
  | { readonly kind: 'repository'; readonly stream: string; readonly repository: string };

/** Whether the keys of a role may sign for a stream. */
export function coversStream({ streams }: Pick<Role, 'streams'>, stream: string): boolean {
  return streams.some((pattern) => matchesGlob(pattern, stream));
}

/**
 * Whether a repository is one of the role's or below one, by whole parts of the path:
 * `registry.example.com/cust` covers `registry.example.com/cust/app` and not
 * `registry.example.com/customer`.
 */
export function coversRepository({ repositories }: Pick<Role, 'repositories'>, repository: string): boolean {
  return repositories.some((prefix) => repository === prefix || repository.startsWith(`${prefix}/`));
}

/**
 * The first thing of a bundle that is outside of the role: its stream, or the repository of an
 * image, of a tag or of what is attached to an image (which lies in the image's repository).
 *
 * @returns undefined when the role covers all of it
 */
export function outsideScope(role: Role, { payload, contents }: ScopedBundle): OutsideScope | undefined {
  const stream = payload.name;
  if (!coversStream(role, stream)) return { kind: 'stream', stream };
  for (const { reference, tags } of contents.images) {
    const repository = [reference, ...tags].map(repositoryOf).find((name) => !coversRepository(role, name));
    if (repository !== undefined) return { kind: 'repository', stream, repository };
  }
  return undefined;
}
