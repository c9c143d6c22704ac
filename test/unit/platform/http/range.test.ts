import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseRange } from '../../../../src/platform/http.ts';

describe('parseRange, after RFC 9110 section 14', () => {
  it.each([
    [undefined, { kind: 'whole' }],
    ['bytes=0-', { kind: 'part', first: 0, last: 99 }],
    ['bytes=10-19', { kind: 'part', first: 10, last: 19 }],
    ['bytes=10-10', { kind: 'part', first: 10, last: 10 }],
    ['bytes=90-1000', { kind: 'part', first: 90, last: 99 }],
    ['BYTES=0-4', { kind: 'part', first: 0, last: 4 }],
    ['Bytes=-10', { kind: 'part', first: 90, last: 99 }],
    ['bytes=99-', { kind: 'part', first: 99, last: 99 }],
    ['bytes=-10', { kind: 'part', first: 90, last: 99 }],
    ['bytes=-1000', { kind: 'part', first: 0, last: 99 }],
    ['bytes=100-', { kind: 'unsatisfiable' }],
    ['bytes=-0', { kind: 'unsatisfiable' }],
    ['bytes=999999999999999999999999-', { kind: 'unsatisfiable' }],
    ['bytes=20-10', { kind: 'whole' }],
    ['bytes=-', { kind: 'whole' }],
    ['bytes=0-1,5-6', { kind: 'whole' }],
    ['bytes=a-b', { kind: 'whole' }],
    ['lines=0-1', { kind: 'whole' }],
    ['', { kind: 'whole' }],
  ])('%s', (header, range) => {
    expect(parseRange(header, 100)).toEqual(range);
  });

  it('gives no part of an empty blob', () => {
    expect(parseRange('bytes=0-', 0)).toEqual({ kind: 'unsatisfiable' });
    expect(parseRange('bytes=-5', 0)).toEqual({ kind: 'unsatisfiable' });
    expect(parseRange(undefined, 0)).toEqual({ kind: 'whole' });
  });

  it('never leaves the blob', () => {
    const number = fc.oneof(fc.constant(''), fc.nat(200).map(String));
    fc.assert(
      fc.property(number, number, fc.nat(100), (from, to, sizeBytes) => {
        const range = parseRange(`bytes=${from}-${to}`, sizeBytes);
        if (range.kind !== 'part') return;
        expect(range.first).toBeGreaterThanOrEqual(0);
        expect(range.first).toBeLessThanOrEqual(range.last);
        expect(range.last).toBeLessThan(sizeBytes);
      }),
    );
  });
});
