import fc from 'fast-check';
import semver from 'semver';
import { describe, expect, it } from 'vitest';
import {
  compareSchemeTags,
  formatSchemeTag,
  impliedTags,
  isVersion,
  parseSchemeTag,
  type SchemeTag,
} from '../../../../../src/domain/model/version.ts';

const number = fc.oneof(fc.nat(12).map(String), fc.constantFrom('01', '007', '99999999999999999999'));
const word = fc.oneof(number, fc.constantFrom('rc', 'b', 'rev', 'x9', 'A'));
const dotted = fc.array(word, { minLength: 1, maxLength: 3 }).map((parts) => parts.join('.'));
const app = fc
  .tuple(dotted, fc.option(dotted, { nil: undefined }))
  .map(([core, prerelease]) => (prerelease === undefined ? core : `${core}-${prerelease}`));
const text = fc
  .tuple(app, fc.option(fc.tuple(number, fc.option(dotted, { nil: undefined })), { nil: undefined }))
  .map(([version, rest]) => {
    if (rest === undefined) return version;
    return rest[1] === undefined ? `${version}-rev${rest[0]}` : `${version}-rev${rest[0]}-b${rest[1]}`;
  })
  // Longer texts are no tags.
  .filter((made) => made.length <= 128);

const tag = text.map(parsed);

function parsed(from: string): SchemeTag {
  const found = parseSchemeTag(from);
  if (found === undefined) throw new Error(`no tag: ${from}`);
  return found;
}

describe('tags of the three-tag scheme', () => {
  it('survive parsing and formatting', () => {
    fc.assert(fc.property(text, (from) => formatSchemeTag(parsed(from)) === from));
  });

  it('are accepted exactly when they are versions of that scheme', () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom(...'10.-_rbevX+~: ') }), (from) => {
        if (parseSchemeTag(from) !== undefined) expect(isVersion(from)).toBe(true);
      }),
    );
  });

  it('are totally ordered', () => {
    fc.assert(
      fc.property(tag, tag, tag, (a, b, c) => {
        expect(Math.sign(compareSchemeTags(a, b))).toBe(0 - Math.sign(compareSchemeTags(b, a)));
        expect(compareSchemeTags(a, b) === 0).toBe(formatSchemeTag(a) === formatSchemeTag(b));
        if (compareSchemeTags(a, b) <= 0 && compareSchemeTags(b, c) <= 0) {
          expect(compareSchemeTags(a, c)).toBeLessThanOrEqual(0);
        }
      }),
      { numRuns: 2000 },
    );
  });

  it('order applications that are SemVer as SemVer does', () => {
    const part = fc.nat(12).map(String);
    const identifier = fc.oneof(part, fc.constantFrom('alpha', 'rc', 'x-1'));
    const release = fc
      .tuple(fc.tuple(part, part, part), fc.array(identifier, { maxLength: 3 }))
      .map(([core, pre]) => `${core.join('.')}${pre.length === 0 ? '' : `-${pre.join('.')}`}`);
    fc.assert(
      fc.property(release, release, (a, b) => {
        expect(Math.sign(compareSchemeTags(parsed(a), parsed(b)))).toBe(semver.compare(a, b));
      }),
      { numRuns: 1000 },
    );
  });

  it('imply shorter tags that come before them', () => {
    fc.assert(
      fc.property(tag, (long) => {
        const implied = impliedTags(formatSchemeTag(long));
        expect(implied).toHaveLength(long.build === undefined ? 0 : 2);
        for (const [at, shorter] of implied.entries()) {
          const longer = at === 0 ? formatSchemeTag(long) : (implied[0] ?? '');
          expect(longer.startsWith(`${shorter}-`)).toBe(true);
        }
      }),
    );
  });
});
