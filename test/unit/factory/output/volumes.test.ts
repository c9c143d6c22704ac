import { expect, it } from 'vitest';
import { digestFromHex } from '../../../../src/domain/model/digest.ts';
import { repeatedBytes } from '../../../../src/factory/output/volumes.ts';

const layer = (size: number) => ({ digest: digestFromHex('aa'.repeat(32)), size });

it('volumes repeat their documents, in whole clusters, each', () => {
  const documents = [Buffer.alloc(1), Buffer.alloc(4097)];
  expect(repeatedBytes([], documents, { volumeBytes: 100_000 })).toBe(3 * 4096);
  expect(repeatedBytes([layer(50_000), layer(50_000)], documents, { volumeBytes: 100_000 })).toBe(2 * 3 * 4096);
  expect(() => repeatedBytes([layer(90_000)], documents, { volumeBytes: 100_000 })).toThrow('is never split');
  expect(() => repeatedBytes([], documents, { volumeBytes: 3 * 4096 - 1 })).toThrow('each volume needs');
});
