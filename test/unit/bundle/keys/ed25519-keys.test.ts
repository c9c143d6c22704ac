import { createPublicKey, generateKeyPairSync } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { canonicalKey } from '../../../../src/bundle/keys/keys.ts';
import { publicPointOf } from '../../../support/bundles/key-forms.ts';

/**
 * The encodings of the eight points of small order, and those that only a reader that does not
 * check `y` takes for them.
 */
const SMALL_ORDER = [
  '0100000000000000000000000000000000000000000000000000000000000000',
  'ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  '0000000000000000000000000000000000000000000000000000000000000000',
  '0000000000000000000000000000000000000000000000000000000000000080',
  '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05',
  '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85',
  'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a',
  'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa',
  '0100000000000000000000000000000000000000000000000000000000000080',
  'ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff',
  'edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  'edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff',
  'eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  'eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff',
];

/** OpenSSL takes any 32 bytes for the point of an Ed25519 key. */
function isKey(point: Buffer): boolean {
  const der = Buffer.concat([Buffer.from('302a300506032b6570032100', 'hex'), point]);
  return !('why' in canonicalKey(createPublicKey({ key: der, format: 'der', type: 'spki' })));
}

describe('the canonical form of an Ed25519 key', () => {
  it('takes every generated key', () => {
    for (let i = 0; i < 20; i += 1) {
      expect(isKey(publicPointOf(generateKeyPairSync('ed25519').publicKey))).toBe(true);
    }
  });

  it('takes the public key of RFC 8032, section 7.1, test 1', () => {
    const hex = 'd75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a';
    expect(isKey(Buffer.from(hex, 'hex'))).toBe(true);
  });

  it.each(SMALL_ORDER)('refuses the point of small order %s', (hex) => {
    expect(isKey(Buffer.from(hex, 'hex'))).toBe(false);
  });

  it('refuses what is not a point of the curve', () => {
    expect(isKey(Buffer.from(`02${'00'.repeat(31)}`, 'hex'))).toBe(false);
  });

  it('refuses a point that is the sum of a key and a point of small order', () => {
    // y of (x, y) + (0, -1) is -y: the sign bit changes with -x.
    const point = Buffer.from('d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a', 'hex');
    const y = BigInt(`0x${Buffer.from(point).reverse().toString('hex')}`);
    const negated = (2n ** 255n - 19n - y) | (2n ** 255n);
    const sum = Buffer.from(negated.toString(16).padStart(64, '0'), 'hex').reverse();
    expect(isKey(sum)).toBe(false);
  });
});
