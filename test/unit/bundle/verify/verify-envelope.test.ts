import { describe, expect, it } from 'vitest';
import type { Envelope } from '../../../../src/bundle/format/dsse.ts';
import { parsePublicKey } from '../../../../src/bundle/keys/keys.ts';
import { keysInForce, type Trust } from '../../../../src/bundle/keys/trusted-keys.ts';
import { bundleIdOf, verifyEnvelope } from '../../../../src/bundle/verify/verify-envelope.ts';
import { signEnvelope, unsignedEnvelope } from '../../../../src/factory/payload/sign-envelope.ts';
import { type SampleKey, sampleKey } from '../../../support/bundles/sample-bundle.ts';

const factory = sampleKey('factory-2026');
const audit = sampleKey('audit', 'ecdsa-p256');
const stranger = sampleKey('stranger');
const payload = Buffer.from('{"any":"bytes"}');

function trust(keys: readonly SampleKey[], threshold = 1, revoked: readonly SampleKey[] = []): Trust {
  const loaded = keys.map((key) => ({ name: key.name, ...parsePublicKey(key.publicPem, key.name) }));
  return {
    keys: keysInForce({
      folder: '/etc/stickpin/keys.d',
      published: loaded,
      roles: [],
      ambiguous: new Set(),
      revoked: revoked.map(({ privateKey: { keyId } }) => ({ keyId })),
      byFile: [],
      isListed: true,
      problems: [],
    }),
    threshold,
  };
}

function signed(...keys: readonly SampleKey[]): Envelope {
  return keys.map((key) => key.privateKey).reduce(signEnvelope, unsignedEnvelope(payload));
}

async function reasonFor(
  envelope: Envelope,
  trusted: Trust,
): Promise<{ code: string; message: string; disposition: string }> {
  try {
    await verifyEnvelope(envelope, trusted);
  } catch (error) {
    const { code, message, disposition } = error as { code: string; message: string; disposition: string };
    return { code, message, disposition };
  }
  throw new Error('was trusted');
}

describe('verifyEnvelope', () => {
  it('gives the payload, its digest and who signed', async () => {
    const { signers, ...verified } = await verifyEnvelope(signed(stranger, factory, audit), trust([factory, audit]));
    expect(verified).toEqual({ bundleId: bundleIdOf(payload), payload, isVouched: false });
    expect(signers.map(({ name, keyId }) => [name, keyId]).sort()).toEqual([
      ['audit', audit.privateKey.keyId],
      ['factory-2026', factory.privateKey.keyId],
    ]);
  });

  it('takes keyid as a hint only', async () => {
    const envelope = signed(factory);
    const lying = envelope.signatures.map((signature) => ({ ...signature, keyId: audit.privateKey.keyId }));
    const silent = envelope.signatures.map((signature) => ({ ...signature, keyId: '' }));
    for (const signatures of [lying, silent]) {
      expect((await verifyEnvelope({ ...envelope, signatures }, trust([factory, audit]))).signers).toMatchObject([
        { name: 'factory-2026' },
      ]);
    }
  });

  it('counts a key once, however often it signed', async () => {
    const envelope = signed(audit);
    const again = signed(audit).signatures;
    const twice = { ...envelope, signatures: [...envelope.signatures, ...again] };
    expect(await reasonFor(twice, trust([factory, audit], 2))).toMatchObject({
      code: 'bundle/threshold',
      message: expect.stringContaining('signed by audit only, and 2 distinct trusted keys'),
    });
    expect((await verifyEnvelope(signed(factory, audit), trust([factory, audit], 2))).signers).toHaveLength(2);
  });

  it('says where to put a key when none is installed', async () => {
    expect(await reasonFor(signed(factory), trust([]))).toMatchObject({
      code: 'bundle/no-key',
      disposition: 'wait',
      message: expect.stringContaining("copy the factory's .pub file to /etc/stickpin/keys.d"),
    });
  });

  it('says that the only key is revoked, whoever signed, and what to do', async () => {
    const id = factory.privateKey.keyId.slice(0, 12);
    const remedy = `copy the .pub file of a new key to /etc/stickpin/keys.d, or, if the key was revoked by mistake, run 'stickpin trust restore ${id}'`;
    const only = trust([factory], 1, [factory]);
    expect(await reasonFor(signed(factory), only)).toEqual({
      code: 'bundle/revoked-key',
      disposition: 'wait',
      message: `signature by revoked key ${id}…, which does not count, and no other key is trusted: ${remedy}`,
    });
    expect(await reasonFor(signed(stranger), only)).toEqual({
      code: 'bundle/no-key',
      disposition: 'wait',
      message: `no key is trusted, since factory-2026 is revoked: ${remedy}`,
    });
    const { message } = await reasonFor(signed(stranger), trust([factory, audit], 1, [audit, factory]));
    expect(message).toMatch(/since factory-2026, audit are revoked: .* 'stickpin trust restore KEYID'$/);
  });

  it('names an unknown key', async () => {
    const { code, message } = await reasonFor(signed(stranger), trust([factory]));
    expect(code).toBe('bundle/unknown-key');
    expect(message).toContain(`unknown key ${stranger.privateKey.keyId.slice(0, 12)}…`);
  });

  it('distinguishes a changed payload from an unknown key', async () => {
    const tampered = { ...signed(factory), payload: Buffer.from('{"any":"Bytes"}') };
    expect(await reasonFor(tampered, trust([factory, audit]))).toMatchObject({
      code: 'bundle/bad-signature',
      message: expect.stringContaining('signature by factory-2026'),
    });
  });

  it('covers the payload type', async () => {
    const other = { ...signed(factory), payloadType: 'application/vnd.stickpin.bundle.v1' };
    expect((await reasonFor(other, trust([factory]))).code).toBe('bundle/bad-signature');
  });

  it('refuses an envelope without signatures', async () => {
    expect((await reasonFor(unsignedEnvelope(payload), trust([factory]))).code).toBe('bundle/unsigned');
  });

  it.each([Buffer.alloc(0), Buffer.alloc(64), Buffer.from('3006020100020100', 'hex')])(
    'takes junk for no signature (%#)',
    async (signature) => {
      const envelope = { ...unsignedEnvelope(payload), signatures: [{ keyId: '', signature }] };
      expect((await reasonFor(envelope, trust([factory, audit]))).code).toBe('bundle/unknown-key');
    },
  );

  it('says that a key is revoked, which is not the same as unknown', async () => {
    const revoking = trust([audit]);
    const trusted = { ...revoking, keys: { ...revoking.keys, revokedIds: new Set([factory.privateKey.keyId]) } };
    expect((await reasonFor(signed(factory), trusted)).code).toBe('bundle/revoked-key');
    expect((await reasonFor(signed(stranger), trusted)).code).toBe('bundle/unknown-key');
  });

  it('needs no signature for a digest that is vouched for, and that digest alone', async () => {
    const vouched = new Set([bundleIdOf(payload)]);
    for (const envelope of [unsignedEnvelope(payload), signed(stranger)]) {
      expect(await verifyEnvelope(envelope, { ...trust([]), vouched })).toMatchObject({ signers: [], isVouched: true });
      const other = { ...envelope, payload: Buffer.from('{}') };
      await expect(verifyEnvelope(other, { ...trust([factory]), vouched })).rejects.toThrow();
    }
    expect((await verifyEnvelope(signed(factory), { ...trust([factory], 2), vouched })).signers).toMatchObject([
      { name: 'factory-2026' },
    ]);
  });

  it('tries the keys that are hinted at first, and a limited number of the others', async () => {
    const others = Array.from({ length: 5 }, (_, at) => sampleKey(`other-${at}`));
    const junk = Array.from({ length: 63 }, () => ({ keyId: '', signature: Buffer.alloc(64) }));
    const { signatures, ...envelope } = signed(factory);
    const keys = trust([...others, factory]);
    const hinted = { ...envelope, signatures: [...junk, ...signatures] };
    expect((await verifyEnvelope(hinted, keys)).signers).toMatchObject([{ name: 'factory-2026' }]);
    const unhinted = { ...envelope, signatures: [...junk, ...signatures.map((one) => ({ ...one, keyId: '' }))] };
    expect(await reasonFor(unhinted, keys)).toMatchObject({
      code: 'bundle/unknown-key',
      message: expect.stringMatching(/none of its 64 signatures .* only 256 pairs .* are tried/),
    });
  });

  it('leaves the thread that calls it free', async () => {
    const { signatures, ...envelope } = signed(factory);
    const junk = Array.from({ length: 63 }, () => ({ keyId: '', signature: Buffer.alloc(64) }));
    let turns = 0;
    const count = () => {
      turns += 1;
      timer = setImmediate(count);
    };
    let timer = setImmediate(count);
    await verifyEnvelope({ ...envelope, signatures: [...junk, ...signatures] }, trust([factory, audit]));
    clearImmediate(timer);
    expect(turns).toBeGreaterThan(1);
  });
});
