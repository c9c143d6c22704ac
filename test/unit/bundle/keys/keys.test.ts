import { createHash, generateKeyPairSync } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { parsePrivateKey, parsePublicKey, parseRevocations, shortKeyId } from '../../../../src/bundle/keys/keys.ts';
import { ed25519Pem, otherForm, pemOf } from '../../../support/bundles/key-forms.ts';
import { sampleKey } from '../../../support/bundles/sample-bundle.ts';

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
  ])('refuses what is not a public key (%#)', (pem, message) => {
    expect(() => parsePublicKey(pem, 'k.pub')).toThrow(
      expect.objectContaining({ code: 'bundle/key-file', message: expect.stringContaining(message) }),
    );
  });
});

describe('one key, one id', () => {
  it.each(['compressed', 'hybrid'] as const)(
    'gives a P-256 point in %s form the id of the uncompressed one',
    (form) => {
      const key = sampleKey('k', 'ecdsa-p256');
      const found = parsePublicKey(otherForm(key.publicPem, form), 'k.pub');
      expect(found.keyId).toBe(key.privateKey.keyId);
      expect(found.key.export({ type: 'spki', format: 'pem' })).toBe(key.publicPem);
      const der = Buffer.from(otherForm(key.publicPem, form).replace(/-----[A-Z ]+-----/g, ''), 'base64');
      expect(found.otherIds).toContain(createHash('sha256').update(der).digest('hex'));
    },
  );

  it('refuses Ed25519 points of small order and the P-256 point at infinity', () => {
    const small = ed25519Pem(Buffer.concat([Buffer.of(1), Buffer.alloc(31)]));
    expect(() => parsePublicKey(small, 'k.pub')).toThrow('key file k.pub: no Ed25519 key pair has its point');
    const infinity = pemOf(Buffer.from('3019301306072a8648ce3d020106082a8648ce3d03010703020000', 'hex'));
    expect(() => parsePublicKey(infinity, 'k.pub')).toThrow('its point is at infinity');
  });

  it('reads a byte order mark, any line ends, blanks and comments', () => {
    const key = sampleKey();
    const text = `\uFEFF# factory\r\n\r\n${key.publicPem.replaceAll('\n', ' \r\n')}\r\n# end`;
    expect(parsePublicKey(text, 'k.pub').keyId).toBe(key.privateKey.keyId);
    expect(parsePublicKey(key.publicPem.replaceAll('\n', '\r'), 'k.pub').keyId).toBe(key.privateKey.keyId);
  });

  it('refuses a second key and what else stands beside the key', () => {
    const [one, two] = [sampleKey(), sampleKey()];
    expect(() => parsePublicKey(one.publicPem + two.publicPem, 'k.pub')).toThrow('it holds 2 public keys');
    expect(() => parsePublicKey(`${one.publicPem}${two.privateKey.keyId}\n`, 'k.pub')).toThrow('remove that line');
  });
});

describe('parseRevocations', () => {
  const [one, two, three] = [sampleKey('one'), sampleKey('two', 'ecdsa-p256'), sampleKey('three')];
  const ids = (text: string) => parseRevocations(text, 'k.revoked').map(({ keyId }) => keyId);

  it('means all keys in PEM and all key ids of the file', () => {
    expect(ids(one.publicPem + two.publicPem)).toEqual([one.privateKey.keyId, two.privateKey.keyId]);
    const mixed = `# stolen\n${three.privateKey.keyId.toUpperCase()} # May\r\n${otherForm(two.publicPem, 'compressed')}`;
    expect(ids(mixed)).toEqual([two.privateKey.keyId, three.privateKey.keyId]);
  });

  it.each([
    ['a word beside the key', `${one.publicPem}factory-2026\n`],
    ['a second key that is cut short', one.publicPem + two.publicPem.slice(0, 60)],
    ['a second key that is damaged', one.publicPem + two.publicPem.replace(/\n.{8}/, '\nAAAAAAAA')],
    ['two ids on a line', `${one.privateKey.keyId} ${three.privateKey.keyId}\n`],
    ['a certificate beside the key', `${one.publicPem}-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n`],
    ['a private key', one.privatePem],
    ['nothing', '# nobody\n'],
  ])('refuses the whole file for %s', (_name, text) => {
    expect(() => ids(text)).toThrow(expect.objectContaining({ code: 'bundle/key-file' }));
  });
});

describe('parsePrivateKey', () => {
  it('reads an encrypted key with its passphrase only', () => {
    const { privateKey } = generateKeyPairSync('ed25519');
    const pem = privateKey.export({ type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'x' }).toString();
    expect(parsePrivateKey(pem, 'k.key', 'x').key.equals(privateKey)).toBe(true);
    for (const passphrase of [undefined, '', 'y']) {
      expect(() => parsePrivateKey(pem, 'k.key', passphrase)).toThrow(
        expect.objectContaining({ code: 'bundle/passphrase' }),
      );
    }
  });

  it('reads an encrypted key of the older form (RFC 1421)', () => {
    const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' });
    const pem = privateKey.export({ type: 'sec1', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'x' }).toString();
    expect(pem).toContain('Proc-Type: 4,ENCRYPTED');
    expect(parsePrivateKey(pem, 'k.key', 'x').algorithm).toBe('ecdsa-p256');
    expect(() => parsePrivateKey(pem, 'k.key', 'y')).toThrow('the passphrase is wrong');
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
