import { describe, expect, it } from 'vitest';
import { isVersion, isVersionRange } from '../../../src/domain/version.ts';

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
  it('takes what node-semver takes, but not nothing', () => {
    expect(isVersionRange('>=4.12.0 <4.13.7')).toBe(true);
    expect(isVersionRange('4.12.x || 4.13.x')).toBe(true);
    expect(isVersionRange(' ')).toBe(false);
    expect(isVersionRange('newer than 4')).toBe(false);
  });
});
