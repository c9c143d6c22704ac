import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { limits } from '../../../src/bundle/limits.ts';
import { openBundle } from '../../../src/bundle/read/open-bundle.ts';
import { judgeBundle } from '../../../src/bundle/verify/judge-bundle.ts';
import { verifyBlobs } from '../../../src/bundle/verify/verify-blobs.ts';
import { createBundle } from '../../../src/factory/create-bundle.ts';
import type { CreateOptions } from '../../../src/factory/create-options.ts';
import { parseAttachmentRequest } from '../../../src/factory/payload/attachments.ts';
import { takeEnvelope } from '../../../src/factory/payload/take-envelope.ts';
import type { CreateProgress } from '../../../src/factory/progress.ts';
import { sampleCreateOptions } from '../../support/bundles/create-options.ts';
import { sampleKey, trustIn } from '../../support/bundles/sample-bundle.ts';
import { digestOf, sampleImage, writeOciLayout } from '../../support/bundles/sample-image.ts';
import { folderForEach } from '../../support/files/temporary-folder.ts';
import { coded } from '../../support/matching.ts';

const { signal } = new AbortController();
const key = sampleKey();
const image = sampleImage({ seed: 'a', architecture: 'amd64' });
const root = folderForEach();
beforeEach(() => {
  writeOciLayout(join(root, 'layout'), [{ image }]);
  mkdirSync(join(root, 'files'));
});

function make(attach: readonly string[], out = 'bundle', more: Partial<CreateOptions> = {}) {
  const images = [`quay.example.com/a:1=oci:${join(root, 'layout')}`];
  const attachments = attach.map(parseAttachmentRequest);
  const options = { attachments, keys: [key.privateKey], ...more };
  return createBundle(sampleCreateOptions(join(root, 'out', out), images, options), signal);
}

function file(name: string, content: string | Buffer): string {
  const path = join(root, 'files', name);
  writeFileSync(path, content);
  return path;
}

describe('attachments', () => {
  it.each(['bundle', 'ocp.stickpin.tar'])('travel signed in %s, and their blobs are verified', async (out) => {
    const notes = file('NOTES.md', '# new\n');
    const copy = file('copy.bin', '# new\n');
    const made = await make([`${notes}:text/markdown`, copy, file('empty', '')], out);
    const digest = digestOf(Buffer.from('# new\n'));
    expect(made.payload.attachments).toEqual([
      { name: 'NOTES.md', mediaType: 'text/markdown', digest, size: 6 },
      { name: 'copy.bin', mediaType: 'application/octet-stream', digest, size: 6 },
      { name: 'empty', mediaType: 'application/octet-stream', digest: digestOf(Buffer.alloc(0)), size: 0 },
    ]);
    expect(made.payload.totals).toEqual((await make([], 'plain')).payload.totals);
    const reader = openBundle(made.path);
    const { blobs, missing } = await judgeBundle(reader, await trustIn([key], root), signal);
    expect(missing).toEqual([]);
    expect([...blobs.keys()]).toContain(digest);
    expect(await verifyBlobs(reader, blobs, signal)).toEqual([]);
  });

  it('are named when a medium lacks them', async () => {
    const made = await make([file('a', 'content')]);
    const digest = digestOf(Buffer.from('content'));
    rmSync(join(made.path, 'blobs', 'sha256', digest.slice(7)));
    const { missing } = await judgeBundle(openBundle(made.path), await trustIn([key], root), signal);
    expect(missing).toEqual([{ digest, why: 'absent' }]);
  });

  it('may be a document of an image at the same time', async () => {
    const made = await make([file('manifest.json', image.manifest.bytes)]);
    const { missing } = await judgeBundle(openBundle(made.path), await trustIn([key], root), signal);
    expect(missing).toEqual([]);
    expect(made.payload.totals.blobs).toBe(2);
    expect(readFileSync(join(made.path, 'blobs', 'sha256', image.manifest.digest.slice(7)))).toEqual(
      image.manifest.bytes,
    );
  });

  it('are refused beyond the limits', async () => {
    const most = file('most', '');
    truncateSync(most, limits.blobBytes + 1);
    const tooMany = Array.from({ length: limits.payloadItems + 1 }, (_, at) => file(`f${at}`, ''));
    mkdirSync(join(root, 'files', 'other'));
    for (const [attach, code, why] of [
      [
        [most],
        'bundle/source',
        `attachment ${join(root, 'files', 'most')} has 4.0 GiB, but a file on FAT must be smaller`,
      ],
      [[join(root, 'absent')], 'bundle/source', join(root, 'absent')],
      [[join(root, 'files')], 'bundle/source', 'is not a file'],
      [tooMany, 'bundle/option', 'at most 256'],
      [[file('with blank', '')], 'bundle/option', 'plain file name'],
      [[file('.hidden', '')], 'bundle/option', 'plain file name'],
      [[file('grün', '')], 'bundle/option', `attachment ${join(root, 'files', 'grün')}`],
      [[file('f0', ''), file('other/F0', '')], 'bundle/option', 'have the name F0 on a node'],
      [[file('f0', ''), file('other/F0', '')], 'bundle/option', `${join('files', 'f0')} and `],
    ] as const) {
      await expect(make(attach), why).rejects.toMatchObject({ code, message: expect.stringContaining(why) });
    }
    expect(existsSync(join(root, 'out'))).toBe(false);
  });

  it('may be far larger than what is read at once, and are never in memory as a whole', async () => {
    const large = file('k3s', 'ELF');
    truncateSync(large, 300 * 1024 * 1024);
    const before = process.memoryUsage().arrayBuffers;
    const progress: CreateProgress[] = [];
    const made = await make([large], 'large', { onProgress: (one) => progress.push(one) });
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(100 * 1024 * 1024);
    const [attached] = made.payload.attachments ?? [];
    expect(attached).toMatchObject({ name: 'k3s', size: 300 * 1024 * 1024 });
    expect(progress).toContainEqual({ kind: 'copy', doneBytes: attached?.size, totalBytes: attached?.size });
    const reader = openBundle(made.path);
    const { blobs, missing } = await judgeBundle(reader, await trustIn([key], root), signal);
    expect([missing, await verifyBlobs(reader, blobs, signal)]).toEqual([[], []]);
  });

  it('are checked and copied with an envelope', async () => {
    const made = await make([file('notes', 'content')]);
    const blob = join(made.path, 'blobs', 'sha256', digestOf(Buffer.from('content')).slice(7));
    await takeEnvelope(openBundle(made.path), join(root, 'envelope'), signal);
    expect(readFileSync(join(root, 'envelope/blobs/sha256', basename(blob)), 'utf8')).toBe('content');
    for (const [bytes, why] of [
      ['CONTENT', 'damaged'],
      ['c', 'truncated'],
    ] as const) {
      writeFileSync(blob, bytes);
      const taken = takeEnvelope(openBundle(made.path), join(root, why), signal);
      await expect(taken, why).rejects.toMatchObject(coded('bundle/source', why));
      expect(existsSync(join(root, why))).toBe(false);
    }
  });

  it('are written as a whole into a volume that has room for them', async () => {
    const one = file('one', Buffer.alloc(300_000, 'a'));
    const two = file('two', Buffer.alloc(300_000, 'b'));
    const made = await make([one, two], 'spread', { volumeBytes: 400_000 });
    expect(made.volumes).toBe(2);
    const sizes = ['1', '2'].map((volume) => {
      const blobs = join(made.path, volume, 'blobs', 'sha256');
      return readdirSync(blobs).filter((name) => statSync(join(blobs, name)).size === 300_000).length;
    });
    expect(sizes).toEqual([1, 1]);
  });
});

describe('parseAttachmentRequest', () => {
  it.each([
    ['notes.md', 'notes.md', 'notes.md', 'application/octet-stream'],
    ['dir/notes.md:text/markdown', 'dir/notes.md', 'notes.md', 'text/markdown'],
    ['a:b/c.sig', 'a:b/c.sig', 'c.sig', 'application/octet-stream'],
    ['a:text/x:application/vnd.x+json', 'a:text/x', 'x', 'application/vnd.x+json'],
  ])('reads %s', (text, path, name, mediaType) => {
    expect(parseAttachmentRequest(text)).toEqual({ path, name, mediaType });
  });
});
