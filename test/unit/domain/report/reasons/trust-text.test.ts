import { describe, expect, it } from 'vitest';
import { digestFromHex } from '../../../../../src/domain/model/digest.ts';
import type { TrustReason } from '../../../../../src/domain/model/reason.ts';
import { reasonText } from '../../../../../src/domain/report/reasons/reason-text.ts';

const bundle = { name: 'ocp', version: '4.13.7' };
const bundleId = digestFromHex('a'.repeat(64));
const signedBy = ['audit', 'factory-2026'];
const compare = `compare its digest with what its maker says, then 'stickpin approve ${bundleId}'`;
const again = 'its pins stay. Bring it signed again by a key that is still trusted, or a newer release';

describe('the sentence of a bundle that is not trusted', () => {
  it.each<[TrustReason, string]>([
    [
      { code: 'trust/approval', data: { kind: 'found', bundleId, bundle, medium: 'sdb1', signedBy } },
      `ocp 4.13.7 on sdb1, signed by audit, factory-2026, waits for approval: ${compare}`,
    ],
    [
      { code: 'trust/approval', data: { kind: 'found', bundleId, bundle, medium: 'sdb1', signedBy: [] } },
      `ocp 4.13.7 on sdb1, signed by nobody trusted, waits for approval: ${compare}`,
    ],
    [
      { code: 'trust/approval', data: { kind: 'found-unsigned', bundleId, medium: 'sdb1' } },
      `A bundle on sdb1 that no trusted key signed, waits for approval: ${compare}`,
    ],
    [
      { code: 'trust/approval', data: { kind: 'adopted', bundleId, bundle } },
      `ocp 4.13.7 waits for approval: ${compare}`,
    ],
    [
      { code: 'trust/rejected', data: { kind: 'found', bundleId, bundle } },
      `ocp@4.13.7 (sha256:aaaaaaaaaaaa…) was rejected on this node; 'stickpin approve ${bundleId}' takes that back`,
    ],
    [
      { code: 'trust/rejected', data: { kind: 'found', bundleId } },
      `it (sha256:aaaaaaaaaaaa…) was rejected on this node; 'stickpin approve ${bundleId}' takes that back`,
    ],
    [
      { code: 'trust/rejected', data: { kind: 'adopted', bundleId, bundle } },
      `ocp 4.13.7 was rejected on this node after it was adopted. Nothing more of it is loaded, and it is not activated; its pins stay. 'stickpin approve ${bundleId}' takes that back`,
    ],
    [
      { code: 'trust/blind', data: { bundle, cause: 'keys.d can be written by others' } },
      "ocp 4.13.7 is not trusted while revocations can't be read, since its key may be revoked: keys.d can be written by others",
    ],
    [
      { code: 'trust/blind', data: { bundle } },
      "ocp 4.13.7 is not trusted while revocations can't be read, since its key may be revoked: see 'stickpin doctor'",
    ],
    [
      { code: 'trust/threshold', data: { bundle, signedBy, threshold: 3 } },
      `ocp 4.13.7 was signed by audit, factory-2026, and 3 distinct trusted keys are required now; ${again}`,
    ],
    [
      { code: 'trust/key-revoked', data: { bundle, signedBy, keyIds: ['0123456789abcdef'] } },
      `ocp 4.13.7 is not trusted any more: it was signed by audit, factory-2026, and key 0123456789ab… is revoked. Nothing more of it is loaded, and it is not activated; ${again}`,
    ],
  ])('%j', (reason, text) => {
    expect(reasonText(reason)).toBe(text);
  });
});
