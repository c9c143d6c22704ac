import { parse } from 'toml';
import * as v from 'valibot';
import { parseReference } from '../../../domain/model/reference.ts';
import { isRoleName, type Role } from '../../../domain/trust/role.ts';
import { schemaFault } from '../../../platform/schema-fault.ts';
import { tomlFault } from '../../../platform/toml-fault.ts';
import { bundleError } from '../../bundle-error.ts';
import { limits } from '../../limits.ts';

/** The place of a role's key: a file of the folder, or the role's file itself. */
export type RoleKeySource =
  | { readonly kind: 'file'; readonly file: string }
  | { readonly kind: 'pem'; readonly pem: string };

/** The content of a role file. */
export interface RoleFile extends Role {
  /** At least one. */
  readonly keys: readonly RoleKeySource[];
}

const STREAM_PATTERN = /^[a-z0-9*?-]{1,63}$/;
/** A file of the folder: not a path, not hidden, and without a suffix that has another meaning. */
const KEY_FILE = /^[A-Za-z0-9_][A-Za-z0-9._-]{0,254}$/;
const OTHER_KINDS = /\.(pub|revoked|toml)$/i;
const PEM = /-----BEGIN/;

function atMost(most: number) {
  return v.maxLength<string[], number, string>(most, `must have at most ${most} entries`);
}

/** The file of a role in TOML. */
export const roleSchema = v.strictObject({
  threshold: v.pipe(
    v.number('must be a whole number from 1'),
    v.safeInteger('must be a whole number'),
    v.minValue(1, 'must be at least 1'),
    v.maxValue(limits.roleKeys, `must be at most ${limits.roleKeys}, since a role has no more keys`),
  ),
  streams: v.pipe(
    v.array(
      v.pipe(
        v.string('must be a text'),
        v.regex(STREAM_PATTERN, 'must be the name of a stream (a-z, 0-9, -), with * and ? as wildcards'),
      ),
      'must be a list of texts',
    ),
    v.minLength(1, 'must name at least one stream, as "customer-*"'),
    atMost(limits.rolePatterns),
  ),
  repositories: v.pipe(
    v.array(
      v.pipe(
        v.string('must be a text'),
        v.maxLength(limits.roleFileBytes),
        v.check(
          isRepositoryPrefix,
          'must be a registry, or a registry with a path, such as "registry.example.com/cust": host in lower case, no tag, no / at the end',
        ),
      ),
      'must be a list of texts',
    ),
    atMost(limits.rolePatterns),
  ),
  may_rotate: v.optional(v.boolean('must be true or false'), false),
  keys: v.pipe(
    v.array(
      v.pipe(
        v.string('must be a text'),
        v.maxLength(limits.roleFileBytes),
        v.check(
          (text) => PEM.test(text) || isKeyFileName(text),
          'must be the name of a file in this folder that does not end in .pub, .revoked or .toml, or a public key in PEM',
        ),
      ),
      'must be a list of texts',
    ),
    v.minLength(1, 'must name at least one key'),
    atMost(limits.roleKeys),
  ),
});

/**
 * Parses the file of a role (`keys.d/<name>.toml`). All members except `may_rotate` (default false)
 * are required, and others are refused: a misspelt limit must not be ignored.
 *
 * @param path for errors. @param name the file's name without `.toml`.
 * @throws AppError `bundle/role-file` (`reject`) that names the file and the member
 */
export function parseRoleFile(text: string, path: string, name: string): RoleFile {
  if (!isRoleName(name)) {
    throw roleError(path, 'its name is not valid for a role: use 1 to 63 of a-z, 0-9 and -, then .toml');
  }
  const result = v.safeParse(roleSchema, parseToml(text, path));
  if (!result.success) throw roleError(path, whyOf(result.issues[0]));
  const { threshold, streams, repositories, may_rotate: mayRotate, keys } = result.output;
  const sources = keys.map(
    (key): RoleKeySource => (PEM.test(key) ? { kind: 'pem', pem: key } : { kind: 'file', file: key }),
  );
  return { name, threshold, streams, repositories, mayRotate, keys: sources };
}

/** An error in the file of a role. `why`: a clause without full stop. */
export function roleError(path: string, why: string, cause?: unknown) {
  return bundleError('bundle/role-file', `role ${path}: ${why}; nothing is trusted by this file`, { cause });
}

function parseToml(text: string, path: string): unknown {
  try {
    return { ...(parse(text) as object) };
  } catch (cause) {
    throw roleError(path, `it is not TOML: ${tomlFault(cause).reason}`, cause);
  }
}

function whyOf(issue: v.BaseIssue<unknown>): string {
  const member = v.getDotPath(issue) ?? 'the file';
  if (issue.expected === 'never') return `${member} is not a key of a role file, check its spelling`;
  return `${member} ${schemaFault(issue, { object: 'a table' })}`;
}

function isKeyFileName(text: string): boolean {
  return KEY_FILE.test(text) && !isOfOtherKind(text);
}

/** Whether a file of the folder is a plain key, a list of revocations or a role. */
export function isOfOtherKind(file: string): boolean {
  return OTHER_KINDS.test(file);
}

/** Canonical, like all references of bundles: any other form would never match. */
function isRepositoryPrefix(text: string): boolean {
  const below = `${text}/x/y`;
  try {
    const { repository, tag, digest } = parseReference(below);
    return repository === below && tag === undefined && digest === undefined;
  } catch {
    return false;
  }
}
