import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { formatEnvelope, parseEnvelope, preAuthenticationEncoding } from '../../../../src/bundle/format/dsse.ts';
import { parsePrivateKey } from '../../../../src/bundle/keys/keys.ts';
import { loadTrustedKeys } from '../../../../src/bundle/keys/trust.ts';
import { generateKey, signBundle } from '../../../../src/factory/payload/sign-envelope.ts';
import { readBundles } from '../../../support/bundles/read-bundles.ts';
import { makeSampleBundle } from '../../../support/bundles/sample-bundle.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';
import { have } from '../../../support/requirements.ts';

const { signal } = new AbortController();
const root = folderForEach();

const at = (name: string) => join(root, name);
const openssl = (...args: string[]) => execFileSync('openssl', args, { stdio: ['ignore', 'pipe', 'pipe'] });

/** Openssl's own way to make and check a signature over a file. */
const ways = {
  ed25519: {
    genpkey: ['-algorithm', 'ed25519'],
    sign: (key: string, file: string, out: string) =>
      openssl('pkeyutl', '-sign', '-rawin', '-inkey', key, '-in', file, '-out', out),
    verify: (key: string, file: string, sig: string) =>
      spawnSync('openssl', ['pkeyutl', '-verify', '-rawin', '-pubin', '-inkey', key, '-in', file, '-sigfile', sig]),
  },
  'ecdsa-p256': {
    genpkey: ['-algorithm', 'EC', '-pkeyopt', 'ec_paramgen_curve:P-256'],
    sign: (key: string, file: string, out: string) => openssl('dgst', '-sha256', '-sign', key, '-out', out, file),
    verify: (key: string, file: string, sig: string) =>
      spawnSync('openssl', ['dgst', '-sha256', '-verify', key, '-signature', sig, file]),
  },
} as const;

describe.runIf(have('openssl'))('openssl', () => {
  it.each(['ed25519', 'ecdsa-p256'] as const)('checks our signatures with %s', async (algorithm) => {
    const key = await generateKey(at('factory'), algorithm);
    const bundle = await makeSampleBundle({ dir: root, keys: [] });
    await signBundle(bundle.path, parsePrivateKey(readFileSync(key.privatePath, 'utf8'), 'factory.key'), signal);

    const { payloadType, payload, signatures } = parseEnvelope(readFileSync(join(bundle.path, 'bundle.dsse.json')));
    writeFileSync(at('pae'), preAuthenticationEncoding(payloadType, payload));
    writeFileSync(at('sig'), signatures[0]?.signature ?? '');
    expect(ways[algorithm].verify(key.publicPath, at('pae'), at('sig')).status).toBe(0);
    writeFileSync(at('pae'), preAuthenticationEncoding(payloadType, Buffer.concat([payload, Buffer.from(' ')])));
    expect(ways[algorithm].verify(key.publicPath, at('pae'), at('sig')).status).not.toBe(0);

    const der = openssl('pkey', '-pubin', '-in', key.publicPath, '-outform', 'DER');
    writeFileSync(at('der'), der);
    expect(openssl('dgst', '-sha256', '-r', at('der')).toString()).toMatch(new RegExp(`^${key.keyId} `));
  });

  it.each(['ed25519', 'ecdsa-p256'] as const)('makes keys and signatures that we trust with %s', async (algorithm) => {
    openssl('genpkey', ...ways[algorithm].genpkey, '-out', at('hsm.pem'));
    openssl('pkey', '-in', at('hsm.pem'), '-pubout', '-out', at('hsm.pub'));
    const bundle = await makeSampleBundle({ dir: join(root, 'stickpin'), keys: [] });
    const file = join(bundle.path, 'bundle.dsse.json');
    const envelope = parseEnvelope(readFileSync(file));
    writeFileSync(at('pae'), preAuthenticationEncoding(envelope.payloadType, envelope.payload));
    ways[algorithm].sign(at('hsm.pem'), at('pae'), at('sig'));
    const signature = readFileSync(at('sig'));
    writeFileSync(file, formatEnvelope({ ...envelope, signatures: [{ keyId: '', signature }] }));

    const keys = await loadTrustedKeys(root, signal);
    const found = await readBundles(root, { trust: { keys, threshold: 1 }, layout: 'medium' }, signal);
    expect(found).toMatchObject([{ kind: 'verified', bundle: { signedBy: ['hsm'] } }]);
    expect(parsePrivateKey(readFileSync(at('hsm.pem'), 'utf8'), 'hsm.pem').keyId).toBe(keys.keys[0]?.keyId);
  });
});
