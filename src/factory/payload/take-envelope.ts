import { createHash } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { bundleError } from '../../bundle/bundle-error.ts';
import { limits } from '../../bundle/limits.ts';
import type { BundleFile, BundleReader } from '../../bundle/read/bundle-reader.ts';
import { isBundleTar } from '../../bundle/read/open-bundle.ts';
import { type ExpectedBlob, readBlob } from '../../bundle/read/open-file.ts';
import { readContents, readUntrusted } from '../../bundle/verify/judge-bundle.ts';
import { artifactLayers, type VerifiedBundle } from '../../domain/model/bundle.ts';
import { type Digest, digestFromHex, hexOf } from '../../domain/model/digest.ts';
import { AppError } from '../../platform/app-error.ts';
import { fillTreeFile, writeTreeFile } from '../../platform/files/durable-file.ts';
import { buildDirectory } from '../output/staging.ts';

export interface TakenEnvelope {
  readonly bundle: VerifiedBundle;
  readonly files: number;
  readonly sizeBytes: number;
}

/**
 * Copies all but the layers of images, which is enough to set tags, to `out`, all or nothing.
 * Checks digests, not signatures.
 *
 * @throws AppError `bundle/option` when `out` names a tar; `bundle/source` when a document is
 *   absent or damaged; as `readUntrusted()` and `buildDirectory()`
 */
export async function takeEnvelope(reader: BundleReader, out: string, signal: AbortSignal): Promise<TakenEnvelope> {
  if (isBundleTar(out)) throw bundleError('bundle/option', `out: ${out} is one file: give a directory`);
  const { bundle, documents, blobs } = await readUntrusted(reader, signal);
  const { payload, contents } = bundle;
  const attached = [...(payload.attachments ?? []), ...artifactLayers(contents)].map(({ digest }) => digest);
  let files = 0;
  let sizeBytes = 0;
  const write = async (path: string, bytes: Buffer): Promise<void> => {
    await writeTreeFile(path, bytes);
    files += 1;
    sizeBytes += bytes.length;
  };
  await buildDirectory(
    out,
    async (staging) => {
      const folder = join(staging, 'blobs', 'sha256');
      await mkdir(folder, { recursive: true });
      for (const digest of new Set(documents)) {
        signal.throwIfAborted();
        const read = await readBlob(reader, { digest, sizeBytes: blobs.get(digest) ?? 0 }, signal);
        if (read.kind === 'missing') throw unusable(reader, digest, read.missing.why);
        await write(join(folder, hexOf(digest)), read.bytes);
      }
      const known = new Set(documents);
      for (const digest of new Set(attached.filter((one) => !known.has(one)))) {
        sizeBytes += await copyBlob(reader, { digest, sizeBytes: blobs.get(digest) ?? 0 }, folder, signal);
        files += 1;
      }
      const { bytes } = await readContents(reader, payload.contents, signal);
      await write(join(staging, 'contents.json'), bytes);
      await write(join(staging, 'index.json'), await reader.readFile('index.json', limits.indexBytes, signal));
      const layout = await readIfThere(reader, 'oci-layout', limits.layoutBytes, signal);
      if (layout !== undefined) await write(join(staging, 'oci-layout'), layout);
      const envelope = await reader.readFile('bundle.dsse.json', limits.envelopeBytes, signal);
      await write(join(staging, 'bundle.dsse.json'), envelope);
    },
    signal,
  );
  return { bundle, files, sizeBytes };
}

/** May be as large as a layer. @returns its size in bytes */
async function copyBlob(
  reader: BundleReader,
  { digest, sizeBytes }: ExpectedBlob,
  folder: string,
  signal: AbortSignal,
): Promise<number> {
  const found = await reader.sizeOf(digest, signal);
  if (found === undefined) throw unusable(reader, digest, 'absent');
  if (found !== sizeBytes) throw unusable(reader, digest, 'truncated');
  const hash = createHash('sha256');
  await fillTreeFile(join(folder, hexOf(digest)), async (target) => {
    for await (const chunk of reader.read(digest, 0, signal)) {
      hash.update(chunk);
      await target.writeFile(chunk);
    }
  });
  if (digestFromHex(hash.digest('hex')) !== digest) throw unusable(reader, digest, 'damaged');
  return sizeBytes;
}

function unusable({ path }: BundleReader, digest: Digest, why: string): AppError {
  return bundleError('bundle/source', `blob ${digest} of ${path} is ${why}: name the whole bundle, or copy it again`);
}

/** A node does not need `oci-layout`, and a hand-made bundle may lack it. */
async function readIfThere(
  reader: BundleReader,
  name: BundleFile,
  maxBytes: number,
  signal: AbortSignal,
): Promise<Buffer | undefined> {
  try {
    return await reader.readFile(name, maxBytes, signal);
  } catch (error) {
    if (error instanceof AppError && error.code === 'bundle/absent') return undefined;
    throw error;
  }
}
