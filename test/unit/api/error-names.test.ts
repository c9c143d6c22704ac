import { describe, expect, it } from 'vitest';
import { codeOfErrorName, errorNameOf } from '../../../src/api/contract.ts';

describe('error names', () => {
  it.each([
    ['engine/no-such-bundle', 'io.stickpin1.Error.Engine.NoSuchBundle'],
    ['runtime/unreachable', 'io.stickpin1.Error.Runtime.Unreachable'],
  ])('converts %s to a D-Bus name and back', (code, name) => {
    expect(errorNameOf(code)).toBe(name);
    expect(codeOfErrorName(name)).toBe(code);
  });

  it('is a valid name for any code', () => {
    for (const code of ['', '///', '1/2', 'a//b', 'ä/ö']) {
      expect(errorNameOf(code)).toMatch(/^io\.stickpin1\.Error(\.[A-Z][A-Za-z0-9]*)+$/);
    }
  });

  it('converts the errors of D-Bus itself', () => {
    expect(codeOfErrorName('org.freedesktop.DBus.Error.Failed')).toBeUndefined();
  });
});
