import compare from 'semver/functions/compare.js';
import valid from 'semver/functions/valid.js';
import { assertNever } from '../../../platform/app-error.ts';
import { isTagRange, isTagWithin } from './tag-range.ts';
import { compareSchemeTags, isVersion, isVersionRange, parseSchemeTag, versionRange } from './version.ts';

/**
 * How the versions of a stream are written and ordered: as SemVer 2.0.0, or as tags
 * `<app>[-rev<N>[-b<build>]]` (bundle format 1, "Versions").
 */
export type VersionScheme = 'semver' | 'three-tag';

/** All schemes. */
export const VERSION_SCHEMES: readonly VersionScheme[] = ['semver', 'three-tag'];

/**
 * Whether a version is one of the scheme. `2.6.2` and `2.6.2-rc.1` are versions of both.
 * `2.6.2-rev1` is a revision of `2.6.2` and no SemVer version, although SemVer could read it as a
 * version before `2.6.2`.
 */
export function fitsScheme(version: string, scheme: VersionScheme): boolean {
  const tag = parseSchemeTag(version);
  switch (scheme) {
    case 'semver':
      return /^[0-9]/.test(version) && isVersion(version) && valid(version) !== null && !tag?.revision;
    case 'three-tag':
      return tag !== undefined;
    default:
      return assertNever(scheme);
  }
}

/** The only scheme that a version fits; undefined when it fits both, or none. */
export function impliedScheme(version: string): VersionScheme | undefined {
  const [first, second] = VERSION_SCHEMES.filter((scheme) => fitsScheme(version, scheme));
  return second === undefined ? first : undefined;
}

/**
 * Whether a version is probably meant as SemVer and is none, so that its stream gets the other
 * scheme: `v1.2.3`, `4.13`, `latest`. One with a revision is meant as it is.
 */
export function looksMistaken(version: string): boolean {
  return impliedScheme(version) === 'three-tag' && parseSchemeTag(version)?.revision === undefined;
}

/** What says which scheme a release is of. */
export interface SchemeWitness {
  readonly version: string;
  readonly versionScheme?: VersionScheme;
}

/**
 * The scheme of a stream: that of the first of its releases that names one or has a version of one
 * scheme only; undefined while all of them fit both.
 *
 * @param releases in the order in which they came to the node.
 */
export function schemeOf(releases: readonly SchemeWitness[]): VersionScheme | undefined {
  for (const { versionScheme, version } of releases) {
    const scheme = versionScheme ?? impliedScheme(version);
    if (scheme !== undefined) return scheme;
  }
  return undefined;
}

/**
 * Orders two versions. Versions that fit both schemes have the same order in both. What does not
 * fit the scheme is ordered by the other one; what fits none, by its text.
 *
 * @returns negative when `a` comes before `b`, positive when after, 0 when neither.
 */
export function compareVersions(a: string, b: string, scheme: VersionScheme = 'semver'): number {
  if (a === b) return 0;
  if (scheme === 'semver' && fitsScheme(a, scheme) && fitsScheme(b, scheme)) return compare(a, b);
  const [tagOfA, tagOfB] = [parseSchemeTag(a), parseSchemeTag(b)];
  if (tagOfA !== undefined && tagOfB !== undefined) return compareSchemeTags(tagOfA, tagOfB);
  return a < b ? -1 : 1;
}

/**
 * Whether a version lies in a range (`update.from`). Pre-releases count as the versions that they
 * are: `4.13.0-rc.1` lies in `>=4.12.0`.
 *
 * @returns undefined when that can't be told: the text is not a range of the scheme, or the version
 *   is none of it.
 */
export function isInRange(version: string, range: string, scheme: VersionScheme = 'semver'): boolean | undefined {
  if (!fitsScheme(version, scheme)) return undefined;
  switch (scheme) {
    case 'semver':
      return versionRange(range)?.test(version);
    case 'three-tag':
      return isTagWithin(version, range);
    default:
      return assertNever(scheme);
  }
}

/** Whether a text is a range of the scheme. */
export function isRangeOf(text: string, scheme: VersionScheme): boolean {
  return scheme === 'semver' ? isVersionRange(text) : isTagRange(text);
}
