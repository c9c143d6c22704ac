import { AppError } from '../../platform/app-error.ts';
import { defined } from '../../platform/defined.ts';
import { clip } from '../../platform/plain-text.ts';
import { type Digest, isDigest } from './digest.ts';

/** Follows the grammar of distribution/reference: `registry/path[:tag][@digest]`. */
export interface Reference {
  /** Host and port in lower case: `quay.io`, `127.0.0.1:5000`. */
  readonly registry: string;
  /** `registry/path` without tag or digest: `quay.io/coreos/etcd`. */
  readonly repository: string;
  readonly tag?: string;
  readonly digest?: Digest;
}

const MAX_REPOSITORY_BYTES = 255;
/** In messages; all of a valid reference is shorter. */
const MAX_SHOWN = 500;
const HOST =
  /^(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)*|\[[0-9a-fA-F:]+\])(?::[0-9]{1,5})?$/;
const PATH_PART = /^[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*$/;
const TAG = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/;

/**
 * `docker.io/etcd` becomes `docker.io/library/etcd`, since every runtime stores that name.
 * `QUAY.io/etcd` becomes `quay.io/etcd`: host names ignore the case.
 *
 * @throws AppError `domain/reference` (`reject`) that names the wrong part
 */
export function parseReference(text: string): Reference {
  const [named = '', digest, ...more] = text.split('@');
  if (more.length > 0 || (digest !== undefined && !isDigest(digest)))
    throw malformed(text, 'behind @ there must be one sha256:<64 lower-case hex digits>');
  const slash = named.indexOf('/');
  const registry = named.slice(0, Math.max(slash, 0));
  if (!isQualified(registry)) throw malformed(text, 'it must begin with a registry, as in quay.io/coreos/etcd');
  const colon = named.indexOf(':', slash);
  const path = colon < 0 ? named.slice(slash + 1) : named.slice(slash + 1, colon);
  const tag = colon < 0 ? undefined : named.slice(colon + 1);
  if (tag !== undefined && !TAG.test(tag)) throw malformed(text, `'${clip(tag, MAX_SHOWN)}' is not a tag`);
  const bad = path.split('/').find((part) => !PATH_PART.test(part));
  if (bad !== undefined)
    throw malformed(text, `'${clip(bad, MAX_SHOWN)}' can't be part of a repository's path (lower case, digits, . _ -)`);
  const repository = canonicalRepository(registry, path);
  if (repository.length > MAX_REPOSITORY_BYTES)
    throw malformed(text, `its name is longer than ${MAX_REPOSITORY_BYTES} bytes`);
  return defined({ registry: repository.slice(0, repository.indexOf('/')), repository, tag, digest });
}

/** CRI-O has `unqualified-search-registries` for this (containers-registries.conf(5)). */
export function withRegistry(text: string, registry: string): string {
  const first = text.slice(0, Math.max(text.indexOf('/'), 0));
  return text === '' || isQualified(first) ? text : `${registry}/${text}`;
}

/** Whether the text is a registry, such as `quay.io` or `127.0.0.1:5000`. */
export function isRegistry(text: string): boolean {
  return isQualified(text);
}

export function formatReference(reference: Omit<Reference, 'registry'>): string {
  const tag = reference.tag === undefined ? '' : `:${reference.tag}`;
  const digest = reference.digest === undefined ? '' : `@${reference.digest}`;
  return `${reference.repository}${tag}${digest}`;
}

export function isTag(text: string): boolean {
  return TAG.test(text);
}

export function isCanonicalReference(text: string): boolean {
  try {
    return formatReference(parseReference(text)) === text;
  } catch {
    return false;
  }
}

/** Runtimes keep `Quay.io/etcd` as another name than `quay.io/etcd`. */
export function hasUpperCaseHost(text: string): boolean {
  return /[A-Z]/.test(text.slice(0, Math.max(0, text.indexOf('/'))));
}

/** Returns `quay.io/coreos/etcd` for `quay.io/coreos/etcd:3.5@sha256:…`. Never throws. */
export function repositoryOf(reference: string): string {
  const [named = ''] = reference.split('@');
  const colon = named.indexOf(':', named.lastIndexOf('/') + 1);
  return colon < 0 ? named : named.slice(0, colon);
}

/** Returns `etcd` for `quay.io/coreos/etcd`. */
export function lastPathPart(repository: string): string {
  return repository.slice(repository.lastIndexOf('/') + 1);
}

function isQualified(registry: string): boolean {
  return HOST.test(registry) && (/[.:]/.test(registry) || registry === 'localhost');
}

function canonicalRepository(registry: string, path: string): string {
  const name = registry.toLowerCase();
  const host = name === 'index.docker.io' ? 'docker.io' : name;
  return host === 'docker.io' && !path.includes('/') ? `docker.io/library/${path}` : `${host}/${path}`;
}

function malformed(text: string, why: string): AppError<'domain/reference'> {
  return new AppError({
    code: 'domain/reference',
    message: `image reference '${clip(text, MAX_SHOWN)}' is not fully qualified or malformed: ${why}`,
    disposition: 'reject',
  });
}

/**
 * `localhost:5000/app` becomes `localhost__5000/app`, and `[fd00::1]:5000/app` becomes
 * `fd00_z_1__5000/app`. A host name has no underscore, so two repositories never share a path.
 */
export function mirrorPathOf(repository: string): string {
  const slash = repository.indexOf('/');
  if (slash < 0) return repository;
  const registry = repository.slice(0, slash).toLowerCase();
  const [, groups, port = ''] = /^\[(.*)\](.*)$/.exec(registry) ?? [];
  const host = groups?.split(':').map((group) => group || 'z');
  const name = host === undefined ? registry : `${host.join('_')}${port}`;
  return name.replace(':', '__') + repository.slice(slash);
}
