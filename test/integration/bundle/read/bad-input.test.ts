import { createHash } from 'node:crypto';
import { cpSync, readFileSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { formatEnvelope } from '../../../../src/bundle/format/dsse.ts';
import type { Trust } from '../../../../src/bundle/keys/trust.ts';
import { limits } from '../../../../src/bundle/limits.ts';
import { digestFromHex, hexOf } from '../../../../src/domain/model/digest.ts';
import type { FoundBundle } from '../../../../src/domain/model/medium.ts';
import { signEnvelope, unsignedEnvelope } from '../../../../src/factory/payload/sign-envelope.ts';
import { readBundles } from '../../../support/bundles/read-bundles.ts';
import { makeSampleBundle, type SampleBundle, trustIn } from '../../../support/bundles/sample-bundle.ts';
import { sampleArtifact } from '../../../support/bundles/sample-image.ts';
import { flipByte } from '../../../support/files/flip-byte.ts';
import { folderForAll, folderForEach } from '../../../support/files/temporary-folder.ts';
import { coded } from '../../../support/matching.ts';

const { signal } = new AbortController();
const scratch = folderForAll();
let pristine: SampleBundle;
let trust: Trust;
const root = folderForEach();
let path: string;

beforeAll(async () => {
  const files = { 'weights.bin': Buffer.alloc(9_000, 'w'), 'README.md': Buffer.from('small') };
  const artifacts = [{ reference: 'models.example.com/small:1', image: sampleArtifact({ files }) }];
  pristine = await makeSampleBundle({ dir: scratch, artifacts });
  trust = await trustIn(pristine.keys, scratch);
});
beforeEach(() => {
  path = join(root, 'stickpin', 'it');
  cpSync(pristine.path, path, { recursive: true });
});

async function judged(): Promise<FoundBundle> {
  const [only, ...more] = await readBundles(root, { trust, layout: 'medium' }, signal);
  expect(more).toEqual([]);
  if (only === undefined) throw new Error('nothing was found');
  return only;
}

async function rejection(): Promise<{ code: string; message: string }> {
  const found = await judged();
  if (found.kind !== 'rejected') throw new Error('was not rejected');
  return found.reason;
}

async function missing() {
  const found = await judged();
  if (found.kind !== 'verified') throw new Error(JSON.stringify(found));
  return found.missing;
}

function blobFile(digest: string): string {
  return join(path, 'blobs', 'sha256', digest.slice('sha256:'.length));
}

function pointerTo(bytes: Buffer) {
  return { digest: digestFromHex(createHash('sha256').update(bytes).digest('hex')), size: bytes.length };
}

/** Signs the bundle again with other contents, as a factory with a faulty tool would. */
function forge(change: { contents?: object; index?: object; payload?: object }): void {
  const contents = Buffer.from(JSON.stringify({ ...pristine.contents, ...change.contents }));
  const index =
    change.index === undefined ? readFileSync(join(path, 'index.json')) : Buffer.from(JSON.stringify(change.index));
  const pointers = { contents: pointerTo(contents), index: pointerTo(index) };
  writeFileSync(blobFile(pointers.contents.digest), contents);
  writeFileSync(join(path, 'index.json'), index);
  const payload = Buffer.from(JSON.stringify({ ...pristine.payload, ...pointers, ...change.payload }));
  const envelope = pristine.keys.map((key) => key.privateKey).reduce(signEnvelope, unsignedEnvelope(payload));
  writeFileSync(join(path, 'bundle.dsse.json'), formatEnvelope(envelope));
}

const firstImage = () => pristine.images[0]?.image ?? expect.unreachable();
const firstLayer = () => pristine.contents.layers[0] ?? expect.unreachable();

describe('an envelope', () => {
  it('that was changed after signing is rejected, and the key is named', async () => {
    const file = join(path, 'bundle.dsse.json');
    const envelope = JSON.parse(readFileSync(file, 'utf8'));
    const payload = Buffer.from(envelope.payload, 'base64').toString().replace('"sequence":1', '"sequence":9');
    writeFileSync(file, JSON.stringify({ ...envelope, payload: Buffer.from(payload).toString('base64') }));
    expect(await rejection()).toMatchObject(coded('bundle/bad-signature', 'factory-2026'));
  });

  it.each([
    ['empty', '', 'not JSON'],
    ['no JSON', 'hello', 'not JSON'],
    ['too large', ' '.repeat(limits.envelopeBytes + 1), '1048577 bytes'],
  ])('that is %s is rejected', async (_name, text, message) => {
    writeFileSync(join(path, 'bundle.dsse.json'), text);
    expect((await rejection()).message).toContain(message);
  });

  it('is not parsed as a payload before its signature holds', async () => {
    const file = join(path, 'bundle.dsse.json');
    const envelope = JSON.parse(readFileSync(file, 'utf8'));
    writeFileSync(
      file,
      JSON.stringify({ ...envelope, payload: Buffer.from('{"schemaVersion":2}').toString('base64') }),
    );
    expect((await rejection()).code).toBe('bundle/bad-signature');
  });

  it('of another format version is refused by name', async () => {
    forge({ payload: { schemaVersion: 2 } });
    expect(await rejection()).toMatchObject(coded('bundle/schema-version', 'schemaVersion 2'));
  });

  it.each([
    ['no list of critical members', { restriction: 'none', critical: undefined }, 'bundle/payload', 'restriction'],
    [
      'one that is critical',
      { restriction: 'none', critical: ['restriction'] },
      'bundle/schema-version',
      'restriction',
    ],
    ['one in a rule', { update: { until: 'noon' } }, 'bundle/schema-version', 'update.until'],
    ['one in trust', { trust: { shared: true } }, 'bundle/schema-version', 'trust.shared'],
  ])('with an unknown member is refused by name: %s', async (_what, payload, code, name) => {
    forge({ payload });
    expect(await rejection()).toMatchObject(coded(code, name));
  });

  it('with unknown members that are not critical is read without them, and they are named', async () => {
    const [image, ...images] = pristine.contents.images;
    forge({ payload: { colour: 'red' }, contents: { images: [{ ...image, licence: 'MIT' }, ...images], sum: 1 } });
    const found = await judged();
    if (found.kind !== 'verified') throw new Error(JSON.stringify(found));
    const { ignored, ...contents } = found.bundle.contents;
    expect([found.bundle.payload.ignored, ignored]).toEqual([['colour'], ['contents.sum', 'contents.images.licence']]);
    expect(contents).toEqual(pristine.contents);
  });

  it('names an unknown member of contents.json that is critical', async () => {
    forge({ payload: { critical: ['contents.sum'] }, contents: { sum: 1 } });
    expect(await rejection()).toMatchObject(coded('bundle/schema-version', 'contents.sum'));
  });
});

describe('index.json and contents.json', () => {
  it('with another digest are rejected, and named with both digests', async () => {
    flipByte(join(path, 'index.json'), 10);
    const reason = await rejection();
    expect(reason).toMatchObject(coded('bundle/digest', 'index.json'));
    expect(reason.message).toContain(pristine.payload.index.digest);
  });

  it('index, contents: are parsed only after their digests match', async () => {
    const contents = blobFile(pristine.payload.contents.digest);
    for (const [file, name, size] of [
      [join(path, 'index.json'), 'index.json', pristine.payload.index.size],
      [contents, 'contents.json', pristine.payload.contents.size],
    ] as const) {
      const whole = readFileSync(file);
      writeFileSync(file, Buffer.alloc(size, '{'));
      expect(await rejection()).toMatchObject(coded('bundle/digest', name));
      writeFileSync(file, whole);
    }
  });

  it('that are not there are rejected', async () => {
    rmSync(join(path, 'index.json'));
    expect(await rejection()).toMatchObject(coded('bundle/absent', 'index.json'));
  });

  it.each([
    ['is damaged', (file: string) => flipByte(file), 'has another digest'],
    ['is cut off', (file: string) => truncateSync(file, 5), 'bytes that were signed'],
    ['is absent', (file: string) => rmSync(file), 'is absent'],
  ])('contents.json that %s is rejected', async (_name, spoil, message) => {
    spoil(blobFile(pristine.payload.contents.digest));
    expect(await rejection()).toMatchObject(coded('bundle/digest', message));
  });

  it('contents.json beside the envelope counts only with the digest that was signed', async () => {
    const beside = join(path, 'contents.json');
    cpSync(blobFile(pristine.payload.contents.digest), beside);
    expect((await judged()).kind).toBe('verified');
    // It parses all the same.
    writeFileSync(
      beside,
      readFileSync(beside, 'utf8').replace(/"sizeBytes":\d/, (found) => `${found.slice(0, -1)}9`),
    );
    expect(await rejection()).toMatchObject(coded('bundle/digest', pristine.payload.contents.digest));
  });

  it('whose index lacks an image are rejected', async () => {
    forge({ index: { schemaVersion: 2, manifests: [] } });
    expect(await rejection()).toMatchObject(coded('bundle/index', 'quay.example.com/coreos/etcd'));
  });

  it('that give a layer another size than its manifest are rejected', async () => {
    const layers = pristine.contents.layers.map((layer, at) =>
      at === 0 ? { ...layer, sizeBytes: layer.sizeBytes + 1 } : layer,
    );
    forge({ contents: { layers } });
    expect(await rejection()).toMatchObject(coded('bundle/inconsistent', 'layer 0'));
  });

  it('that list other layers than the manifest are rejected', async () => {
    const [image, ...more] = pristine.contents.images;
    forge({ contents: { images: [{ ...image, layers: [] }, ...more] } });
    expect(await rejection()).toMatchObject(coded('bundle/inconsistent', '0 layers, its manifest 1'));
  });

  it.each([
    ['another config', { config: { digest: digestFromHex('1'.repeat(64)), size: 1 } }, 'its config is'],
    ['fewer layers', { layers: [2] }, '1 layers, its manifest 2'],
    ['layers in another order', { layers: [3, 2] }, 'layer 0 is'],
  ])('that list an artifact with %s are rejected', async (_what, change, words) => {
    forge({ contents: { artifacts: pristine.contents.artifacts?.map((artifact) => ({ ...artifact, ...change })) } });
    expect(await rejection()).toMatchObject(coded('bundle/inconsistent', words));
  });

  it('that list an artifact which the index lacks are rejected', async () => {
    const mediaType = 'application/vnd.docker.distribution.manifest.v2+json';
    forge({ contents: { artifacts: pristine.contents.artifacts?.map((artifact) => ({ ...artifact, mediaType })) } });
    expect(await rejection()).toMatchObject(coded('bundle/index', 'models.example.com/small'));
  });

  it('that give another diffId than the config are rejected', async () => {
    const layers = pristine.contents.layers.map((layer) => ({ ...layer, diffId: layer.digest }));
    forge({ contents: { layers } });
    expect(await rejection()).toMatchObject(coded('bundle/inconsistent', 'diffIds'));
  });

  it('with totals that are not those of the images are rejected', async () => {
    forge({ payload: { totals: { ...pristine.payload.totals, sizeBytes: 1 } } });
    expect(await rejection()).toMatchObject(coded('bundle/inconsistent', '1 bytes'));
  });

  it('for an architecture that an index does not have are rejected', async () => {
    forge({ payload: { arch: pristine.payload.arch === 'arm64' ? 'amd64' : 'arm64' } });
    expect(await rejection()).toMatchObject(coded('bundle/inconsistent', 'no manifest for linux/'));
  });
});

describe('a blob', () => {
  it('that is absent or cut off is missing, and the bundle is still verified', async () => {
    rmSync(blobFile(firstLayer().digest));
    expect(await missing()).toEqual([{ digest: firstLayer().digest, why: 'absent' }]);
    writeFileSync(blobFile(firstLayer().digest), 'short');
    expect(await missing()).toEqual([{ digest: firstLayer().digest, why: 'truncated' }]);
  });

  it.each(['manifest', 'config'] as const)('that is a %s and damaged is missing', async (kind) => {
    const { digest } = firstImage()[kind];
    flipByte(blobFile(digest), 10);
    expect(await missing()).toEqual([{ digest, why: 'damaged' }]);
  });

  it('that is a link to the right content is absent', async () => {
    const file = blobFile(firstLayer().digest);
    cpSync(file, join(root, 'elsewhere'));
    rmSync(file);
    symlinkSync(join(root, 'elsewhere'), file);
    expect(await missing()).toEqual([{ digest: firstLayer().digest, why: 'absent' }]);
  });

  it('that is an absent manifest is reported, together with its absent layers', async () => {
    const { manifest, layers } = firstImage();
    rmSync(blobFile(manifest.digest));
    for (const layer of layers) rmSync(blobFile(layer.digest));
    const found = await missing();
    expect(found.map((blob) => blob.digest)).toEqual([manifest.digest, ...layers.map((layer) => layer.digest)]);
  });
});

describe('several bundles', () => {
  it('are judged each for itself', async () => {
    cpSync(path, join(root, 'stickpin', 'bad'), { recursive: true });
    writeFileSync(join(root, 'stickpin', 'bad', 'bundle.dsse.json'), '');
    const found = await readBundles(root, { trust, layout: 'medium' }, signal);
    expect(found.map((one) => [one.path, one.kind])).toEqual([
      [join('stickpin', 'bad'), 'rejected'],
      [join('stickpin', 'it'), 'verified'],
    ]);
  });
});

describe('any damage', () => {
  it('to any small file ends in a rejection or a missing blob, and never in an exception', async () => {
    const files = [
      'bundle.dsse.json',
      'index.json',
      ...[pristine.payload.contents.digest, firstImage().manifest.digest, firstImage().config.digest].map((digest) =>
        join('blobs', 'sha256', hexOf(digest as typeof pristine.bundleId)),
      ),
    ];
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...files),
        fc.nat(),
        fc.integer({ min: 1, max: 255 }),
        async (name, at, change) => {
          const file = join(path, name);
          const before = readFileSync(file);
          const bytes = Buffer.from(before);
          bytes[at % bytes.length] = (bytes[at % bytes.length] ?? 0) ^ change;
          writeFileSync(file, bytes);
          const found = await judged();
          writeFileSync(file, before);
          const isSame = found.kind === 'verified' && found.missing.length === 0;
          // The envelope has members that nobody signs: key ids, white space. What was signed must
          // then be as it was.
          if (isSame)
            expect(found.bundle).toEqual({ ...found.bundle, bundleId: pristine.bundleId, payload: pristine.payload });
          if (isSame) expect(name).toBe('bundle.dsse.json');
        },
      ),
      { numRuns: 200 },
    );
  });
});
