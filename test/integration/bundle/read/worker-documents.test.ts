import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import {
  createWorkerDocuments,
  documentsHere,
  type WorkerDocuments,
  type WorkerDocumentsOptions,
} from '../../../../src/bundle/documents/worker-documents.ts';
import { mediaTypes } from '../../../../src/bundle/format/oci-schema.ts';
import type { Contents } from '../../../../src/domain/model/bundle.ts';
import { digestOf } from '../../../../src/platform/digest.ts';
import { hostileContents, largeContents, largestCounts, payloadFor } from '../../../support/bundles/large-contents.ts';
import { buildDocumentWorker } from '../../../support/document-worker.ts';
import { folderForAll } from '../../../support/files/temporary-folder.ts';
import { watchLoop } from '../../../support/loop-watch.ts';
import { coded } from '../../../support/matching.ts';

const MIB = 1024 * 1024;
const signal = new AbortController().signal;

describe('large documents', () => {
  const root = folderForAll();
  let program: URL;
  let documents: WorkerDocuments | undefined;
  const largest = largeContents(largestCounts);

  beforeAll(async () => {
    program = await buildDocumentWorker(root);
  });
  afterEach(() => {
    documents?.close();
    documents = undefined;
  });

  const create = (options: Partial<WorkerDocumentsOptions> = {}): WorkerDocuments => {
    documents = createWorkerDocuments({ program, ...options });
    return documents;
  };
  /**
   * The bytes of contents and their payload; new bytes each time, since whoever parses keeps them.
   */
  const fileOf = (contents: Contents, text = JSON.stringify(contents)) => {
    const bytes = Buffer.from(text);
    return [bytes, payloadFor(bytes, bytes, contents)] as const;
  };
  const small = () => fileOf(largeContents({ images: 10, layers: 300, layersPerImage: 20, tags: 10 }));

  it('do not block the event loop while they are parsed', async () => {
    const parse = create();
    await parse.contents(...small(), signal); // the thread is there
    const beside = await watchLoop(() => parse.contents(...fileOf(largest), signal));
    const here = await watchLoop(() => documentsHere.contents(...fileOf(largest), signal));
    expect(beside.result).toEqual(here.result);
    expect(here.turns).toBeLessThan(5);
    expect(beside.turns).toBeGreaterThan(100);
    expect(beside.longestMs).toBeLessThan(here.longestMs);
  });

  it('of every kind are returned unchanged, one after another', async () => {
    const parse = create({ inlineBytes: 0 });
    const blob = { mediaType: 'a', digest: digestOf('a'), size: 1 };
    const bytesOf = (value: object) => Buffer.from(JSON.stringify(value));
    const name = { what: 'it', code: 'bundle/inconsistent' } as const;
    const entry = { ...blob, mediaType: mediaTypes.ociManifest };
    const index = { schemaVersion: 2, manifests: Array.from({ length: 600 }, () => entry) };
    const manifest = { schemaVersion: 2, config: blob, layers: [blob, blob] };
    const config = { os: 'linux', rootfs: { diff_ids: [blob.digest] } };
    const contents = largeContents({ images: 3, layers: 600, layersPerImage: 20, tags: 3 });
    expect(
      await Promise.all([
        parse.layoutIndex(bytesOf(index), name, signal),
        parse.contents(...fileOf(contents), signal),
        parse.manifest(bytesOf(manifest), name, signal),
        parse.index(bytesOf(index), name, signal),
        parse.config(bytesOf(config), name, signal),
      ]),
    ).toEqual([index, contents, manifest, index, config]);
  });

  it.each(Object.keys(hostileContents))(
    'are refused with a message, and the next one is parsed: %s, 15 MiB',
    async (shape) => {
      const parse = create();
      const bytes = Buffer.from(hostileContents[shape]?.(15 * MIB) ?? '');
      const payload = payloadFor(bytes, bytes, { layers: [], images: [] });
      await expect(parse.contents(bytes, payload, signal)).rejects.toMatchObject({
        code: 'bundle/contents',
        disposition: 'reject',
        message: expect.stringMatching(/^contents\.json.{10,500}$/),
      });
      expect((await parse.contents(...small(), signal)).layers).toHaveLength(300);
    },
  );

  it('that need more memory than the thread has are refused with the size and the limit, and the next one is parsed', async () => {
    // The thread and a small document take less than 8 MiB, the large one more than 20 MiB.
    const parse = create({ heapMb: 13 });
    const tooLarge = { ...largest, images: [...largest.images, ...largest.images] };
    await expect(parse.contents(...fileOf(tooLarge), signal)).rejects.toMatchObject({
      code: 'bundle/contents',
      disposition: 'reject',
      message: expect.stringMatching(
        /^contents\.json \(8 MiB\) is too large to be read: it takes more than 13 MiB of memory/,
      ),
    });
    expect((await parse.contents(...small(), signal)).layers).toHaveLength(300);
  });

  it('that take too long are refused, and the next one is parsed', async () => {
    const parse = create({ deadlineMs: 1 });
    await expect(parse.contents(...fileOf(largest), signal)).rejects.toMatchObject(
      coded('bundle/contents', 'could not be read within 0.001 s'),
    );
    documents?.close();
    expect((await create().contents(...small(), signal)).layers).toHaveLength(300);
  });

  it('an abort ends the parsing of one document at once, and not that of others', async () => {
    const parse = create();
    const stop = new AbortController();
    const first = parse.contents(...fileOf(largest), stop.signal);
    const second = parse.contents(...small(), signal);
    const third = parse.contents(...small(), stop.signal);
    stop.abort(new Error('the stick is gone'));
    await expect(first).rejects.toThrow('the stick is gone');
    await expect(third).rejects.toThrow('the stick is gone');
    expect((await second).layers).toHaveLength(300);
    await expect(parse.contents(...small(), stop.signal)).rejects.toThrow('the stick is gone');
  });

  it('a thread that can not be started is not reported as a fault of the bundle', async () => {
    const parse = create({ program: pathToFileURL(join(root, 'absent.js')) });
    await expect(parse.contents(...small(), signal)).rejects.toMatchObject({
      code: 'bundle/worker',
      disposition: 'retry',
    });
  });

  it('after a pause the thread is started again', async () => {
    const parse = create({ idleMs: 1 });
    for (let time = 0; time < 3; time += 1) {
      expect((await parse.contents(...small(), signal)).layers).toHaveLength(300);
      await new Promise((resolve) => setImmediate(resolve));
    }
  });
});
