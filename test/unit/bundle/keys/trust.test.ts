import { createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto';
import { rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { loadTrustedKeys } from '../../../../src/bundle/keys/trust.ts';
import { withRotation } from '../../../../src/bundle/keys/with-rotation.ts';
import { digestFromHex } from '../../../../src/domain/model/digest.ts';
import { installKeys, type SampleKey, sampleKey } from '../../../support/bundles/sample-bundle.ts';
import { temporaryFolder } from '../../../support/files/temporary-folder.ts';

let folder: string;
beforeEach(() => {
  folder = temporaryFolder();
});
const load = () => loadTrustedKeys(folder, new AbortController().signal);

describe('loadTrustedKeys', () => {
  it('reads all *.pub, sorted by name, and the same key once', async () => {
    const [a, b] = [sampleKey('a'), sampleKey('b', 'ecdsa-p256')];
    installKeys(folder, [b, a, { ...a, name: 'copy-of-a' }]);
    const { keys, problems } = await load();
    expect(keys.map((key) => [key.name, key.keyId])).toEqual([
      ['a', a.privateKey.keyId],
      ['b', b.privateKey.keyId],
    ]);
    expect(problems).toEqual([]);
  });

  it('leaves a bad file out and names it', async () => {
    installKeys(folder, [sampleKey('good')]);
    writeFileSync(join(folder, 'bad.pub'), 'nonsense');
    writeFileSync(join(folder, 'big.pub'), Buffer.alloc(20_000));
    symlinkSync('/nowhere', join(folder, 'gone.pub'));
    writeFileSync(join(folder, 'key.pem'), '');
    writeFileSync(join(folder, '.good.pub.swp'), '');
    const { keys, problems } = await load();
    expect(keys.map((key) => key.name)).toEqual(['good']);
    expect(problems.map((problem) => problem.file)).toEqual(['bad.pub', 'big.pub', 'gone.pub', 'key.pem']);
    for (const problem of problems) expect(problem.message).toContain(join(folder, problem.file));
  });

  describe('a private key', () => {
    const ec = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey;
    const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey;
    const ed = generateKeyPairSync('ed25519').privateKey;
    const der = (key: KeyObject, type: 'pkcs8' | 'sec1' | 'pkcs1') =>
      key.export({ format: 'der', type } as never) as never as Buffer;
    const secret = { cipher: 'aes-256-cbc', passphrase: 'x' } as const;

    it.each<[string, string | Buffer]>([
      ['PKCS#8 in DER', der(ed, 'pkcs8')],
      ['SEC1 in DER', der(ec, 'sec1')],
      ['PKCS#1 in DER', der(rsa, 'pkcs1')],
      ['encrypted PKCS#8 in DER', ed.export({ format: 'der', type: 'pkcs8', ...secret })],
      ['encrypted PKCS#8 in PEM', ed.export({ format: 'pem', type: 'pkcs8', ...secret })],
      ['DER in Base64', der(ed, 'pkcs8').toString('base64')],
      ['PEM in UTF-16', Buffer.from(String(ed.export({ format: 'pem', type: 'pkcs8' })), 'utf16le')],
      ['OpenSSH', '-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEA\n'],
      ['OpenSSH without armour', Buffer.from('b3BlbnNzaC1rZXktdjEAAAAABG5vbmU=', 'base64')],
      ['cosign', '-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\neyJ\n'],
      ['older cosign', '-----BEGIN ENCRYPTED COSIGN PRIVATE KEY-----\neyJ\n'],
      ['minisign', 'untrusted comment: minisign encrypted secret key\nRWRTY0IyQ1wEo9d3\n'],
      ['a JSON Web Key', JSON.stringify(ed.export({ format: 'jwk' }))],
    ])('is found as %s, whatever its name', async (_form, content) => {
      installKeys(folder, [sampleKey('good')]);
      for (const file of ['notes', 'spare.pub']) writeFileSync(join(folder, file), content);
      const { keys, problems } = await load();
      expect(keys.map((key) => key.name)).toEqual(['good']);
      expect(problems).toEqual(
        ['notes', 'spare.pub'].map((file) => expect.objectContaining({ file, isPrivateKey: true })),
      );
      expect(problems[0]?.message).toBe(`PRIVATE KEY in ${join(folder, 'notes')}`);
    });

    it.each<[string, string | Buffer]>([
      ['a public key in DER', createPublicKey(ec).export({ format: 'der', type: 'spki' })],
      [
        'a public key of minisign',
        'untrusted comment: minisign public key 1\nRWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3\n',
      ],
      ['ids of keys', `${'30'.repeat(32)}\n`],
    ])('is not seen in %s', async (_what, content) => {
      writeFileSync(join(folder, 'notes'), content);
      expect((await load()).problems).toMatchObject([
        { file: 'notes', message: expect.stringContaining('is ignored') },
      ]);
    });
  });

  it('does not trust a revoked key under any file name', async () => {
    const [kept, lost] = [sampleKey('kept'), sampleKey('lost')];
    installKeys(folder, [kept, lost]);
    writeFileSync(join(folder, 'stolen-in-may.revoked'), lost.publicPem);
    expect((await load()).keys.map((key) => key.name)).toEqual(['kept']);
  });

  it('trusts no key while a revocation can not be read', async () => {
    installKeys(folder, [sampleKey('kept')]);
    writeFileSync(join(folder, 'lost.revoked'), 'nonsense');
    expect(await load()).toMatchObject({ keys: [], problems: [{ file: 'lost.revoked' }] });
  });

  it('takes a folder that is not there as empty', async () => {
    rmSync(folder, { recursive: true });
    expect(await load()).toMatchObject({ folder, keys: [], problems: [] });
  });

  it('has a revision that changes with the set and only with it', async () => {
    const revisions = [(await load()).revision];
    installKeys(folder, [sampleKey('a')]);
    revisions.push((await load()).revision);
    expect((await load()).revision).toBe(revisions[1]);
    installKeys(folder, [sampleKey('b')]);
    revisions.push((await load()).revision);
    writeFileSync(join(folder, 'b.revoked'), 'bad');
    revisions.push((await load()).revision);
    expect(new Set(revisions).size).toBe(4);
  });
});

describe('*.revoked', () => {
  it('names key ids, one a line, with comments', async () => {
    const [kept, lost, stolen] = [sampleKey('kept'), sampleKey('lost'), sampleKey('stolen')];
    installKeys(folder, [kept, lost, stolen]);
    const text = `# since May\r\n${lost.privateKey.keyId.toUpperCase()} # lost\n\n${stolen.privateKey.keyId}\n`;
    writeFileSync(join(folder, 'may.revoked'), text);
    const { keys, revoked, revocationsUnreadable } = await load();
    expect(keys.map((key) => key.name)).toEqual(['kept']);
    expect(revoked).toEqual([lost.privateKey.keyId, stolen.privateKey.keyId].sort());
    expect(revocationsUnreadable).toBe(false);
  });

  it.each(['', '# nobody\n', '5f0c8a', `${'a'.repeat(64)}\nfactory-2026\n`])('that says %j blinds', async (text) => {
    installKeys(folder, [sampleKey('kept')]);
    writeFileSync(join(folder, 'bad.revoked'), text);
    expect(await load()).toMatchObject({ keys: [], revocationsUnreadable: true, problems: [{ file: 'bad.revoked' }] });
  });
});

describe('withRotation', () => {
  const bundleId = digestFromHex('0'.repeat(64));
  const rotating = (keys: readonly SampleKey[], revoked: readonly SampleKey[] = []) => ({
    keys: keys.map((key) => ({ keyId: key.privateKey.keyId, pem: key.publicPem, bundleId })),
    revoked: revoked.map((key) => ({ keyId: key.privateKey.keyId, bundleId })),
  });
  const [own, next] = [sampleKey('own'), sampleKey('next', 'ecdsa-p256')];
  const names = (trusted: { keys: readonly { name: string }[] }) => trusted.keys.map((key) => key.name);

  it('adds keys, each once, and takes revoked ones away', async () => {
    installKeys(folder, [own]);
    const loaded = await load();
    const both = withRotation(loaded, rotating([next, own]));
    expect(names(both)).toEqual(['own', next.privateKey.keyId.slice(0, 12)]);
    expect(both.revision).not.toBe(loaded.revision);
    expect(names(withRotation(loaded, rotating([next], [own])))).toEqual([next.privateKey.keyId.slice(0, 12)]);
  });

  it('does not restore a key that the administrator or an earlier bundle revoked', async () => {
    installKeys(folder, [own]);
    writeFileSync(join(folder, 'next.revoked'), next.privateKey.keyId);
    expect(names(withRotation(await load(), rotating([next])))).toEqual(['own']);
    rmSync(join(folder, 'next.revoked'));
    expect(names(withRotation(await load(), rotating([next], [next])))).toEqual(['own']);
  });

  it('trusts none while a revocation of the administrator cannot be read', async () => {
    writeFileSync(join(folder, 'bad.revoked'), 'nonsense');
    expect(names(withRotation(await load(), rotating([next])))).toEqual([]);
  });
});
