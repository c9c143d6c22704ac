import { describe, expect, it } from 'vitest';
import { digestFromHex } from '../../../../../src/domain/model/digest.ts';
import type { AdoptionReason } from '../../../../../src/domain/model/reason.ts';
import { reasonText, shownReason } from '../../../../../src/domain/report/reasons/reason-text.ts';

const bundle = { name: 'ocp', version: '4.13.7' };
const bundleId = digestFromHex('a'.repeat(64));
const knownId = digestFromHex('b'.repeat(64));

describe('the sentence of a bundle that is not adopted', () => {
  it.each<[AdoptionReason, string]>([
    [
      { code: 'bundle/arch', data: { bundle, bundleArch: 'arm64', nodeArch: 'amd64' } },
      'ocp@4.13.7 is made for arm64, this node is amd64; bring the bundle made for amd64',
    ],
    [
      { code: 'bundle/sequence', data: { kind: 'below-floor', bundle, sequence: 7, floor: 8 } },
      "ocp@4.13.7 is older than the release activated here: its sequence is 7, and 8 was activated. Bring a newer bundle, or run 'stickpin trust reset ocp' and plug it in again",
    ],
    [
      {
        code: 'bundle/sequence',
        data: { kind: 'same', bundle, bundleId, sequence: 7, known: { ...bundle, version: '4.13.7-rev2' }, knownId },
      },
      'ocp@4.13.7 (sha256:aaaaaaaaaaaa…) has the same sequence 7 as ocp@4.13.7-rev2 (sha256:bbbbbbbbbbbb…), which is known here; make it again with a higher --sequence',
    ],
    [
      { code: 'bundle/expired', data: { bundle, expires: '2026-05-01T00:00:00Z' } },
      'ocp@4.13.7 expired on 2026-05-01T00:00:00Z; bring a newer one',
    ],
    [
      { code: 'bundle/from-the-future', data: { bundle, created: '2030-01-01T00:00:00Z' } },
      "ocp@4.13.7 says it was made on 2030-01-01T00:00:00Z, more than a day ahead of this node's synchronised clock; check the clock of the machine that made it",
    ],
  ])('%j', (reason, text) => {
    expect(shownReason(reason)).toEqual({ code: reason.code, message: text });
  });

  it('is the message of the fault itself', () => {
    expect(reasonText({ code: 'bundle/arch', message: 'an adapter says so' })).toBe('an adapter says so');
  });
});
