import { describe, expect, it } from 'vitest';
import {
  compareSchemeTags,
  impliedTags,
  isVersion,
  isVersionRange,
  parseSchemeTag,
} from '../../../../../src/domain/model/version.ts';

describe('isVersion', () => {
  it.each(['4.13.7', '1.0.0-rc.1', '1.0.0+build.5', '2.6.2-rev1', '2.6.2-rev1-b5.1', '2024.10', 'rel_7'])(
    'takes %s',
    (text) => {
      expect(isVersion(text)).toBe(true);
    },
  );

  it.each(['', ' 1.0.0', '1.0.0 ', '1:2', '1~2', '../1', '1/2', '-1', '1.0+', '1\n', 'x'.repeat(129)])(
    'refuses %j',
    (text) => {
      expect(isVersion(text)).toBe(false);
    },
  );
});

describe('isVersionRange', () => {
  it('accepts every range of node-semver except the empty one', () => {
    expect(isVersionRange('>=4.12.0 <4.13.7')).toBe(true);
    expect(isVersionRange('4.12.x || 4.13.x')).toBe(true);
    expect(isVersionRange(' ')).toBe(false);
    expect(isVersionRange('newer than 4')).toBe(false);
    expect(isVersionRange(`${'4.12.0 || '.repeat(102)}4.0`)).toBe(true);
    expect(isVersionRange(`${'4.12.0 || '.repeat(102)}4.12.0`)).toBe(false);
  });
});

describe('parseSchemeTag', () => {
  it.each([
    ['2.6.2', { app: '2.6.2' }],
    ['2.6.2-rev1', { app: '2.6.2', revision: '1' }],
    ['2.6.2-rev1-b5.1', { app: '2.6.2', revision: '1', build: '5.1' }],
    ['2.6.2-rc.1-rev07-bx2', { app: '2.6.2-rc.1', revision: '07', build: 'x2' }],
    ['2.6.2-b5', { app: '2.6.2-b5' }],
    ['rev1', { app: 'rev1' }],
    ['1-rev1-rev2', { app: '1-rev1', revision: '2' }],
  ])('reads %s', (text, tag) => {
    expect(parseSchemeTag(text)).toEqual(tag);
  });

  it.each(['', '1+2', '1~2', '1:2', '-rev1', '.1', '1/2', '1\n', 'x'.repeat(129)])('refuses %j', (text) => {
    expect(parseSchemeTag(text)).toBeUndefined();
  });
});

describe('impliedTags', () => {
  it('completes a long tag only', () => {
    expect(impliedTags('2.6.2-rev1-b5.1')).toEqual(['2.6.2-rev1', '2.6.2']);
    expect(impliedTags('2.6.2-rev1')).toEqual([]);
    expect(impliedTags('2.6.2')).toEqual([]);
    expect(impliedTags('latest')).toEqual([]);
  });
});

describe('compareSchemeTags', () => {
  it('orders by application, revision and build, numbers numerically', () => {
    const ordered = [
      '2.6.2-rc.1-rev9',
      '2.6.2',
      '2.6.2-rev2',
      '2.6.2-rev2-b5',
      '2.6.2-rev2-b5.1',
      '2.6.2-rev2-b5.10',
      '2.6.2-rev2-b5.rc',
      '2.6.2-rev2-b10',
      '2.6.2-rev02-b10.1',
      '2.6.2-rev10',
      '2.6.10',
      '2.10',
      '2.10.0',
      'latest',
    ];
    const tags = ordered.flatMap((text) => parseSchemeTag(text) ?? []);
    expect(tags.toReversed().sort(compareSchemeTags)).toEqual(tags);
    expect(tags).toHaveLength(ordered.length);
  });
});
