import * as v from 'valibot';
import { bundleError } from '../../bundle/bundle-error.ts';
import { parseJson } from '../../bundle/format/json.ts';
import { compareVersions, fitsScheme, isRangeOf, type VersionScheme } from '../../domain/model/version.ts';
import { formatCount } from '../../platform/sizes.ts';

/** The content of `release-manifests/release-metadata` in a release image. */
export interface ReleaseMetadata {
  readonly version?: string;
  /** The versions that may update to it. It is empty if it names none. */
  readonly previous: readonly string[];
}

// Loose: Cincinnati's metadata has more fields, and may get new ones.
const schema = v.looseObject({
  kind: v.literal('cincinnati-metadata-v0', "must be 'cincinnati-metadata-v0'"),
  version: v.nullish(v.string('must be a version')),
  previous: v.nullish(v.array(v.string('must be a version'))),
});

/**
 * @returns undefined for one that says neither its version nor others
 * @throws AppError `bundle/source` with the wrong member
 */
export function parseReleaseMetadata(bytes: Uint8Array, release: string): ReleaseMetadata | undefined {
  const what = `release-manifests/release-metadata of ${release}`;
  const { version, previous } = parseJson(bytes, schema, what, 'bundle/source');
  if (version == null && previous == null) return undefined;
  return { ...(version != null && { version }), previous: previous ?? [] };
}

interface FormerReleases {
  /** The value of `update.from`; undefined if the release names none. */
  readonly from: string | undefined;
  readonly notes: readonly string[];
}

/**
 * Turns `previous` of a release into a range of versions, since a bundle has no room for hundreds
 * of them: patch releases that follow each other become one part. Where even that is too long, the
 * latest versions count, final ones first: nodes hold an update from any other until a person
 * confirms it.
 *
 * @throws AppError `bundle/option` when the release has another version than the bundle
 */
export function formerReleases(
  { version, previous }: ReleaseMetadata,
  bundle: { readonly version: string; readonly versionScheme?: VersionScheme },
  release: string,
): FormerReleases {
  if (version !== undefined && version !== bundle.version) {
    const message = `version: ${release} is version ${version}, and --version says ${bundle.version}; give --version ${version}, or --without-previous for a bundle that has versions of its own`;
    throw bundleError('bundle/option', message);
  }
  const scheme = bundle.versionScheme ?? 'semver';
  const known = [...new Set(previous)].filter((one) => fitsScheme(one, 'semver'));
  const parts = rangesOf(known);
  let from = '';
  let taken = 0;
  for (const { text, count } of parts) {
    const longer = from === '' ? text : `${from} || ${text}`;
    if (!isRangeOf(longer, scheme)) break;
    from = longer;
    taken += count;
  }
  const leftOut = new Set(previous).size - taken;
  if (from === '') {
    const why =
      previous.length === 0
        ? 'names no version that may update to it'
        : 'names only versions that do not fit into the bundle';
    return { from: undefined, notes: [`${release} ${why}: nodes update to it from any version; --from gives a range`] };
  }
  const note = `${formatCount(leftOut, 'version')} that ${release} names as previous ${leftOut === 1 ? 'does' : 'do'} not fit into the bundle: nodes with one of them hold the update until a person confirms it; --from gives a range of your own`;
  return { from, notes: leftOut === 0 ? [] : [note] };
}

interface RangePart {
  readonly text: string;
  /** Number of versions in it. */
  readonly count: number;
}

/** The latest first, final versions before pre-releases. */
function rangesOf(versions: readonly string[]): RangePart[] {
  const sorted = [...versions].sort((a, b) => compareVersions(b, a));
  const runs: { last: string; first: string; count: number }[] = [];
  for (const version of sorted.filter(isFinal)) {
    const run = runs.at(-1);
    if (run !== undefined && nextPatch(version) === run.first) {
      run.first = version;
      run.count += 1;
    } else runs.push({ last: version, first: version, count: 1 });
  }
  const finals = runs.map(({ first, last, count }) => ({ text: count === 1 ? first : `>=${first} <=${last}`, count }));
  return [...finals, ...sorted.filter((one) => !isFinal(one)).map((text) => ({ text, count: 1 }))];
}

function isFinal(version: string): boolean {
  return /^[0-9]+\.[0-9]+\.[0-9]+$/.test(version);
}

function nextPatch(version: string): string {
  return version.replace(/[0-9]+$/, (patch) => String(Number(patch) + 1));
}
