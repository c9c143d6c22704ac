import { compareSchemeTags, parseSchemeTag, type SchemeTag } from './version.ts';

/** Longest range of tags that is read, in characters. */
const MAX_TAG_RANGE_LENGTH = 512;
const COMPARATOR = /^(>=|<=|>|<|=)?([^<>=^~*\s]+)$/;

interface Comparator {
  readonly operator: '>=' | '<=' | '>' | '<' | '=';
  readonly bound: SchemeTag;
}

/**
 * Whether `text` is a range of tags: comparators (`>=`, `<=`, `>`, `<`, `=`, or none for `=`) with
 * blanks between those that must all hold, and `||` between alternatives. The SemVer forms `^`,
 * `~`, ` - ` and `*` are none, since a tag has no major version that could promise anything.
 */
export function isTagRange(text: string): boolean {
  return parseTagRange(text) !== undefined;
}

/**
 * Whether a tag lies in a range of tags. Each bound is compared as far as it is written: `2.6` and
 * `2.6.x` mean all of 2.6, `<=2.6.2` takes each revision of 2.6.2, and `>2.6.2-rev1` takes rev2 but
 * no build of rev1.
 *
 * @returns undefined when one of the two can't be read.
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
  // A bound without a number orders after all numbers, which nobody means who writes "latest".
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

/** The tag without the parts that the bound does not have. */
function asFarAs(bound: SchemeTag, { app, revision, build }: SchemeTag): SchemeTag {
  if (bound.revision === undefined) return { app: shortened(app, bound.app) };
  if (revision === undefined) return { app };
  if (bound.build === undefined || build === undefined) return { app, revision };
  return { app, revision, build };
}

/** `2.6` of `2.6.2-rc.1` beside the bound `2.5`; the whole where the bound has as many numbers. */
function shortened(app: string, bound: string): string {
  const numbers = coreOf(app).split('.');
  const count = coreOf(bound).split('.').length;
  return numbers.length > count ? numbers.slice(0, count).join('.') : app;
}

function coreOf(app: string): string {
  return app.split('-', 1)[0] ?? app;
}
