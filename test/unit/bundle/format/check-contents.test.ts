import { describe, expect, it } from 'vitest';
import { checkContents, parseContents } from '../../../../src/bundle/format/check-contents.ts';
import { mediaTypes } from '../../../../src/bundle/format/oci-schema.ts';
import { limits } from '../../../../src/bundle/limits.ts';
import type { Artifact, Contents, Image, Layer, Payload } from '../../../../src/domain/model/bundle.ts';
import { digestFromHex } from '../../../../src/domain/model/digest.ts';

const digest = (byte: string) => digestFromHex(byte.repeat(32));
const layer: Layer = {
  digest: digest('01'),
  sizeBytes: 9,
  diffId: digest('02'),
  uncompressedBytes: 9,
  diskBytes: 4096,
  inodes: 2,
};
const etcd: Image = {
  reference: `quay.io/coreos/etcd@${digest('aa')}`,
  digest: digest('aa'),
  mediaType: mediaTypes.ociManifest,
  tags: ['quay.io/coreos/etcd:3.5'],
  component: 'etcd',
  pin: true,
  layers: [0],
};
const other: Image = {
  ...etcd,
  reference: `quay.io/b@${digest('bb')}`,
  digest: digest('bb'),
  tags: ['quay.io/b:1'],
  component: 'b',
};

const renamed = {
  reference: `quay.io/coreos/etcd@${digest('dd')}`,
  digest: digest('dd'),
  tags: [],
  component: 'etcd-index',
};
const signature = {
  tag: `sha256-${'aa'.repeat(32)}.sig`,
  digest: digest('ee'),
  size: 9,
  mediaType: mediaTypes.ociManifest,
  blobs: [{ digest: digest('ef'), size: 9 }],
};

const model: Artifact = {
  reference: `models.example.com/small@${digest('ab')}`,
  digest: digest('ab'),
  mediaType: mediaTypes.ociManifest,
  tags: ['models.example.com/small:1'],
  type: 'application/vnd.example.model',
  config: { digest: digest('ac'), size: 2 },
  layers: [0],
};

function check(contents: Contents, totals = { images: contents.images.length, diskBytes: 4096, inodes: 2 }): void {
  checkContents(contents, { totals: { blobs: 3, sizeBytes: 9, ...totals } } as Payload);
}

describe('checkContents', () => {
  it('takes contents that agree', () => {
    expect(() => check({ layers: [layer], images: [etcd, other] })).not.toThrow();
  });

  const blob = { digest: digest('ef'), size: 9 };
  const tags = Array.from({ length: limits.tags }, (_none, at) => `quay.io/coreos/etcd:${at}`);
  const full = Array.from({ length: 128 }, () => blob);
  it.each([
    ['20001 layers, and 20000', { layers: Array.from({ length: limits.layers + 1 }, () => layer), images: [] }],
    [
      '50038 layers of images, and 50000',
      { layers: [layer], images: Array.from({ length: 394 }, () => ({ ...etcd, layers: Array(127).fill(0) })) },
    ],
    ['20001 tags, and 20000', { layers: [layer], images: [other, { ...etcd, tags }] }],
    [
      '20096 attached blobs, and 20000',
      {
        layers: [layer],
        images: Array.from({ length: 157 }, () => ({ ...etcd, attached: [{ ...signature, blobs: full }] })),
      },
    ],
  ])('%s are allowed', (words, contents) => {
    expect(() => check(contents)).toThrow(
      expect.objectContaining({
        code: 'bundle/contents',
        message: `contents.json: it has ${words} are allowed; spread the images over several bundles`,
      }),
    );
  });

  it('takes artifacts, which may share a layer with an image', () => {
    expect(() => check({ layers: [layer], images: [etcd], artifacts: [model] })).not.toThrow();
  });

  const artifact = (more: Partial<Artifact>): Contents => ({
    layers: [layer],
    images: [etcd],
    artifacts: [{ ...model, ...more }],
  });
  it.each([
    ['without an image', { ...artifact({}), images: [] }, 'belongs to a release with at least one image'],
    ['that is an index', artifact({ mediaType: mediaTypes.ociIndex }), 'and this is an index'],
    ['with a layer that is not there', artifact({ layers: [7] }), 'no layer 7'],
    ['with the reference of an image', artifact({ reference: etcd.reference, digest: etcd.digest, tags: [] }), 'twice'],
    ['with the tag of another repository', artifact({ tags: etcd.tags }), 'must be models.example.com/small:<tag>'],
    ['by another digest', artifact({ digest: digest('cc') }), 'must be registry/repository@'],
    ['twice', { ...artifact({}), artifacts: [model, model] }, 'listed twice'],
  ])('refuses an artifact %s', (_name, contents, message) => {
    expect(() => check(contents)).toThrow(message);
  });

  it.each(['\u001b[31mmodel', 'a\nb'])('refuses the type %j of an artifact: it is shown unverified', (type) => {
    const bytes = Buffer.from(JSON.stringify({ ...artifact({ type }), images: [] }));
    expect(() => parseContents(bytes)).toThrow(/contents\.json: artifacts\.0\.type: must/);
  });

  it('refuses an artifact with a layer that a base is to have', () => {
    const payload = { totals: { images: 1, diskBytes: 4096, inodes: 2 }, update: { base: digest('01') } };
    const contents = { ...artifact({}), layers: [{ ...layer, inBase: true as const }] };
    expect(() => checkContents(contents, payload as Payload)).toThrow("can't come from a base");
  });

  it('takes what is attached, also to an index and its manifest', () => {
    const images = [
      { ...etcd, attached: [signature] },
      { ...etcd, ...renamed, attached: [signature] },
    ];
    expect(() => check({ layers: [layer], images })).not.toThrow();
  });

  it.each([
    [
      'an attached tag twice',
      { layers: [layer], images: [{ ...etcd, attached: [signature, signature] }] },
      `attached tag ${signature.tag} is listed twice`,
    ],
    [
      'an attached tag with two digests',
      {
        layers: [layer],
        images: [
          { ...etcd, attached: [signature] },
          { ...etcd, ...renamed, attached: [{ ...signature, digest: digest('cc') }] },
        ],
      },
      'with two digests',
    ],
    [
      'an index attached',
      { layers: [layer], images: [{ ...etcd, attached: [{ ...signature, mediaType: mediaTypes.ociIndex }] }] },
      'is not an image manifest',
    ],
    [
      'a layer left to a base that is not named',
      { layers: [{ ...layer, inBase: true as const }], images: [etcd] },
      'the payload names no base',
    ],
    ['the same layer twice', { layers: [layer, layer], images: [etcd] }, 'layer sha256:0101'],
    ['a layer that is not there', { layers: [layer], images: [{ ...etcd, layers: [1] }] }, 'no layer 1'],
    [
      'the same reference twice',
      { layers: [layer], images: [etcd, { ...etcd, tags: [], component: 'x' }] },
      'reference quay.io/coreos/etcd',
    ],
    ['a component twice', { layers: [layer], images: [etcd, { ...other, component: 'etcd' }] }, 'component etcd'],
    [
      'a reference by another digest',
      { layers: [layer], images: [{ ...etcd, digest: digest('cc') }] },
      'must be registry/repository@',
    ],
    [
      'a reference with a tag',
      { layers: [layer], images: [{ ...etcd, reference: `quay.io/coreos/etcd:3.5@${etcd.digest}` }] },
      'must not carry a tag',
    ],
    [
      'a host that is not in lower case',
      { layers: [layer], images: [{ ...etcd, reference: `QUAY.io/coreos/etcd@${etcd.digest}`, tags: [] }] },
      'its host in lower case',
    ],
    [
      'a registry without a repository',
      { layers: [layer], images: [{ ...etcd, reference: `quay.io@${etcd.digest}`, tags: [] }] },
      'must be registry/repository@',
    ],
    [
      'a short name',
      { layers: [layer], images: [{ ...etcd, reference: `etcd@${etcd.digest}` }] },
      'must be registry/repository@',
    ],
    [
      "Docker's short name",
      { layers: [layer], images: [{ ...etcd, reference: `docker.io/etcd@${etcd.digest}` }] },
      'must be registry/repository@',
    ],
    [
      'a media type that is not an image',
      { layers: [layer], images: [{ ...etcd, mediaType: 'text/plain' }] },
      'text/plain',
    ],
    [
      'a tag of another repository',
      { layers: [layer], images: [{ ...etcd, tags: ['quay.io/b:1'] }] },
      'must be quay.io/coreos/etcd:<tag>',
    ],
    [
      'a tag with a digest',
      { layers: [layer], images: [{ ...etcd, tags: [`quay.io/coreos/etcd:1@${etcd.digest}`] }] },
      '<tag>',
    ],
    [
      'a tag twice',
      { layers: [layer], images: [{ ...etcd, tags: ['quay.io/coreos/etcd:1', 'quay.io/coreos/etcd:1'] }] },
      'listed twice',
    ],
  ])('refuses %s', (_name, contents, message) => {
    expect(() => check(contents)).toThrow(
      expect.objectContaining({ code: 'bundle/contents', message: expect.stringContaining(message) }),
    );
  });

  it.each(['images', 'diskBytes', 'inodes'])("refuses totals.%s that are not the payload's", (field) => {
    const totals = { images: 1, diskBytes: 4096, inodes: 2, [field]: 7 };
    expect(() => check({ layers: [layer], images: [etcd] }, totals)).toThrow(`totals.${field} 7`);
  });
});
