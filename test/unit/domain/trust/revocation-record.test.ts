import { describe, expect, it } from 'vitest';
import { digestFromHex } from '../../../../src/domain/model/digest.ts';
import {
  EMPTY_RECORD,
  mergeRecords,
  revocationsInForce,
  withFolder,
  withRestored,
  withSeen,
} from '../../../../src/domain/trust/revocation-record.ts';

const [key, other] = ['aa'.repeat(32), 'bb'.repeat(32)];
const [first, second] = [digestFromHex('1'.repeat(64)), digestFromHex('2'.repeat(64))];
const byFile = withSeen(EMPTY_RECORD, [{ keyId: key }], 1);
const byBundle = withSeen(EMPTY_RECORD, [{ keyId: key, bundleId: first }], 1);
const idsOf = (record: typeof EMPTY_RECORD) => revocationsInForce(record).map(({ keyId }) => keyId);

describe('the record of revocations', () => {
  it('is the same object when nothing is new', () => {
    expect(withSeen(byFile, [{ keyId: key }], 2)).toBe(byFile);
    const seen = withFolder(byFile, '/k');
    expect(withFolder(seen, '/k')).toBe(seen);
  });

  it('lets a restored key count until a file or another bundle revokes it again', () => {
    const restored = withRestored(withSeen(byFile, [{ keyId: key, bundleId: first }], 1), [key], 2);
    expect(idsOf(restored)).toEqual([]);
    expect(withSeen(restored, [{ keyId: key, bundleId: first }], 3)).toBe(restored);
    expect(idsOf(withSeen(restored, [{ keyId: key }], 3))).toEqual([key]);
    expect(idsOf(withSeen(restored, [{ keyId: key, bundleId: second }], 3))).toEqual([key]);
  });

  it('restores a key by the id of another form', () => {
    const record = withSeen(EMPTY_RECORD, [{ keyId: key, otherIds: [other] }], 1);
    expect(idsOf(withRestored(record, [other], 2))).toEqual([]);
  });

  it('keeps each key revoked that either copy has, in either order', () => {
    const restored = withRestored(byFile, [key], 2);
    for (const merged of [mergeRecords(restored, byFile), mergeRecords(byFile, restored)]) {
      expect(idsOf(merged)).toEqual([key]);
    }
    expect(idsOf(mergeRecords(restored, restored))).toEqual([]);
    expect(idsOf(mergeRecords(byBundle, withSeen(EMPTY_RECORD, [{ keyId: other }], 1))).sort()).toEqual([key, other]);
    expect(mergeRecords(withFolder(byFile, '/a'), withFolder(byFile, '/b')).folders).toEqual(['/a', '/b']);
  });
});
