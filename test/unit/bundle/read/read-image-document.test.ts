import { describe, expect, it } from 'vitest';
import { mediaTypes } from '../../../../src/bundle/format/oci-schema.ts';
import { limits } from '../../../../src/bundle/limits.ts';
import { type DocumentSource, readImageDocument } from '../../../../src/bundle/read/read-image-document.ts';
import { digestOf } from '../../../../src/platform/digest.ts';

const config = { mediaType: mediaTypes.ociConfig, digest: digestOf('config'), size: 2 };
const manifest = Buffer.from(JSON.stringify({ schemaVersion: 2, config, layers: [] }));
const { signal } = new AbortController();

/** A source that says `sizeBytes` of every blob and gives these chunks. */
function sourceOf(chunks: readonly Buffer[], sizeBytes: number | undefined): DocumentSource & { given: number } {
  const source = {
    given: 0,
    sizeOf: async () => sizeBytes,
    async *read() {
      for (const chunk of chunks) {
        source.given += 1;
        yield chunk;
      }
    },
  };
  return source;
}

describe('readImageDocument', () => {
  it('gives the same bytes and content for any chunks', async () => {
    const chunks = [manifest.subarray(0, 5), manifest.subarray(5)];
    const read = await readImageDocument(sourceOf(chunks, manifest.length), digestOf(manifest), signal);
    expect(read?.bytes).toEqual(manifest);
    expect(read?.document).toMatchObject({ kind: 'manifest', config });
  });

  it('parses nothing that has another digest', async () => {
    const forged = Buffer.from(JSON.stringify({ schemaVersion: 2, mediaType: 'application/x-forged', manifests: [] }));
    const read = await readImageDocument(sourceOf([forged], forged.length), digestOf(manifest), signal);
    expect(read).toEqual({ bytes: forged, document: undefined });
  });

  it.each(['{', '{}', '[]', '7'])('gives the bytes alone of what is not a manifest: %s', async (text) => {
    const read = await readImageDocument(sourceOf([Buffer.from(text)], 1), digestOf(text), signal);
    expect(read).toEqual({ bytes: Buffer.from(text), document: undefined });
  });

  it('reads nothing of a blob that is not there or too large', async () => {
    for (const sizeBytes of [undefined, limits.manifestBytes + 1]) {
      const source = sourceOf([manifest], sizeBytes);
      expect(await readImageDocument(source, digestOf(manifest), signal)).toBeUndefined();
      expect(source.given).toBe(0);
    }
  });

  it('stops reading a blob that grows beyond the limit', async () => {
    const source = sourceOf(Array<Buffer>(9).fill(Buffer.alloc(1024 * 1024)), 5);
    expect(await readImageDocument(source, digestOf(manifest), signal)).toBeUndefined();
    expect(source.given).toBe(5);
  });

  it('passes on what the source throws', async () => {
    const gone = new Error('gone');
    const source: DocumentSource = {
      sizeOf: async () => 5,
      // biome-ignore lint/correctness/useYield: it breaks before it gives anything
      read: async function* () {
        throw gone;
      },
    };
    await expect(readImageDocument(source, digestOf(manifest), signal)).rejects.toBe(gone);
  });
});
