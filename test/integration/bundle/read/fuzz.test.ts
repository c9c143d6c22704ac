import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, describe, expect, it } from 'vitest';
import { checkContents, parseContents } from '../../../../src/bundle/format/check-contents.ts';
import { formatEnvelope, parseEnvelope } from '../../../../src/bundle/format/dsse.ts';
import {
  mediaTypes,
  parseConfig,
  parseImageDocument,
  parseIndex,
  parseManifest,
} from '../../../../src/bundle/format/oci-schema.ts';
import { parsePayload } from '../../../../src/bundle/format/schema.ts';
import { parsePaxRecords, parseTarHeader, readTarMembers } from '../../../../src/bundle/format/tar-header.ts';
import { parseImageRequest } from '../../../../src/bundle/image-request.ts';
import { parsePrivateKey, parsePublicKey } from '../../../../src/bundle/keys/keys.ts';
import { loadTrustedKeys } from '../../../../src/bundle/keys/trust.ts';
import { keysInForce } from '../../../../src/bundle/keys/trusted-keys.ts';
import { verifyEnvelope } from '../../../../src/bundle/verify/verify-envelope.ts';
import { parseReference } from '../../../../src/domain/model/reference.ts';
import {
  formatSchemeTag,
  impliedTags,
  isVersion,
  isVersionRange,
  parseSchemeTag,
} from '../../../../src/domain/model/version.ts';
import { parseImagesFile } from '../../../../src/factory/images/images-file.ts';
import { signEnvelope, unsignedEnvelope } from '../../../../src/factory/payload/sign-envelope.ts';
import { AppError } from '../../../../src/platform/app-error.ts';
import { textsIn } from '../../../fuzz/target.ts';
import { plainPayload } from '../../../support/bundles/plain-payload.ts';
import { installKeys, sampleKey } from '../../../support/bundles/sample-bundle.ts';
import { sumUp, tarArchive } from '../../../support/bundles/tar-archive.ts';
import { inMemoryFile } from '../../../support/files/in-memory-file.ts';
import { temporaryFolder } from '../../../support/files/temporary-folder.ts';
import { damagedBytes, damagedJson, fuzz } from '../../../support/fuzz.ts';
import { coded } from '../../../support/matching.ts';

const digest = `sha256:${'ab'.repeat(32)}`;
const other = `sha256:${'cd'.repeat(32)}`;
const key = sampleKey('factory');
const audit = sampleKey('audit', 'ecdsa-p256');
const trust = {
  keys: keysInForce({
    folder: '/k',
    published: [key, audit].map(({ name, publicPem }) => ({ name, ...parsePublicKey(publicPem, name) })),
    roles: [],
    ambiguous: new Set(),
    revoked: [],
    byFile: [],
    isListed: true,
    problems: [],
  }),
  threshold: 2,
};
const payload = {
  ...plainPayload,
  totals: { ...plainPayload.totals, blobs: 4 },
  expires: '2027-01-01T00:00:00+02:00',
  update: { from: '>=4.12.0', rollout: { start: '2026-01-02T00:00:00Z', startPercentage: 0.1 }, base: digest },
  schedule: 'manual',
  advisories: [{ version: '4.13.5', deadend: true, reason: 'loses data' }],
  trust: { keys: [key.publicPem], revoked: ['0'.repeat(64)] },
  attachments: [{ name: 'notes.txt', mediaType: 'text/plain', digest, size: 5 }],
  warnings: ['x'],
  annotations: { a: 'b' },
};
const contents = {
  layers: [{ digest: other, sizeBytes: 5, diffId: digest, uncompressedBytes: 9, diskBytes: 4096, inodes: 1 }],
  images: [
    {
      reference: `quay.io/coreos/etcd@${digest}`,
      digest,
      mediaType: mediaTypes.ociManifest,
      tags: ['quay.io/coreos/etcd:3.5.9'],
      component: 'etcd',
      pin: true,
      layers: [0],
    },
  ],
};
const descriptor = { mediaType: mediaTypes.ociManifest, digest, size: 4 };
const documents = {
  index: {
    schemaVersion: 2,
    manifests: [{ ...descriptor, platform: { architecture: 'amd64', os: 'linux' }, annotations: { a: 'b' } }],
  },
  manifest: { schemaVersion: 2, config: { ...descriptor, mediaType: mediaTypes.ociConfig }, layers: [descriptor] },
  config: { architecture: 'amd64', os: 'linux', rootfs: { type: 'layers', diff_ids: [digest] } },
};

function attemptLater<T>(parse: () => Promise<T>): Promise<T | undefined> {
  return (async () => parse())().catch((error: unknown) =>
    attempt((): T => {
      throw error;
    }),
  );
}

/** The result, or undefined when an AppError was thrown. Anything else is passed on. */
function attempt<T>(parse: () => T): T | undefined {
  try {
    return parse();
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    // What was thrown is shown on a terminal and written into the journal.
    expect(error.message.length).toBeLessThan(20_000);
    return undefined;
  }
}

/** Text or bytes: damaged as JSON, or as what JSON is made of. */
function damaged(good: unknown): fc.Arbitrary<Buffer> {
  return fc.oneof(
    { weight: 3, arbitrary: damagedJson(good).map((text) => Buffer.from(text)) },
    { weight: 1, arbitrary: damagedBytes(Buffer.from(JSON.stringify(good))) },
  );
}

afterEach(() => {
  expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
});

describe('reading gives a result or an AppError for', () => {
  const envelope = [key, audit].reduce(
    (signed, { privateKey }) => signEnvelope(signed, privateKey),
    unsignedEnvelope(Buffer.from(JSON.stringify(payload))),
  );

  it('damaged envelopes, and what is trusted all the same is what was signed', async () => {
    const file = formatEnvelope(envelope);
    const inputs = fc.oneof(
      damagedBytes(file),
      damagedJson(JSON.parse(file.toString())).map((text) => Buffer.from(text)),
    );
    await fuzz('envelopes', 2500, inputs, async (bytes) => {
      const verified = await attemptLater(() => verifyEnvelope(parseEnvelope(bytes), trust));
      if (verified !== undefined) expect(verified.payload.equals(envelope.payload)).toBe(true);
    });
  });

  it('damaged payloads that were signed', async () => {
    await fuzz('payloads, signed again', 2500, damaged(payload), async (bytes) => {
      const signed = [key, audit].reduce(
        (one, { privateKey }) => signEnvelope(one, privateKey),
        unsignedEnvelope(bytes),
      );
      const verified = await attemptLater(() => verifyEnvelope(parseEnvelope(formatEnvelope(signed)), trust));
      if (verified === undefined) return;
      expect(verified.payload.equals(bytes)).toBe(true);
      const parsed = attempt(() => parsePayload(verified.payload));
      if (parsed === undefined) return;
      expect(Object.keys(payload)).toEqual(expect.arrayContaining(Object.keys(parsed)));
      // Keys are PEM, in lines; every other text can be shown as it is.
      const { trust: _keys, ...shown } = parsed;
      for (const text of textsIn(shown)) expect(text).not.toMatch(/\p{Cc}/u);
    });
  });

  it('damaged contents', async () => {
    await fuzz('contents.json', 2500, damaged(contents), (bytes) => {
      const parsed = attempt(() => parseContents(bytes));
      if (parsed === undefined) return;
      attempt(() => checkContents(parsed, parsePayload(Buffer.from(JSON.stringify(payload)))));
    });
  });

  it('damaged indexes, manifests and configs', async () => {
    const inputs = fc.oneof(...Object.values(documents).map((document) => damaged(document)));
    await fuzz('OCI documents', 2500, inputs, (bytes) => {
      for (const parse of [parseIndex, parseManifest, parseImageDocument, parseConfig]) {
        attempt(() => parse(bytes, 'it', 'bundle/inconsistent'));
      }
    });
  });

  it('damaged tar headers, checksums right or wrong', async () => {
    const good = tarArchive([{ path: 'blobs/sha256/x', bytes: Buffer.alloc(700) }]).subarray(0, 512);
    const numbers = fc.constantFrom(
      ...[[0x80, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], [0xff], [0x80, 0, 0, 0, 0, 0x1f], [0x39]],
    );
    const inputs = fc.record({
      bytes: damagedBytes(good),
      size: fc.option(numbers),
      type: fc.option(fc.constantFrom(...'01234567xgLKSDM\0')),
      summed: fc.boolean(),
    });
    await fuzz('tar headers', 2000, inputs, ({ bytes, size, type, summed }) => {
      const block = Buffer.concat([bytes, Buffer.alloc(512)], 512);
      if (size !== null) block.set(size, 124);
      if (type !== null) block.write(type, 156, 'latin1');
      if (summed) sumUp(block);
      const header = attempt(() => parseTarHeader(block));
      if (header !== undefined) expect(Number.isSafeInteger(header.storedBytes) && header.storedBytes >= 0).toBe(true);
    });
  });

  it('damaged pax headers', async () => {
    const good = Buffer.from('30 mtime=1700000000.123456789\n20 path=blobs/sha256\n12 size=700\n');
    await fuzz('pax headers', 1000, damagedBytes(good), (bytes) => {
      attempt(() => parsePaxRecords(bytes));
    });
  });

  it('damaged archives, and no member lies beyond the end', async () => {
    const good = tarArchive([
      { path: 'bundle.dsse.json', bytes: Buffer.from('{}') },
      { path: 'blobs/', bytes: Buffer.alloc(0) },
      { path: 'blobs/sha256/x', bytes: Buffer.alloc(700, 'x') },
      { path: 'index.json', bytes: Buffer.from('{}') },
    ]);
    const numbers = fc.constantFrom([], [0x80, 0, 0, 0, 0, 0x1f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
    const inputs = fc.record({ bytes: damagedBytes(good), at: fc.nat(5), size: numbers });
    await fuzz('archives', 1000, inputs, async ({ bytes, at, size }) => {
      const header = bytes.subarray(at * 512, (at + 1) * 512);
      if (size.length > 0 && header.length === 512) {
        header.set(size, 124);
        sumUp(header);
      }
      const members = readTarMembers(inMemoryFile(bytes), bytes.length, new AbortController().signal);
      try {
        for await (const { offset, sizeBytes } of members) {
          expect(sizeBytes).toBeGreaterThanOrEqual(0);
          if (sizeBytes > 0) expect(offset + sizeBytes).toBeLessThanOrEqual(bytes.length);
        }
      } catch (error) {
        expect(error).toBeInstanceOf(AppError);
      }
    });
  });

  it('damaged key files', async () => {
    const files = [key.publicPem, audit.publicPem, key.privatePem, audit.privatePem];
    const inputs = fc.oneof(...files.map((pem) => damagedBytes(Buffer.from(pem))));
    await fuzz('key files', 2000, inputs, (bytes) => {
      const parsed = attempt(() => parsePublicKey(bytes.toString(), 'f'));
      if (parsed !== undefined) expect(['ed25519', 'ecdsa-p256']).toContain(parsed.algorithm);
      attempt(() => parsePrivateKey(bytes.toString(), 'f'));
    });
  });

  it('damaged revocations, and while one can not be read no key is trusted', async () => {
    const folder = temporaryFolder();
    try {
      installKeys(folder, [key, audit]);
      const inputs = fc.oneof(damagedBytes(Buffer.from(key.publicPem)), fc.constant(Buffer.from(key.publicPem)));
      await fuzz('revocations', 500, inputs, async (bytes) => {
        writeFileSync(join(folder, 'old.revoked'), bytes);
        const { keys, problems } = await loadTrustedKeys(folder, new AbortController().signal);
        // Either it says which key is revoked, or it is a problem and nobody knows.
        const trusted = keys.map(({ keyId }) => keyId);
        if (problems.length > 0) expect(trusted).toEqual([]);
        if (bytes.toString() === key.publicPem) expect(trusted).toEqual([audit.privateKey.keyId]);
      });
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });

  it('damaged lists of images and references', async () => {
    const lists = [
      `etcd=quay.io/coreos/etcd:3.5.9@${digest}=oci:/media/images:etcd pin=false # comment\n`,
      'docker.io/customer/app:7\nregistry.example.com:5000/a/b=docker-archive:/x.tar\n',
    ];
    const inputs = fc.oneof(
      fc.string({ unit: 'binary' }),
      ...lists.map((list) => damagedBytes(Buffer.from(list)).map(String)),
    );
    await fuzz('lists of images', 2000, inputs, (text) => {
      attempt(() => parseImagesFile(text, 'images.txt'));
      for (const line of text.split('\n')) {
        attempt(() => parseImageRequest(line));
        const reference = attempt(() => parseReference(line));
        if (reference !== undefined) expect(reference.repository).toMatch(/^[A-Za-z0-9.:[\]-]+\/[a-z0-9._/-]+$/);
      }
    });
  });

  it('damaged tags and versions, and a scheme tag reads back', async () => {
    const tags = [
      '2.6.2-rev1-b5.1',
      '2.6.2',
      '4.13.7-rc.1+build',
      'v1-rev9007199254740993-b1',
      '>=4.12.0 <4.13.7 || 5.x',
    ];
    const inputs = fc.oneof(
      fc.string({ unit: 'binary' }),
      ...tags.map((tag) => damagedBytes(Buffer.from(tag)).map(String)),
    );
    await fuzz('tags and versions', 2000, inputs, (text) => {
      const tag = parseSchemeTag(text);
      if (tag !== undefined) expect(parseSchemeTag(formatSchemeTag(tag))).toEqual(tag);
      expect(impliedTags(text)).toBeInstanceOf(Array);
      expect(typeof isVersion(text)).toBe('boolean');
      expect(typeof isVersionRange(text)).toBe('boolean');
    });
  });
});

describe('names of members that every JavaScript object inherits', () => {
  it.each(['__proto__', 'constructor', 'toString', 'hasOwnProperty'])('%s is refused as any unknown one', (name) => {
    const text = (value: object) => Buffer.from(JSON.stringify(value).replace(/^\{/, `{${JSON.stringify(name)}:{},`));
    expect(() => parsePayload(text(payload))).toThrow(expect.objectContaining(coded('bundle/payload', name)));
    expect(() => parseContents(text(contents))).toThrow(expect.objectContaining(coded('bundle/contents', name)));
  });
});
