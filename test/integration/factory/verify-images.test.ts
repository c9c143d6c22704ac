import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { parseImageRequest } from '../../../src/bundle/image-request.ts';
import { createBundle } from '../../../src/factory/create-bundle.ts';
import type { CreateOptions } from '../../../src/factory/create-options.ts';
import { readImagePolicy } from '../../../src/factory/verify/policy-file.ts';
import { sampleCreateOptions } from '../../support/bundles/create-options.ts';
import {
  digestOf,
  type LayoutEntry,
  type SampleImage,
  sampleImage,
  writeOciLayout,
} from '../../support/bundles/sample-image.ts';
import { dsseEnvelope, sampleReferrer, sampleSignature, signatureTag } from '../../support/bundles/sample-signature.ts';
import { dsseEntry, hashedRekord, type SampleSigner, SampleSigstore } from '../../support/bundles/sample-sigstore.ts';
import { folderForEach } from '../../support/files/temporary-folder.ts';
import { coded } from '../../support/matching.ts';
import { have } from '../../support/requirements.ts';
import { runCommand } from '../../support/run-command.ts';
import { type SourceRegistry, startSourceRegistry } from '../../support/source-registry.ts';

const { signal } = new AbortController();
const root = folderForEach();
const REPOSITORY = 'quay.example.com/edge/app';
const app = sampleImage({ seed: 'app', architecture: 'amd64', withIndex: true });
const other = sampleImage({ seed: 'other', architecture: 'amd64' });
const subject = app.top.digest;

const KEYS = {
  'P-256': generateKeyPairSync('ec', { namedCurve: 'P-256' }),
  'P-384': generateKeyPairSync('ec', { namedCurve: 'P-384' }),
  RSA: generateKeyPairSync('rsa', { modulusLength: 2048 }),
  Ed25519: generateKeyPairSync('ed25519'),
};
const good = KEYS['P-256'];
const foreign = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const spki = (key: KeyObject) => key.export({ type: 'spki', format: 'pem' }) as string;
const idOf = (key: KeyObject) => digestOf(key.export({ type: 'spki', format: 'der' })).slice('sha256:'.length);
const by =
  ({ privateKey }: { privateKey: KeyObject }, hash = 'sha256') =>
  (signed: Buffer) =>
    sign(privateKey.asymmetricKeyType === 'ed25519' ? null : hash, signed, privateKey);

const tagged = (of: string, reference: string, made: (signed: Buffer) => Buffer): LayoutEntry => ({
  image: sampleSignature(of, reference, made),
  names: [signatureTag(of)],
});
const bundled = (content: object, of = app.top): LayoutEntry => ({ image: sampleReferrer(of, undefined, content) });

beforeEach(() => {
  mkdirSync(join(root, 'keys'));
  writeFileSync(join(root, 'keys/cosign.pub'), spki(good.publicKey));
});

const SIGNED = { type: 'sigstoreSigned', keyPath: 'keys/cosign.pub' };

function policyOf(docker: object, fallback: object = { type: 'reject' }) {
  const path = join(root, 'policy.json');
  writeFileSync(path, JSON.stringify({ default: [fallback], transports: { docker } }));
  return readImagePolicy(path, signal);
}

/** A bundle of the image `app` as `edge/app:1` with these signatures. */
async function make(
  attached: readonly LayoutEntry[],
  rule: object = SIGNED,
  {
    images = [`${REPOSITORY}:1`],
    ...more
  }: { images?: readonly string[] } & Partial<Omit<CreateOptions, 'images'>> = {},
) {
  const layout = join(root, 'layout');
  writeOciLayout(layout, [{ image: app, names: ['app'] }, { image: other, names: ['other'] }, ...attached]);
  const imagePolicy = await policyOf({ [REPOSITORY]: [rule] });
  const requests = images.map((one) => (one.includes('=') ? one : `${one}=oci:${layout}:app`));
  return createBundle(sampleCreateOptions(join(root, 'bundle'), requests, { imagePolicy, ...more }), signal);
}

const refused = (text: string) => coded('bundle/source', text);

describe('an image that a key signed', () => {
  const matched = { ...SIGNED, signedIdentity: { type: 'matchRepository' } };

  it.each(Object.entries(KEYS))('goes into a bundle with .sig and key %s', async (_, pair) => {
    writeFileSync(join(root, 'keys/cosign.pub'), spki(pair.publicKey));
    const { payload } = await make([tagged(subject, REPOSITORY, by(pair))], matched);
    expect(payload.annotations).toEqual({
      'io.stickpin.verified.1': `${REPOSITORY}: signed by key ${idOf(pair.publicKey)} (cosign.pub): 1 image`,
    });
  });

  it.each(Object.entries(KEYS))('goes into a bundle with a sigstore bundle and key %s', async (name, pair) => {
    const rule = { type: 'sigstoreSigned', keyData: Buffer.from(spki(pair.publicKey)).toString('base64') };
    const hash = name === 'P-384' ? 'sha384' : 'sha256';
    const { payload } = await make([bundled({ dsseEnvelope: dsseEnvelope(subject, by(pair, hash)) })], rule);
    expect(payload.annotations).toEqual({
      'io.stickpin.verified.1': `${REPOSITORY}: signed by key ${idOf(pair.publicKey)} (keyData): 1 image`,
    });
  });

  it('may have its index or its manifest itself signed, as a message', async () => {
    const message = (bytes: Buffer) => ({ messageSignature: { signature: by(good)(bytes).toString('base64') } });
    const { payload } = await make([bundled(message(app.manifest.bytes), app.manifest)]);
    expect(Object.values(payload.annotations ?? {})).toEqual([expect.stringContaining('1 image')]);
  });

  it('must have each manifest signed that nodes may choose, where its index is not', async () => {
    const newer = sampleImage({ seed: 'newer', architecture: 'amd64' });
    const descriptor = ({ mediaType, digest, sizeBytes }: SampleImage['top']) => ({
      mediaType,
      digest,
      size: sizeBytes,
    });
    const platform = { os: 'linux', architecture: 'amd64' };
    const manifests = [
      { ...descriptor(app.manifest), platform },
      { ...descriptor(newer.manifest), platform: { ...platform, variant: 'v3' } },
    ];
    const bytes = Buffer.from(JSON.stringify({ schemaVersion: 2, manifests }));
    const mediaType = 'application/vnd.oci.image.index.v1+json';
    const top = { mediaType, digest: digestOf(bytes), sizeBytes: bytes.length, bytes };
    const both = { image: { ...app, top, blobs: [top, ...app.blobs, ...newer.blobs] }, names: ['both'] };
    const signed = [app, newer].map(({ manifest }) =>
      bundled({ dsseEnvelope: dsseEnvelope(manifest.digest, by(good)) }, manifest),
    );
    const images = [`${REPOSITORY}:1=oci:${join(root, 'layout')}:both`];
    await expect(make([both, ...signed.slice(0, 1)], SIGNED, { images })).rejects.toMatchObject(
      refused(`: ${top.digest} has no signature; ${newer.manifest.digest} has no signature; no bundle`),
    );
    await expect(make([both, ...signed], SIGNED, { images })).resolves.toBeDefined();
  });

  it('may be signed by any key of the list, and by others too', async () => {
    writeFileSync(join(root, 'other.pub'), spki(foreign.publicKey));
    const rule = { type: 'sigstoreSigned', keyPaths: ['other.pub', 'keys/cosign.pub'] };
    const attached = [
      bundled({ dsseEnvelope: dsseEnvelope(subject, by(KEYS.RSA)) }),
      bundled({ dsseEnvelope: dsseEnvelope(subject, by(good)) }),
    ];
    const { payload } = await make(attached, rule);
    expect(payload.annotations?.['io.stickpin.verified.1']).toContain(`key ${idOf(good.publicKey)} (cosign.pub)`);
  });

  it('may be signed under its own tag', async () => {
    await expect(make([tagged(subject, `${REPOSITORY}:1`, by(good))])).resolves.toBeDefined();
  });

  it('may be signed under any tag where it is requested by its digest', async () => {
    const images = [`${REPOSITORY}@${subject}`];
    await expect(make([tagged(subject, `${REPOSITORY}:9`, by(good))], SIGNED, { images })).resolves.toBeDefined();
  });
});

describe.skipIf(!have('skopeo'))('an image of a registry', () => {
  let registry: SourceRegistry;
  beforeEach(async () => {
    registry = await startSourceRegistry();
    registry.add('mirror/app', app, ['1']);
  });
  afterEach(() => registry.close());

  const create = async () => {
    const source = `${REPOSITORY}:1=docker://${registry.host}/mirror/app:1`;
    const options = { imagePolicy: await policyOf({ [REPOSITORY]: [SIGNED] }), access: { tlsVerify: false } };
    return createBundle(sampleCreateOptions(join(root, 'bundle'), [source], options), signal);
  };

  it.each([true, false])('has its signatures there, with a list of referrers: %s', async (hasList) => {
    const { image } = bundled({ dsseEnvelope: dsseEnvelope(subject, by(good)) });
    registry.add('mirror/app', hasList ? image : sampleSignature(subject, `${REPOSITORY}:1`, by(good)), [
      hasList ? 'bundle' : signatureTag(subject),
    ]);
    if (hasList) registry.listReferrers();
    await expect(create()).resolves.toBeDefined();
  });

  it('counts as unsigned without them, and says what kept them away', async () => {
    const { image } = bundled({ dsseEnvelope: dsseEnvelope(subject, by(good)) });
    registry.add('mirror/app', image, ['bundle']);
    registry.listReferrers();
    registry.drop(image.blobs[2]?.digest ?? '');
    await expect(create()).rejects.toMatchObject(
      refused(`has no signature; ${REPOSITORY}@${subject}: referrer ${image.manifest.digest} is left out: `),
    );
  });
});

describe('an artifact', () => {
  const chart = sampleReferrer(app.top, 'application/vnd.cncf.helm.config.v1+json');
  const create = async (docker: object) => {
    const layout = join(root, 'layout');
    const content = bundled({ dsseEnvelope: dsseEnvelope(subject, by(good)) });
    writeOciLayout(layout, [{ image: app, names: ['app'] }, { image: chart, names: ['chart'] }, content]);
    const artifacts = [parseImageRequest(`quay.example.com/charts/app:1=oci:${layout}:chart`)];
    const imagePolicy = await policyOf({ [REPOSITORY]: [SIGNED], ...docker });
    const options = sampleCreateOptions(join(root, 'bundle'), [`${REPOSITORY}:1=oci:${layout}:app`], {
      imagePolicy,
      artifacts,
    });
    return createBundle(options, signal);
  };

  it('travels where the policy accepts anything, and is counted', async () => {
    const { payload } = await create({ 'quay.example.com/charts': [{ type: 'insecureAcceptAnything' }] });
    expect(payload.annotations?.['io.stickpin.verified.2']).toBe(
      'quay.example.com/charts: not verified (insecureAcceptAnything): 1 artifact',
    );
  });

  it.each([
    [{}, 'default: the policy rejects it'],
    [{ '': [SIGNED] }, 'signatures of artifacts do not travel'],
  ])('is refused by %j', async (docker, text) => {
    await expect(create(docker)).rejects.toMatchObject(refused(text));
  });
});

describe('no bundle is made', () => {
  it.each<[string, readonly LayoutEntry[], object, string]>([
    ['without a signature', [], SIGNED, `${subject} has no signature`],
    [
      'with the signature of another key',
      [bundled({ dsseEnvelope: dsseEnvelope(subject, by(foreign)) })],
      SIGNED,
      `no key ${idOf(good.publicKey)} (cosign.pub) made it`,
    ],
    [
      'with a .sig of another key',
      [tagged(subject, `${REPOSITORY}:1`, by(foreign))],
      SIGNED,
      `no key ${idOf(good.publicKey)} (cosign.pub) made it`,
    ],
    [
      'with a .sig of another image',
      [{ ...tagged(other.top.digest, `${REPOSITORY}:1`, by(good)), names: [signatureTag(subject)] }],
      SIGNED,
      `it is for "${other.top.digest}", not for`,
    ],
    [
      'with a statement of another image',
      [bundled({ dsseEnvelope: dsseEnvelope(other.top.digest, by(good)) })],
      SIGNED,
      `it is for "${other.top.digest}", not for`,
    ],
    [
      'with the message of another image',
      [bundled({ messageSignature: { signature: by(good)(other.top.bytes).toString('base64') } })],
      SIGNED,
      '(cosign.pub) made it',
    ],
    [
      'with an attestation in place of a signature',
      [bundled({ dsseEnvelope: dsseEnvelope(subject, by(good), 'https://spdx.dev/Document') })],
      SIGNED,
      'predicateType: must be',
    ],
    [
      'with the signature of another repository',
      [tagged(subject, 'quay.example.com/edge/tool', by(good))],
      { ...SIGNED, signedIdentity: { type: 'matchRepository' } },
      'it is for quay.example.com/edge/tool, which signedIdentity matchRepository does not accept',
    ],
    [
      'with the signature of another tag',
      [tagged(subject, `${REPOSITORY}:2`, by(good))],
      SIGNED,
      `it is for ${REPOSITORY}:2, which signedIdentity matchRepoDigestOrExact does not accept: matchRepository would`,
    ],
    [
      'with a sigstore bundle where a repository must be named',
      [bundled({ dsseEnvelope: dsseEnvelope(subject, by(good)) })],
      { ...SIGNED, signedIdentity: { type: 'matchRepository' } },
      'it names no repository',
    ],
    ['with a malformed sigstore bundle', [bundled({ dsseEnvelope: 7 })], SIGNED, 'dsseEnvelope: must be'],
    [
      'with two signatures in an envelope',
      [
        bundled({
          dsseEnvelope: { ...dsseEnvelope(subject, by(good)), signatures: [{ sig: 'AAAA' }, { sig: 'AAAA' }] },
        }),
      ],
      SIGNED,
      'it must have one signature, of an in-toto statement',
    ],
    [
      'with a huge sigstore bundle',
      [bundled({ dsseEnvelope: dsseEnvelope(subject, by(good)), more: 'x'.repeat(300_000) })],
      SIGNED,
      'bytes, too many for a signature',
    ],
    ['where the policy rejects the image', [], { type: 'reject' }, 'the policy rejects it'],
  ])('%s', async (_, attached, rule, text) => {
    await expect(make(attached, rule)).rejects.toMatchObject(refused(text));
    await expect(make(attached, rule)).rejects.toThrow(`${REPOSITORY}:1 (${subject}) is not verified by`);
    expect(existsSync(join(root, 'bundle'))).toBe(false);
  });

  it('when one of many signatures is malformed, unless another one is good', async () => {
    const many = Array.from({ length: 20 }, (_, at) => bundled({ dsseEnvelope: at }));
    await expect(make(many)).rejects.toMatchObject(refused('dsseEnvelope'));
    const attached = [...many, bundled({ dsseEnvelope: dsseEnvelope(subject, by(good)) })];
    await expect(make(attached)).resolves.toBeDefined();
  });

  it('for an unsigned image beside a signed one, and all are named', async () => {
    const layout = join(root, 'layout');
    const images = ['tool', 'shell'].map((name) => `quay.example.com/edge/${name}:1=oci:${layout}:other`);
    const made = make([bundled({ dsseEnvelope: dsseEnvelope(subject, by(good)) })], SIGNED, {
      images: [`${REPOSITORY}:1`, ...images],
    });
    await expect(made).rejects.toThrow(
      /^2 faults: \(1\) quay\.example\.com\/edge\/tool:1 .*policy\.json, default: the policy rejects it; \(2\) quay\.example\.com\/edge\/shell:1 .*; no bundle was made/,
    );
  });

  it('when the policy wants two signers and there is one', async () => {
    writeFileSync(join(root, 'other.pub'), spki(foreign.publicKey));
    writeOciLayout(join(root, 'layout'), [
      { image: app, names: ['app'] },
      bundled({ dsseEnvelope: dsseEnvelope(subject, by(good)) }),
    ]);
    const imagePolicy = await policyOf({ '': [SIGNED, { ...SIGNED, keyPath: 'other.pub' }] });
    const options = sampleCreateOptions(join(root, 'bundle'), [`${REPOSITORY}:1=oci:${join(root, 'layout')}:app`], {
      imagePolicy,
    });
    await expect(createBundle(options, signal)).rejects.toThrow(`no key ${idOf(foreign.publicKey)} (other.pub)`);
  });

  it('when a signature is too large to travel, which is named', async () => {
    const content = { dsseEnvelope: dsseEnvelope(subject, by(good)), more: 'x'.repeat(4_200_000) };
    await expect(make([bundled(content)])).rejects.toMatchObject(
      refused('has no signature; quay.example.com/edge/app@'),
    );
  });

  it('of advisories alone', async () => {
    const advisories = [{ version: '4.13.6', deadend: true, reason: 'etcd may lose writes' }];
    const imagePolicy = await policyOf({});
    const options = sampleCreateOptions(join(root, 'bundle'), [], { imagePolicy, advisories });
    await expect(createBundle(options, signal)).rejects.toThrow('so that --verify-images would have no effect');
  });

  it('without signatures that travel', async () => {
    await expect(make([], SIGNED, { referrers: 'none' })).rejects.toMatchObject(
      coded('bundle/option', '--verify-images'),
    );
  });
});

describe('keyless signatures', () => {
  const sigstore = new SampleSigstore();
  const [OTHERS, EMAIL, ISSUER] = [new SampleSigstore(), 'dev@example.com', 'https://accounts.example.com'];
  const WORKFLOW = 'https://git.example.com/edge/app/.ci/release.yml@refs/heads/main';
  const fulcio = { oidcIssuer: ISSUER, subjectEmail: EMAIL };
  const rule = { type: 'sigstoreSigned', trustedRootPath: 'trusted_root.json', fulcio };
  const logged = { ...SIGNED, trustedRootPath: 'trusted_root.json' };
  const HOUR = 3_600_000;

  beforeEach(() => trust(sigstore.trustedRoot()));
  const trust = (content: object) => writeFileSync(join(root, 'trusted_root.json'), JSON.stringify(content));

  /** As cosign 3 makes it. */
  function sigstoreBundle({ certificate, sign: by }: SampleSigner, time?: number, more: object = {}): object {
    const envelope = dsseEnvelope(subject, by);
    return {
      mediaType: 'application/vnd.dev.sigstore.bundle.v0.3+json',
      verificationMaterial: {
        certificate: { rawBytes: certificate.toString('base64') },
        tlogEntries: [sigstore.entry(dsseEntry(envelope), time).entry],
        ...more,
      },
      dsseEnvelope: envelope,
    };
  }

  /** As cosign 2 makes it. */
  function sig({ certificate, sign: by }: SampleSigner, time?: number, more: object = {}): LayoutEntry {
    const pem = `-----BEGIN CERTIFICATE-----\n${certificate.toString('base64')}\n-----END CERTIFICATE-----\n`;
    const image = sampleSignature(subject, `${REPOSITORY}:1`, by, (signed, signature) => ({
      'dev.sigstore.cosign/certificate': pem,
      'dev.sigstore.cosign/bundle': JSON.stringify(sigstore.entry(hashedRekord(signed, signature), time).annotation),
      ...more,
    }));
    return { image, names: [signatureTag(subject)] };
  }

  it.each([
    ['a sigstore bundle', () => bundled(sigstoreBundle(sigstore.signer()))],
    ['a .sig', () => sig(sigstore.signer())],
  ])('are verified in %s', async (_, attached) => {
    const { payload } = await make([attached()], rule);
    expect(payload.annotations).toEqual({
      'io.stickpin.verified.1': `${REPOSITORY}: signed by ${EMAIL} (${ISSUER}): 1 image`,
    });
  });

  it('may be of a workflow', async () => {
    const signer = sigstore.signer({ workflow: WORKFLOW });
    const ofWorkflow = { ...rule, fulcio: { oidcIssuer: ISSUER, buildSignerURI: WORKFLOW } };
    const { payload } = await make([bundled(sigstoreBundle(signer))], ofWorkflow);
    expect(Object.values(payload.annotations ?? {})).toEqual([expect.stringContaining(WORKFLOW)]);
  });

  it('need no logs that the trusted root has not', async () => {
    trust(sigstore.trustedRoot('ctlogs'));
    await expect(make([bundled(sigstoreBundle(sigstore.signer({ isLogged: false })))], rule)).resolves.toBeDefined();
  });

  it.each<[string, () => LayoutEntry, string]>([
    ['of another person', () => bundled(sigstoreBundle(sigstore.signer({ email: 'x@example.com' }))), 'by x@example'],
    ['that looks alike', () => bundled(sigstoreBundle(sigstore.signer({ email: `a${EMAIL}` }))), `by a${EMAIL}`],
    [
      'of another issuer',
      () => bundled(sigstoreBundle(sigstore.signer({ issuer: 'https://login.example.org' }))),
      `${EMAIL} of https://login.example.org`,
    ],
    ['of a workflow', () => bundled(sigstoreBundle(sigstore.signer({ workflow: WORKFLOW }))), `by ${WORKFLOW}`],
    [
      'made after the certificate ran out',
      () => bundled(sigstoreBundle(sigstore.signer(), SampleSigstore.NOW + HOUR)),
      'not valid or expired',
    ],
    ['made so, in a .sig', () => sig(sigstore.signer(), SampleSigstore.NOW + HOUR), 'not valid or expired'],
    [
      'without an entry of the log',
      () => bundled(sigstoreBundle(sigstore.signer(), undefined, { tlogEntries: [] })),
      'expected 1 timestamps, got 0',
    ],
    [
      'without such an entry in a .sig',
      () => sig(sigstore.signer(), undefined, { 'dev.sigstore.cosign/bundle': undefined }),
      'expected 1 timestamps, got 0',
    ],
    [
      'with the entry of another signature',
      () => {
        const of = dsseEntry(dsseEnvelope(other.top.digest, sigstore.signer().sign));
        return bundled(sigstoreBundle(sigstore.signer(), undefined, { tlogEntries: [sigstore.entry(of).entry] }));
      },
      'tlog entry signature mismatch',
    ],
    [
      'in another log',
      () => {
        const signer = sigstore.signer();
        const of = OTHERS.entry(dsseEntry(dsseEnvelope(subject, signer.sign)));
        return bundled(sigstoreBundle(signer, undefined, { tlogEntries: [of.entry] }));
      },
      'inclusion promise could not be verified',
    ],
    ['of another authority', () => bundled(sigstoreBundle(OTHERS.signer())), 'Failed to verify certificate chain'],
    [
      'whose certificate is in no log',
      () => bundled(sigstoreBundle(sigstore.signer({ isLogged: false }))),
      'expected 1 SCTs, got 0',
    ],
    [
      'with the certificate of another signer',
      () => {
        const { certificate } = sigstore.signer();
        return bundled(sigstoreBundle({ ...sigstore.signer(), certificate }));
      },
      'signature verification failed',
    ],
    ['without a certificate', () => bundled({ dsseEnvelope: dsseEnvelope(subject, by(good)) }), 'invalid bundle'],
    ['with a .sig without one', () => tagged(subject, `${REPOSITORY}:1`, by(good)), 'it has no certificate'],
    [
      'with many entries of the log',
      () => bundled(sigstoreBundle(sigstore.signer(), undefined, { tlogEntries: Array.from({ length: 9 }, () => 0) })),
      'verificationMaterial.tlogEntries: must be at most 8 long',
    ],
    [
      'with a malformed certificate',
      () => bundled(sigstoreBundle({ ...sigstore.signer(), certificate: Buffer.alloc(1000, 0x30) })),
      'referrer sha256:',
    ],
    [
      'with a malformed entry in a .sig',
      () => sig(sigstore.signer(), undefined, { 'dev.sigstore.cosign/bundle': '[]' }),
      'bundle: SignedEntryTimestamp',
    ],
  ])('make no bundle %s', async (_, attached, text) => {
    await expect(make([attached()], rule)).rejects.toMatchObject(refused(text));
  });

  it('count for keys in the log only, where the policy wants so', async () => {
    const envelope = dsseEnvelope(subject, by(KEYS.Ed25519));
    writeFileSync(join(root, 'keys/cosign.pub'), spki(KEYS.Ed25519.publicKey));
    const withEntry = (tlogEntries: readonly object[]) =>
      bundled({
        mediaType: 'application/vnd.dev.sigstore.bundle.v0.3+json',
        verificationMaterial: { publicKey: { hint: '' }, tlogEntries },
        dsseEnvelope: envelope,
      });
    await expect(make([withEntry([])], logged)).rejects.toMatchObject(refused('expected 1 tlog entries, got 0'));
    const { payload } = await make([withEntry([sigstore.entry(dsseEntry(envelope)).entry])], logged);
    expect(payload.annotations?.['io.stickpin.verified.1']).toContain('(cosign.pub), logged: 1 image');
  });

  it.each<[string, object, object, string]>([
    ['no trusted root', { trustedRootPath: undefined }, {}, 'must have trustedRootPath beside fulcio'],
    ['a certificate authority in PEM', { fulcio: { ...fulcio, caPath: 'ca.pem' } }, {}, 'caPath: is not known'],
    ['no signer', { fulcio: { oidcIssuer: ISSUER } }, {}, 'must have subjectEmail or buildSignerURI'],
    ['keys too', { keyPath: 'keys/cosign.pub' }, {}, 'must have one of keyPath'],
    ['a trusted root that is none', {}, { mediaType: 'text/plain' }, 'trusted_root.json: mediaType: must be'],
    [
      'a trusted root without an authority',
      {},
      sigstore.trustedRoot('certificateAuthorities'),
      'it has no certificate authority',
    ],
    [
      'a trusted root without a log for keys',
      { ...logged, fulcio: undefined },
      sigstore.trustedRoot('tlogs'),
      'it has no transparency log',
    ],
    [
      'a malformed trusted root',
      {},
      { ...sigstore.trustedRoot(), certificateAuthorities: [{ certChain: { certificates: [{ rawBytes: 'AAAA' }] } }] },
      "trusted_root.json: it can't be read",
    ],
  ])('are refused with %s', async (_, change, content, text) => {
    trust(Object.keys(content).length === 0 ? sigstore.trustedRoot() : content);
    await expect(policyOf({ '': [{ ...rule, ...change }] })).rejects.toThrow(text);
  });
});

describe('bundle create --verify-images', () => {
  const RELEASE = ['--name', 'ocp', '--version', '4.13.7', '--arch', 'amd64', '--sequence', '1'];
  const create = (...args: string[]) => {
    const image = `${REPOSITORY}:1=oci:${join(root, 'layout')}:app`;
    const to = ['--image', image, '--verify-images', join(root, 'policy.json'), '--out', join(root, 'bundle')];
    return runCommand(['bundle', 'create', ...RELEASE, ...to, ...args]);
  };

  beforeEach(() => {
    const content = bundled({ dsseEnvelope: dsseEnvelope(subject, by(good)) });
    writeOciLayout(join(root, 'layout'), [{ image: app, names: ['app'] }, content]);
  });

  it('names the signers, which bundle inspect prints', async () => {
    await policyOf({ '': [SIGNED] });
    expect(await create()).toMatchObject({ exitCode: 0 });
    const { stdout } = await runCommand(['bundle', 'inspect', join(root, 'bundle')]);
    expect(stdout).toContain(`  verified    docker: signed by key ${idOf(good.publicKey)} (cosign.pub): 1 image\n`);
  });

  it('reports a faulty policy with the other faults', async () => {
    writeFileSync(join(root, 'policy.json'), '{}');
    const { exitCode, stderr } = await create('--without-signatures', '--expires', 'soon');
    expect(stderr).toContain('default: is missing');
    expect(stderr).toContain('expires: must be');
    expect(exitCode).toBe(2);
  });
});

describe('a policy', () => {
  it.each([
    [`${REPOSITORY}:1`],
    [`${REPOSITORY}@${subject}`],
    [REPOSITORY],
    ['quay.example.com/edge'],
    ['quay.example.com'],
    ['*.example.com'],
    [''],
  ])('has the scope %j for the image', async (scope) => {
    const imagePolicy = await policyOf({ [scope]: [{ type: 'insecureAcceptAnything' }], 'quay.example.org': [SIGNED] });
    const { payload } = await make([], SIGNED, { imagePolicy });
    expect(Object.values(payload.annotations ?? {})).toEqual([
      `${scope || 'docker'}: not verified (insecureAcceptAnything): 1 image`,
    ]);
  });

  it('decides by the most specific scope', async () => {
    const anything = [{ type: 'insecureAcceptAnything' }];
    const imagePolicy = await policyOf({ 'quay.example.com': anything, [`${REPOSITORY}:1`]: [{ type: 'reject' }] });
    await expect(make([], SIGNED, { imagePolicy })).rejects.toMatchObject(
      refused(`policy.json, ${REPOSITORY}:1: the policy`),
    );
  });

  it.each<[string, object | string, string]>([
    ['text that is no JSON', 'default', 'is not JSON'],
    ['no default', {}, 'default: is missing'],
    ['an empty default', { default: [] }, 'default: must'],
    ['another member', { default: [{ type: 'reject' }], keys: [] }, 'keys: is not known'],
    ['another transport', { default: [{ type: 'reject' }], transports: { oci: {} } }, 'transports.oci: is not known'],
    ['GPG', { default: [{ type: 'signedBy', keyType: 'GPGKeys', keyPath: 'a' }] }, 'default.0.type: must be'],
    ['no key', { default: [{ type: 'sigstoreSigned' }] }, 'must have one of keyPath'],
    ['two keys', { default: [{ ...SIGNED, keyData: 'AAAA' }] }, 'must have one of keyPath'],
    ['a log', { default: [{ ...SIGNED, rekorPublicKeyPath: 'a' }] }, 'default.0.rekorPublicKeyPath: is not known'],
    [
      'an identity that is remapped',
      { default: [{ ...SIGNED, signedIdentity: { type: 'remapIdentity', prefix: 'a', signedPrefix: 'b' } }] },
      'signedIdentity.type: must be "matchRepoDigestOrExact" or "matchRepository", and is "remapIdentity"',
    ],
    [
      'a scope that no image has',
      { default: [SIGNED], transports: { docker: { 'docker://quay.io': [SIGNED] } } },
      'must be a registry',
    ],
    ['a missing key file', { default: [{ ...SIGNED, keyPath: 'gone.pub' }] }, 'gone.pub can'],
    ['a key file with no key', { default: [{ ...SIGNED, keyPath: 'policy.json' }] }, 'one public key in PEM'],
    ['a private key', { default: [{ ...SIGNED, keyPath: 'private.pem' }] }, 'it holds a private key'],
    ['a key of another kind', { default: [{ ...SIGNED, keyPath: 'p521.pub' }] }, 'it must be an ECDSA P-256'],
    [
      'a scope twice',
      '{"default":[{"type":"reject"}],"transports":{"docker":{"a.b/c:1":[{"type":"reject"}],"a.b/c:1":[{"type":"reject"}]}}}',
      'is there twice',
    ],
    ['megabytes', { default: [SIGNED], more: 'x'.repeat(2_000_000) }, 'are allowed'],
  ])('is refused with %s', async (_, content, text) => {
    writeFileSync(join(root, 'private.pem'), good.privateKey.export({ type: 'pkcs8', format: 'pem' }));
    writeFileSync(join(root, 'p521.pub'), spki(generateKeyPairSync('ec', { namedCurve: 'P-521' }).publicKey));
    const path = join(root, 'policy.json');
    writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content));
    await expect(readImagePolicy(path, signal)).rejects.toThrow(text);
  });
});
