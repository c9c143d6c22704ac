import Range from 'semver/classes/range.js';
import compare from 'semver/functions/compare.js';
import valid from 'semver/functions/valid.js';
import { assertNever } from '../../platform/app-error.ts';
import { defined } from '../../platform/defined.ts';

const MAX_VERSION_LENGTH = 128;
export const MAX_RANGE_LENGTH = 1024;
/** `<app>[-rev<N>[-b<build>]]`, without `+`, `~` and `:`, which tags forbid. */
const SCHEME = /^([0-9A-Za-z_][0-9A-Za-z_.-]*?)(?:-rev([0-9]+)(?:-b([0-9A-Za-z][0-9A-Za-z.]*))?)?$/;

/** A three-tag tag (bundle format 1, "Tags"). The parts are texts, so that no digit is lost. */
export interface SchemeTag {
  /** The version of the application: `2.6.2` in `2.6.2-rev1-b5.1`. */
  readonly app: string;
  /** Digits: `1` in `2.6.2-rev1-b5.1`. */
  readonly revision?: string;
  /** Letters, digits and dots: `5.1` in `2.6.2-rev1-b5.1`. */
  readonly build?: string;
}

/** SemVer 2.0.0 (no leading `v`), or the three-tag scheme. At most 128 characters. */
export function isVersion(text: string): boolean {
  if (text.length === 0 || text.length > MAX_VERSION_LENGTH) return false;
  // node-semver would also accept blanks around it and a leading v or =.
  return SCHEME.test(text) || (/^[0-9]\S*$/.test(text) && valid(text) !== null);
}

/** Accepts ranges of node-semver, such as `>=4.12.0 <4.13.7`, but not the empty text. */
export function isVersionRange(text: string): boolean {
  return versionRange(text) !== undefined;
}

const parsedRanges = new Map<string, Range | undefined>();
const MAX_PARSED_RANGES = 256;

/** Pre-releases count as versions. */
function versionRange(text: string): Range | undefined {
  if (text.length > MAX_RANGE_LENGTH || text.trim() === '') return undefined;
  if (parsedRanges.has(text)) return parsedRanges.get(text);
  if (parsedRanges.size >= MAX_PARSED_RANGES) parsedRanges.clear();
  const range = parseRange(text);
  parsedRanges.set(text, range);
  return range;
}

function parseRange(text: string): Range | undefined {
  try {
    return new Range(text, { includePrerelease: true });
  } catch {
    return undefined;
  }
}

/** @returns undefined when the text is longer than 128 characters or no tag */
export function parseSchemeTag(text: string): SchemeTag | undefined {
  const found = text.length <= MAX_VERSION_LENGTH ? SCHEME.exec(text) : null;
  const [, app, revision, build] = found ?? [];
  if (app === undefined) return undefined;
  return defined({ app, revision, build });
}

export function formatSchemeTag({ app, revision, build }: SchemeTag): string {
  if (revision === undefined) return app;
  return build === undefined ? `${app}-rev${revision}` : `${app}-rev${revision}-b${build}`;
}

/** Only a long tag implies others: a shorter tag may name that image alone. */
export function impliedTags(text: string): string[] {
  const tag = parseSchemeTag(text);
  if (tag?.revision === undefined || tag.build === undefined) return [];
  return [formatSchemeTag({ app: tag.app, revision: tag.revision }), tag.app];
}

/**
 * Orders tags by application, then revision, then build. A tag without a part comes before those
 * with one. The order is total: only the same text gives 0. Applications and builds order as in
 * SemVer (clause 11), with any count of numbers. So `2.6.2-rc.1` comes before `2.6.2`, but unlike
 * in SemVer `2.6.2-rev1` comes after it.
 */
export function compareSchemeTags(a: SchemeTag, b: SchemeTag): number {
  return (
    compareApps(a.app, b.app) ||
    compareOptional(a.revision, b.revision) ||
    compareOptional(a.build, b.build) ||
    // Only leading zeros of numbers differ.
    compareText(formatSchemeTag(a), formatSchemeTag(b))
  );
}

function compareApps(a: string, b: string): number {
  const [coreOfA, preOfA] = splitPrerelease(a);
  const [coreOfB, preOfB] = splitPrerelease(b);
  const byCore = compareDotted(coreOfA, coreOfB);
  if (byCore !== 0) return byCore;
  if (preOfA === undefined || preOfB === undefined) return Number(preOfA === undefined) - Number(preOfB === undefined);
  return compareDotted(preOfA, preOfB);
}

function splitPrerelease(app: string): [core: string, prerelease: string | undefined] {
  const dash = app.indexOf('-');
  return dash < 0 ? [app, undefined] : [app.slice(0, dash), app.slice(dash + 1)];
}

function compareOptional(a: string | undefined, b: string | undefined): number {
  if (a === undefined || b === undefined) return Number(a !== undefined) - Number(b !== undefined);
  return compareDotted(a, b);
}

function compareDotted(a: string, b: string): number {
  const partsOfA = a.split('.');
  const partsOfB = b.split('.');
  for (const [at, part] of partsOfA.entries()) {
    const other = partsOfB[at];
    const order = other === undefined ? 1 : compareParts(part, other);
    if (order !== 0) return order;
  }
  return partsOfA.length - partsOfB.length;
}

/** SemVer, clause 11.4: numbers order by value and before words, words order by ASCII. */
function compareParts(a: string, b: string): number {
  const [isNumberA, isNumberB] = [/^[0-9]+$/.test(a), /^[0-9]+$/.test(b)];
  if (isNumberA !== isNumberB) return isNumberA ? -1 : 1;
  if (!isNumberA) return compareText(a, b);
  const [valueA, valueB] = [BigInt(a), BigInt(b)];
  return valueA === valueB ? 0 : valueA < valueB ? -1 : 1;
}

function compareText(a: string, b: string): number {
  return a === b ? 0 : a < b ? -1 : 1;
}

/** SemVer 2.0.0, or tags `<app>[-rev<N>[-b<build>]]` (bundle format 1, "Versions"). */
export type VersionScheme = 'semver' | 'three-tag';

export const VERSION_SCHEMES: readonly VersionScheme[] = ['semver', 'three-tag'];

/** `2.6.2-rev1` is a revision of `2.6.2`, although SemVer could read it as an earlier version. */
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

/** @returns undefined when the version fits both schemes or none */
export function impliedScheme(version: string): VersionScheme | undefined {
  const [first, second] = VERSION_SCHEMES.filter((scheme) => fitsScheme(version, scheme));
  return second === undefined ? first : undefined;
}

/** Whether a version is probably a mistaken SemVer: `v1.2.3`, `4.13`, `latest`. */
export function looksMistaken(version: string): boolean {
  return impliedScheme(version) === 'three-tag' && parseSchemeTag(version)?.revision === undefined;
}

export function schemeOf(
  releases: readonly { readonly version: string; readonly versionScheme?: VersionScheme }[],
): VersionScheme | undefined {
  for (const { versionScheme, version } of releases) {
    const scheme = versionScheme ?? impliedScheme(version);
    if (scheme !== undefined) return scheme;
  }
  return undefined;
}

/**
 * Versions that fit both schemes have the same order in both. The other scheme, or else the text,
 * orders a version outside the scheme.
 *
 * @returns negative when `a` comes before `b`, positive when after, 0 when neither
 */
export function compareVersions(a: string, b: string, scheme: VersionScheme = 'semver'): number {
  if (a === b) return 0;
  if (scheme === 'semver' && fitsScheme(a, scheme) && fitsScheme(b, scheme)) return compare(a, b);
  const [tagOfA, tagOfB] = [parseSchemeTag(a), parseSchemeTag(b)];
  if (tagOfA !== undefined && tagOfB !== undefined) return compareSchemeTags(tagOfA, tagOfB);
  return a < b ? -1 : 1;
}

/** Pre-releases count. @returns undefined when the range or version does not fit the scheme */
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

export function isRangeOf(text: string, scheme: VersionScheme): boolean {
  return scheme === 'semver' ? isVersionRange(text) : isTagRange(text);
}

const MAX_TAG_RANGE_LENGTH = 512;
const COMPARATOR = /^(>=|<=|>|<|=)?([^<>=^~*\s]+)$/;

interface Comparator {
  readonly operator: '>=' | '<=' | '>' | '<' | '=';
  readonly bound: SchemeTag;
}

/**
 * Accepts comparators (`>=`, `<=`, `>`, `<`, `=`, or none for `=`), blanks, and `||`. The SemVer
 * forms `^`, `~`, ` - ` and `*` are refused, since the major version of a tag promises nothing.
 */
export function isTagRange(text: string): boolean {
  return parseTagRange(text) !== undefined;
}

/**
 * Compares only the written parts of a bound: `2.6` and `2.6.x` mean all of 2.6, `<=2.6.2` includes
 * each revision of 2.6.2, and `>2.6.2-rev1` includes rev2 but no build of rev1.
 *
 * @returns undefined when one of the two can't be read
 */
export function isTagWithin(version: string, range: string): boolean | undefined {
  const tag = parseSchemeTag(version);
  const alternatives = parseTagRange(range);
  if (tag === undefined || alternatives === undefined) return undefined;
  return alternatives.some((all) => all.every((comparator) => holds(comparator, tag)));
}

function parseTagRange(text: string): readonly (readonly Comparator[])[] | undefined {
  if (text.length > MAX_TAG_RANGE_LENGTH) return undefined;
  const alternatives = text.split('||').map((part) => comparatorsOf(part.trim().replace(/([<>=])\s+/g, '$1')));
  return alternatives.every((all) => all !== undefined) ? alternatives : undefined;
}

function comparatorsOf(text: string): readonly Comparator[] | undefined {
  const parsed = text.split(/\s+/).map(comparatorOf);
  return parsed.every((one) => one !== undefined) ? parsed : undefined;
}

function comparatorOf(text: string): Comparator | undefined {
  const [, operator = '=', operand = ''] = COMPARATOR.exec(text) ?? [];
  const bound = parseSchemeTag(operand.replace(/(?:\.[xX])+$/, ''));
  // A word would order after all numbers. That is not the meaning of "latest".
  if (bound === undefined || !/^[0-9]/.test(bound.app)) return undefined;
  return { operator: operator as Comparator['operator'], bound };
}

function holds({ operator, bound }: Comparator, tag: SchemeTag): boolean {
  const order = compareSchemeTags(asFarAs(bound, tag), bound);
  switch (operator) {
    case '>=':
      return order >= 0;
    case '<=':
      return order <= 0;
    case '>':
      return order > 0;
    case '<':
      return order < 0;
    case '=':
      return order === 0;
  }
}

function asFarAs(bound: SchemeTag, { app, revision, build }: SchemeTag): SchemeTag {
  if (bound.revision === undefined) return { app: shortened(app, bound.app) };
  if (revision === undefined) return { app };
  if (bound.build === undefined || build === undefined) return { app, revision };
  return { app, revision, build };
}

/** Returns `2.6` for `2.6.2-rc.1` and the bound `2.5`. */
function shortened(app: string, bound: string): string {
  const numbers = coreOf(app).split('.');
  const count = coreOf(bound).split('.').length;
  return numbers.length > count ? numbers.slice(0, count).join('.') : app;
}

function coreOf(app: string): string {
  return app.split('-', 1)[0] ?? app;
}
