import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { digestFromHex, hexOf, isDigest, parseDigest, shortDigest } from '../../../../src/domain/model/digest.ts';

const HEX = '5f0c8a12e9b4'.padEnd(64, '0');

describe('digest', () => {
  it('is sha256 and 64 lower-case hex digits, nothing else', () => {
    const no = [
      '',
      HEX,
      `sha512:${HEX}`,
      `sha256:${HEX.toUpperCase()}`,
      `sha256:${HEX}0`,
      `sha256:${HEX}\n`,
      `sha256:g${HEX.slice(1)}`,
    ];
    for (const text of no) expect(isDigest(text), text).toBe(false);
    expect(parseDigest(`sha256:${HEX}`)).toBe(`sha256:${HEX}`);
    expect(parseDigest(HEX)).toBeUndefined();
  });

  it('goes to hex and back', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 32, maxLength: 32 }), (bytes) => {
        const hex = Buffer.from(bytes).toString('hex');
        expect(hexOf(digestFromHex(hex))).toBe(hex);
      }),
    );
    expect(() => digestFromHex('ab')).toThrow(RangeError);
  });

  it('is shown by its first twelve digits', () => {
    expect(shortDigest(digestFromHex(HEX))).toBe('sha256:5f0c8a12e9b4…');
  });
});
