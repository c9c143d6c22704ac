import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { digestOf, sampleImage, sampleLayer, writeOciLayout } from '../../support/bundles/sample-image.ts';

describe('sample images', () => {
  it('are the same for the same seed and others for another', () => {
    expect(sampleImage({ seed: 'a' }).top.digest).toBe(sampleImage({ seed: 'a' }).top.digest);
    expect(sampleImage({ seed: 'a' }).top.digest).not.toBe(sampleImage({ seed: 'b' }).top.digest);
  });

  it('have layers that match their descriptors', () => {
    const layer = sampleLayer({ seed: 'a', sizeBytes: 100_000, files: 7 });
    expect(digestOf(layer.bytes)).toBe(layer.digest);
    expect(layer.bytes).toHaveLength(layer.sizeBytes);
    const tar = gunzipSync(layer.bytes);
    expect(digestOf(tar)).toBe(layer.diffId);
    expect(tar).toHaveLength(layer.uncompressedBytes);
    expect(layer.inodes).toBe(9);
    expect(layer.diskBytes).toBe(7 * 4 * 4096);
  });

  it('share layers, and a layout holds each blob once', () => {
    const shared = sampleLayer({ seed: 'shared' });
    const images = ['a', 'b'].map((seed) => sampleImage({ seed, layers: [shared], withIndex: true }));
    const directory = mkdtempSync(join(tmpdir(), 'layout-'));
    try {
      const [first, second] = images;
      if (first === undefined || second === undefined) throw new Error('two images');
      writeOciLayout(directory, [{ image: first, names: ['a:1', 'a:2'] }, { image: second }], {
        omit: [second.config.digest],
      });
      const blobs = readdirSync(join(directory, 'blobs/sha256'));
      expect(blobs).toHaveLength(6);
      for (const hex of blobs) {
        expect(digestOf(readFileSync(join(directory, 'blobs/sha256', hex)))).toBe(`sha256:${hex}`);
      }
      const { manifests } = JSON.parse(readFileSync(join(directory, 'index.json'), 'utf8'));
      expect(manifests.map(({ digest }: { digest: string }) => digest)).toEqual([
        first.index?.digest,
        first.index?.digest,
        second.index?.digest,
      ]);
    } finally {
      rmSync(directory, { recursive: true });
    }
  });
});
