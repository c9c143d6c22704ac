import { createHash, generateKeyPairSync } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { parsePrivateKey, parsePublicKey, shortKeyId } from '../../../src/bundle/keys.ts';
import { sampleKey } from '../../support/sample-bundle.ts';

describe('parsePublicKey', () => {
  it.each(['ed25519', 'ecdsa-p256'] as const)('reads %s and computes the key id from the DER', (algorithm) => {
    const key = sampleKey('k', algorithm);
    const der = Buffer.from(key.publicPem.replace(/-----[A-Z ]+-----/g, ''), 'base64');
    const expected = createHash('sha256').update(der).digest('hex');
    expect(parsePublicKey(key.publicPem, 'k.pub')).toMatchObject({ keyId: expected, algorithm });
    expect(key.privateKey.keyId).toBe(expected);
  });

  it.each([
    ['RSA', generateKeyPairSync('rsa', { modulusLength: 1024 }), 'rsa is not supported'],
    ['P-384', generateKeyPairSync('ec', { namedCurve: 'secp384r1' }), 'ec secp384r1 is not supported'],
    ['Ed448', generateKeyPairSync('ed448'), 'ed448 is not supported'],
  ])('refuses %s', (_name, pair, message) => {
    const pem = pair.publicKey.export({ type: 'spki', format: 'pem' }).toString();
    expect(() => parsePublicKey(pem, 'k.pub')).toThrow(`key file k.pub: ${message}`);
  });

  it.each([
    ['', 'not a public key in PEM'],
    ['ssh-ed25519 AAAA', 'not a public key in PEM'],
    ['-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n', 'not a public key in PEM'],
    ['-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n', "PEM can't be read"],
    [sampleKey().privatePem, 'it holds a private key'],
  ])('refuses what is no public key (%#)', (pem, message) => {
    expect(() => parsePublicKey(pem, 'k.pub')).toThrow(
      expect.objectContaining({ code: 'bundle/key-file', message: expect.stringContaining(message) }),
    );
  });
});

describe('parsePrivateKey', () => {
  it('says how to decrypt an encrypted key', () => {
    const { privateKey } = generateKeyPairSync('ed25519');
    const pem = privateKey.export({ type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'x' }).toString();
    expect(() => parsePrivateKey(pem, 'k.key')).toThrow('openssl pkey');
  });

  it('refuses a public key', () => {
    expect(() => parsePrivateKey(sampleKey().publicPem, 'k.key')).toThrow('not a private key');
  });
});

describe('shortKeyId', () => {
  it("shows a key id's beginning, and nothing of a text that is none", () => {
    expect(shortKeyId('5f0c8a12e9b4'.padEnd(64, '0'))).toBe('5f0c8a12e9b4…');
    expect(shortKeyId('\u001b[2Jevil')).toBe('(none)');
  });
});
