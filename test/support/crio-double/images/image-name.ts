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
const shortGrammar = new RegExp(`^${component}(?:/${component})*(?::[\\w.-]+)?(?:@sha256:[0-9a-f]{64})?$`);

/**
 * Reads an image name as CRI-O takes it: a tag beside a digest is dropped, neither means `:latest`.
 * The registry must be named: short names, which CRI-O resolves through aliases and search
 * registries, are refused.
 *
 * @param registriesFile what the message about a short name names as the place of the search
 *   registries.
 * @throws Error in the words of the reference grammar or of the short-name resolution.
 */
export function parseImageName(input: string, registriesFile: string): ImageName {
  const match = grammar.exec(input);
  const [, registry = '', path = '', tag = 'latest', digest] = match ?? [];
  const isShort = match === null ? shortGrammar.test(input) : !/[.:]|^localhost$/.test(registry);
  if (isShort) throw shortName(input, registriesFile);
  if (match === null) throw new Error(`cannot parse input: "${input}": ${complaintAbout(input)}`);
  const repository = `${registry}/${path}`;
  return digest === undefined
    ? { repository, text: `${repository}:${tag}` }
    : { repository, digest, text: `${repository}@${digest}` };
}

/** The `registry/path` of a stored name. */
export function repositoryOf(name: string): string {
  return name.split('@')[0]?.replace(/:[^:/]*$/, '') ?? name;
}

function complaintAbout(input: string): string {
  if (input === '') return 'repository name must have at least one component';
  return grammar.test(input.toLowerCase()) ? 'repository name must be lowercase' : 'invalid reference format';
}

function shortName(input: string, registriesFile: string): Error {
  return new Error(
    `short-name "${input}" did not resolve to an alias and no unqualified-search registries are defined in "${registriesFile}"`,
  );
}
