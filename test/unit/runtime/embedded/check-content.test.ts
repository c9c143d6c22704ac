import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { type Digest, hexOf } from '../../../../src/domain/model/digest.ts';
import type { ExpectedImage } from '../../../../src/domain/model/image.ts';
import { digestOf } from '../../../../src/platform/digest.ts';
import { openContentCheck } from '../../../../src/runtime/embedded/image-store.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';

const signal = new AbortController().signal;
const [manifest, config, layer] = ['manifest', 'config', 'layer'].map((text) => digestOf(text)) as [
  Digest,
  Digest,
  Digest,
];
const image: ExpectedImage = {
  reference: `quay.io/a@${manifest}`,
  documents: [manifest, config],
  layers: [{ digest: layer, size: 5, diffId: layer }],
};

describe('the content of images in an image layout', () => {
  const folder = folderForEach();
  let isListed: boolean;
  let readBytes: number;

  beforeEach(() => {
    isListed = true;
    readBytes = 0;
    for (const text of ['manifest', 'config', 'layer']) writeFileSync(pathOf(digestOf(text)), text);
  });

  const pathOf = (digest: Digest) => join(folder, hexOf(digest));
  const listed = { imageId: config, repoTags: [], repoDigests: [image.reference], pinned: true };
  const open = () => openContentCheck({ find: async () => (isListed ? listed : undefined) }, pathOf);
  const check = (content = open()) =>
    content.check(
      image,
      (bytes) => {
        readBytes += bytes;
      },
      signal,
    );

  it('is whole when every blob has its digest, and each is read once', async () => {
    const content = open();
    expect(await check(content)).toEqual({ kind: 'whole', by: 'bytes' });
    expect(await check(content)).toEqual({ kind: 'whole', by: 'bytes' });
    expect(readBytes).toBe('manifestconfiglayer'.length);
  });

  it('is broken by what is altered or absent', async () => {
    writeFileSync(pathOf(layer), 'lay');
    rmSync(pathOf(config));
    expect(await check()).toEqual({
      kind: 'broken',
      faults: [
        { kind: 'document-absent', digest: config },
        { kind: 'blob', digest: layer, why: 'altered' },
      ],
    });
    rmSync(pathOf(layer));
    expect(await check()).toMatchObject({ faults: [{}, { kind: 'layer-absent', digest: layer }] });
  });

  it('tells of an image that is not listed only what is damaged of it', async () => {
    isListed = false;
    rmSync(pathOf(config));
    expect(await check()).toEqual({ kind: 'absent', faults: [] });
    writeFileSync(pathOf(layer), '');
    expect(await check()).toEqual({ kind: 'absent', faults: [{ kind: 'blob', digest: layer, why: 'altered' }] });
  });
});
