import Range from 'semver/classes/range.js';
import valid from 'semver/functions/valid.js';

const MAX_VERSION_LENGTH = 128;
/** Longest SemVer range that is read, in characters. */
export const MAX_RANGE_LENGTH = 1024;
/**
 * `<app>[-rev<N>[-b<build>]]` of the three-tag scheme; what a tag may not hold (`+`, `~`, `:`) is
 * not allowed.
 */
const SCHEME = /^([0-9A-Za-z_][0-9A-Za-z_.-]*?)(?:-rev([0-9]+)(?:-b([0-9A-Za-z][0-9A-Za-z.]*))?)?$/;

/**
 * A tag of the three-tag scheme (bundle format 1, "Tags"), each part as it is written, so that no
 * digit is lost.
 */
export interface SchemeTag {
  /** The version of the application, `2.6.2` of `2.6.2-rev1-b5.1`. */
  readonly app: string;
  /** The revision of the image: digits, `1` of `2.6.2-rev1-b5.1`. Absent from a short tag. */
  readonly revision?: string;
  /**
   * The build: letters, digits and dots, `5.1` of `2.6.2-rev1-b5.1`. Absent from short and
   * intermediate tags.
   */
  readonly build?: string;
}

/**
 * Whether `text` is a version of a release: SemVer 2.0.0 (no leading `v`), or one of the three-tag
 * scheme. At most 128 characters.
 */
export function isVersion(text: string): boolean {
  if (text.length === 0 || text.length > MAX_VERSION_LENGTH) return false;
  // node-semver would also take blanks around it and a leading v or =.
  return SCHEME.test(text) || (/^[0-9]\S*$/.test(text) && valid(text) !== null);
}

/**
 * Whether `text` is a SemVer range as node-semver reads it, such as `>=4.12.0 <4.13.7`. The empty
 * text is none.
 */
export function isVersionRange(text: string): boolean {
  return versionRange(text) !== undefined;
}

/**
 * Parsed ranges by their text. A range of some hundred comparators takes milliseconds, and each
 * round compares all releases of a stream.
 */
const parsedRanges = new Map<string, Range | undefined>();
const MAX_PARSED_RANGES = 256;

/**
 * A SemVer range as {@link isVersionRange} says; undefined for a text that is none. Pre-releases
 * count as the versions that they are.
 */
export function versionRange(text: string): Range | undefined {
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

/**
 * Reads a tag; undefined when it is longer than 128 characters or holds what a tag may not hold.
 */
export function parseSchemeTag(text: string): SchemeTag | undefined {
  const found = text.length <= MAX_VERSION_LENGTH ? SCHEME.exec(text) : null;
  const [, app, revision, build] = found ?? [];
  if (app === undefined) return undefined;
  return { app, ...(revision !== undefined && { revision }), ...(build !== undefined && { build }) };
}

/** The text of a tag; the inverse of {@link parseSchemeTag}. */
export function formatSchemeTag({ app, revision, build }: SchemeTag): string {
  if (revision === undefined) return app;
  return build === undefined ? `${app}-rev${revision}` : `${app}-rev${revision}-b${build}`;
}

/**
 * The tags that a long tag implies, the intermediate and the short one: `2.6.2-rev1` and `2.6.2`
 * for `2.6.2-rev1-b5.1`. None for any other text: who gives an intermediate or short tag may have
 * given it to that image alone.
 */
export function impliedTags(text: string): string[] {
  const tag = parseSchemeTag(text);
  if (tag?.revision === undefined || tag.build === undefined) return [];
  return [formatSchemeTag({ app: tag.app, revision: tag.revision }), tag.app];
}

/**
 * Orders tags of the three-tag scheme by application, then revision, then build; a tag without a
 * part comes before those with one. A total order: 0 for the same text only. Applications order as
 * SemVer does (clause 11), with any count of numbers; so `2.6.2-rc.1` comes before `2.6.2`, and
 * unlike SemVer, `2.6.2-rev1` after it. Builds order the same way, part by part.
 *
 * @returns negative when `a` comes before `b`, positive when after.
 */
export function compareSchemeTags(a: SchemeTag, b: SchemeTag): number {
  return (
    compareApps(a.app, b.app) ||
    compareOptional(a.revision, b.revision) ||
    compareOptional(a.build, b.build) ||
    // What is left are numbers with other leading zeros.
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

/** SemVer, clause 11.4: numbers numerically and before words, words by ASCII. */
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
