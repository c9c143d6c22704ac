import { expect, it } from 'vitest';
import { digestOf, digestOfLarge } from '../../../src/platform/digest.ts';

/** FIPS 180-4, SHA-256 of "abc". */
const ABC = 'sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad';

it('is the SHA-256 of a text in UTF-8 and of bytes, also in another thread', async () => {
  expect(digestOf('abc')).toBe(ABC);
  expect(digestOf(Buffer.from('abc'))).toBe(ABC);
  expect(await digestOfLarge(Buffer.from('abc'))).toBe(ABC);
  expect(digestOf('é')).toBe(digestOf(Buffer.from([0xc3, 0xa9])));
});

it('is of the part of a buffer that it was given', async () => {
  const part = Buffer.from('xabcx').subarray(1, 4);
  expect([digestOf(part), await digestOfLarge(part)]).toEqual([ABC, ABC]);
});
