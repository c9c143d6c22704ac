import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  compareVersions,
  fitsScheme,
  impliedScheme,
  isInRange,
  isRangeOf,
  isTagRange,
  isTagWithin,
  schemeOf,
} from '../../../../../src/domain/model/version.ts';

describe('schemes of versions', () => {
  it.each([
    ['2.6.2', true, true],
    ['2.6.2-rc.1', true, true],
    ['1.0.0+build.5', true, false],
    ['2.6.2-rev1', false, true],
    ['2.6.2-rev1-b5.1', false, true],
    ['2.6', false, true],
    ['2.6.2.1', false, true],
    ['v1.0.0', false, true],
    ['1.0.0 ', false, false],
    ['', false, false],
  ])('%j fits SemVer: %s, tags of three parts: %s', (version, isSemver, isTag) => {
    expect([fitsScheme(version, 'semver'), fitsScheme(version, 'three-tag')]).toEqual([isSemver, isTag]);
    expect(impliedScheme(version)).toBe(isSemver === isTag ? undefined : isSemver ? 'semver' : 'three-tag');
  });

  it('the scheme of a stream comes from its first release that names one', () => {
    const both = { version: '2.6.2' };
    expect(schemeOf([])).toBeUndefined();
    expect(schemeOf([both, both])).toBeUndefined();
    expect(schemeOf([both, { version: '2.6.3-rev1' }, { version: '1.0.0+x' }])).toBe('three-tag');
    expect(schemeOf([{ ...both, versionScheme: 'semver' }, { version: '2.6.3-rev1' }])).toBe('semver');
  });

  it('order versions that fit both schemes in the same way', () => {
    const word = fc.constantFrom('', '-rc.1', '-rc.2', '-alpha');
    const version = fc.tuple(fc.nat(12), fc.nat(12), fc.nat(12), word).map(([a, b, c, pre]) => `${a}.${b}.${c}${pre}`);
    fc.assert(
      fc.property(version, version, (a, b) => {
        expect(Math.sign(compareVersions(a, b, 'semver'))).toBe(Math.sign(compareVersions(a, b, 'three-tag')));
      }),
    );
  });

  it('give a total order, also of versions that fit neither scheme', () => {
    const text = fc.oneof(fc.constantFrom('2.6.2', '2.6.2-rev1', '1.0.0+x', 'latest', '?', ''), fc.string());
    fc.assert(
      fc.property(text, text, (a, b) => {
        const [there, back] = [compareVersions(a, b), compareVersions(b, a)];
        expect(Math.sign(there) + Math.sign(back)).toBe(0);
      }),
    );
  });
});

describe('ranges of SemVer', () => {
  it.each([
    ['4.13.6', '>=4.12.0 <4.13.7', true],
    ['4.13.7', '>=4.12.0 <4.13.7', false],
    ['4.13.0-rc.1', '>=4.12.0', true],
    ['4.12.0-rc.1', '>=4.12.0', false],
    ['4.13.6', '4.13.x || 5.x', true],
    ['4.13.6', '^4.12.0', true],
    ['4.13.6-rev1', '>=4.12.0', undefined],
    ['4.13.6', 'newest', undefined],
  ])('%s in %j: %s', (version, range, is) => {
    expect(isInRange(version, range, 'semver')).toBe(is);
  });
});

describe('ranges of tags: a bound is compared as far as it is written', () => {
  it.each([
    ['2.6.2-rev1-b5', '>=2.6.0 <2.7.0', true],
    ['2.6.2-rev1-b5', '2.6.2', true],
    ['2.6.2-rev1-b5', '2.6.2-rev1', true],
    ['2.6.2-rev1-b5', '2.6.2-rev1-b5', true],
    ['2.6.2-rev1-b5', '2.6.2-rev1-b6', false],
    ['2.6.2-rev2', '2.6.2-rev1', false],
    ['2.6.2-rev3', '<=2.6.2', true],
    ['2.6.2-rev3', '<2.6.2', false],
    ['2.6.2-rev3', '>2.6.2', false],
    ['2.6.2-rev3', '>2.6.2-rev1', true],
    ['2.6.2-rev1-b9', '>2.6.2-rev1', false],
    ['2.6.2', '>=2.6.2-rev1', false],
    ['2.6.2', '>=2.6', true],
    ['2.6.2', '<=2.6', true],
    ['2.6.2', '>2.6', false],
    ['2.6.2', '2.6.x', true],
    ['2.7.0', '2.6.x', false],
    ['2.6.2-rc.1', '>=2.6.2', false],
    ['2.6.2-rc.1', '<2.6.2', true],
    ['2.10.0', '>2.9.0', true],
    ['1.5', '1.4.x || >= 1.5', true],
    ['2.6.2+x', '2.6.2', undefined],
    ['2.6.2', '^2.6.0', undefined],
    ['2.6.2', '*', undefined],
    ['2.6.2', '>=latest', undefined],
    ['2.6.2', '', undefined],
    ['2.6.2', '2.6.2 ||', undefined],
  ])('%s in %j: %s', (version, range, is) => {
    expect(isTagWithin(version, range)).toBe(is);
    expect(isInRange(version, range, 'three-tag')).toBe(is);
    expect(isRangeOf(range, 'three-tag')).toBe(isTagRange(range));
  });

  it('never throws, for any input', () => {
    fc.assert(fc.property(fc.string(), fc.string(), (version, range) => void isTagWithin(version, range)));
  });
});
