/** A fully qualified image name: `registry/path` and a tag or a digest. */
export interface ImageName {
  /** `registry/path`. */
  readonly repository: string;
  readonly digest?: string;
  /** The whole name as storage keeps it, `repository:tag` or `repository@digest`. */
  readonly text: string;
}

const component = '[a-z0-9]+(?:(?:\\.|_|__|-+)[a-z0-9]+)*';
const host = '(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\\[[0-9a-fA-F:]+\\])(?::[0-9]+)?';
const grammar = new RegExp(
  `^(${host})/(${component}(?:/${component})*)(?::([A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?(?:@(sha256:[0-9a-f]{64}))?$`,
);

/**
 * Reads an image name as CRI-O takes it: a tag beside a digest is dropped, neither means `:latest`. The registry must be named: short names,
 * which CRI-O resolves through aliases and search registries, are refused.
 *
 * @throws Error in the words of the reference grammar or of the short-name resolution.
 */
export function parseImageName(input: string): ImageName {
  const match = grammar.exec(input);
  const [, registry = '', path = '', tag = 'latest', digest] = match ?? [];
  if (match === null && /^[a-z0-9._/-]+(?::[\w.-]+)?(?:@sha256:[0-9a-f]{64})?$/.test(input)) throw shortName(input);
  if (match === null) throw new Error(`invalid reference format: "${input}"`);
  if (!/[.:]|^localhost$/.test(registry)) throw shortName(input);
  const repository = `${registry}/${path}`;
  return digest === undefined
    ? { repository, text: `${repository}:${tag}` }
    : { repository, digest, text: `${repository}@${digest}` };
}

/** The `registry/path` of a stored name. */
export function repositoryOf(name: string): string {
  return name.split('@')[0]?.replace(/:[^:/]*$/, '') ?? name;
}

function shortName(input: string): Error {
  return new Error(
    `short-name "${input}" did not resolve to an alias and no unqualified-search registries are defined in "/etc/containers/registries.conf"`,
  );
}
