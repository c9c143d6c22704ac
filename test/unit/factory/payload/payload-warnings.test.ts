import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { payloadWarnings } from '../../../../src/factory/payload/release-payload.ts';

describe('payloadWarnings', () => {
  it('keeps what fits', () => {
    const lines = Array.from({ length: 256 }, (_, at) => `warning ${at}`);
    expect(payloadWarnings(lines)).toEqual(lines);
    expect(payloadWarnings([])).toEqual([]);
  });

  it('states how many warnings are left out', () => {
    const lines = Array.from({ length: 300 }, (_, at) => `warning ${at}`);
    expect(payloadWarnings(lines)).toEqual([...lines.slice(0, 255), '… and 45 more warnings']);
    const long = Array.from({ length: 100 }, () => 'ä'.repeat(1000));
    expect(payloadWarnings(long)).toEqual([...long.slice(0, 32), '… and 68 more warnings']);
  });

  it('always fits into a payload', () => {
    fc.assert(
      fc.property(fc.array(fc.string({ unit: 'binary', maxLength: 2000 }), { maxLength: 400 }), (lines) => {
        const kept = payloadWarnings(lines);
        expect(kept.length).toBeLessThanOrEqual(256);
        for (const line of kept) expect(line.length).toBeLessThanOrEqual(1024);
        for (const line of kept) expect(line).not.toMatch(/\p{Cc}/u);
        expect(Buffer.byteLength(kept.join(''))).toBeLessThanOrEqual(65_536 + 64);
      }),
    );
  });
});
