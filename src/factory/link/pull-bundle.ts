import { mkdir, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { bundleError } from '../../bundle/bundle-error.ts';
import { parseEnvelope } from '../../bundle/format/dsse.ts';
import { parsePayload } from '../../bundle/format/schema.ts';
import type { Trust } from '../../bundle/keys/trust.ts';
import type { BundleFile, BundleReader } from '../../bundle/read/bundle-reader.ts';
import { judgeBundle, readUntrusted } from '../../bundle/verify/judge-bundle.ts';
import { verifyEnvelope } from '../../bundle/verify/verify-envelope.ts';
import { Link } from '../../distribution/linked-bundle.ts';
import type { RegistryAccess } from '../../distribution/registry-client.ts';
import type { ContentPointer, Payload, VerifiedBundle } from '../../domain/model/bundle.ts';
import { type Digest, hexOf } from '../../domain/model/digest.ts';
import { isFaulty } from '../../domain/model/medium.ts';
import type { Reference } from '../../domain/model/reference.ts';
import { forEachLimited } from '../../platform/async/concurrency.ts';
import { digestOf } from '../../platform/digest.ts';
import { writeTreeFile } from '../../platform/files/durable-file.ts';
import { checkSpace, resumeDirectory } from '../output/staging.ts';
import { countBytes, type ProgressListener } from '../progress.ts';
import { jsonBytes } from '../write-bundle.ts';
import { PulledBlobs } from './pulled-blobs.ts';

interface PullOptions {
  /** It has a tag or a digest. */
  readonly reference: Reference;
  readonly access: RegistryAccess;
  /** Undefined: signatures are not checked. */
  readonly trust: Trust | undefined;
  /** Default `NAME-VERSION-ARCH` in the current folder. */
  readonly out?: string | undefined;
  /** Bundles on this machine. Their blobs are not pulled. */
  readonly reuse: readonly BundleReader[];
  readonly onProgress: ProgressListener;
}

export interface PulledBundle {
  readonly bundle: VerifiedBundle;
  readonly path: string;
  /** The digest of the index that the tag names. */
  readonly digest: Digest;
  readonly pulledBlobs: number;
  readonly pulledBytes: number;
  readonly blobs: number;
}

const PULLS_AT_ONCE = 3;

/**
 * Makes the folder of a bundle, all or nothing; an earlier pull to the same folder that ended early
 * is continued from its bytes. The envelope is judged before anything else is pulled, and each blob
 * by its digest.
 *
 * @throws AppError `bundle/registry`; `bundle/absent` when the registry lacks blobs; as
 *   `judgeBundle()` and `resumeDirectory()`
 */
export async function pullBundle(options: PullOptions, signal: AbortSignal): Promise<PulledBundle> {
  const { reference, access, trust, reuse, onProgress } = options;
  const link = new Link(reference, access, 'pull');
  const linked = await link.find(reference, signal);
  const envelope = await link.blob(linked.envelope, signal);
  const payload = await judgedPayload(envelope, trust);
  const path = options.out ?? `${payload.name}-${payload.version}-${payload.arch}`;
  return resumeDirectory(
    path,
    async (staging) => {
      const folder = join(staging, 'blobs', 'sha256');
      await mkdir(folder, { recursive: true });
      await takeIndex(reuse, payload.index, folder, signal);
      const pulled = new PulledBlobs(link, linked, { folder, reuse });
      const reader = new LinkedReader(pulled, link.name, { envelope, payload });
      const { bundle, blobs, missing } = await (trust === undefined
        ? readUntrusted(reader, signal)
        : judgeBundle(reader, trust, signal));
      const faulty = missing.filter(isFaulty);
      if (faulty[0] !== undefined) {
        const which = `${faulty.length} of ${blobs.size} blobs, for example ${faulty[0].digest}`;
        throw bundleError('bundle/absent', `${link.name} lacks ${which}: push the bundle again`);
      }
      const absent = new Set(missing.map(({ digest }) => digest));
      const wanted = [...blobs].filter(([digest]) => !absent.has(digest));
      const totalBytes = wanted.reduce((sum, [digest, size]) => sum + (pulled.has(digest) ? 0 : size), 0);
      await checkSpace(dirname(resolve(path)), totalBytes - (await pulled.partBytes()));
      const onBytes = countBytes('pull', totalBytes, onProgress);
      await forEachLimited(wanted, PULLS_AT_ONCE, signal, async ([digest, size], stopped) => {
        if (!pulled.has(digest)) await pulled.take({ digest, size }, stopped, onBytes);
      });
      await finish(staging, { envelope, payload, digests: blobs });
      const { fetchedBlobs: pulledBlobs, fetchedBytes: pulledBytes } = pulled;
      const all = new Set([...blobs.keys(), payload.index.digest, payload.contents.digest]);
      return { bundle, path, digest: linked.digest, pulledBlobs, pulledBytes, blobs: all.size };
    },
    signal,
  );
}

/** The index is no blob in a bundle. An existing file is checked before it counts. */
async function takeIndex(
  reuse: readonly BundleReader[],
  { digest, size }: ContentPointer,
  folder: string,
  signal: AbortSignal,
) {
  for (const reader of reuse) {
    const bytes = await reader.readFile('index.json', size, signal).catch(() => undefined);
    if (bytes !== undefined && digestOf(bytes) === digest) await writeFile(join(folder, hexOf(digest)), bytes);
  }
}

/** INVARIANT: signatures first, as in `judgeBundle()`. */
async function judgedPayload(bytes: Buffer, trust: Trust | undefined): Promise<Payload> {
  const envelope = parseEnvelope(bytes);
  return parsePayload(trust === undefined ? envelope.payload : (await verifyEnvelope(envelope, trust)).payload);
}

/** Removes what earlier pulls of another bundle wrote. */
async function finish(
  staging: string,
  {
    envelope,
    payload,
    digests,
  }: { readonly envelope: Buffer; readonly payload: Payload; readonly digests: ReadonlyMap<Digest, number> },
): Promise<void> {
  const folder = join(staging, 'blobs', 'sha256');
  await rename(join(folder, hexOf(payload.index.digest)), join(staging, 'index.json'));
  const kept = new Set([...digests.keys(), payload.contents.digest].map(hexOf));
  for (const name of await readdir(folder)) if (!kept.has(name)) await rm(join(folder, name));
  for (const name of ['oci-layout', 'bundle.dsse.json']) await rm(join(staging, name), { force: true });
  await writeTreeFile(join(staging, 'oci-layout'), jsonBytes({ imageLayoutVersion: '1.0.0' }));
  await writeTreeFile(join(staging, 'bundle.dsse.json'), envelope);
}

/** Reads a bundle from a registry; what is read is kept. */
class LinkedReader implements BundleReader {
  constructor(
    private readonly blobs: PulledBlobs,
    readonly path: string,
    private readonly known: { readonly envelope: Buffer; readonly payload: Payload },
  ) {}

  hold<T>(run: () => Promise<T>): Promise<T> {
    return run();
  }

  async readFile(name: BundleFile, maxBytes: number, signal: AbortSignal): Promise<Buffer> {
    const { envelope, payload } = this.known;
    if (name === 'bundle.dsse.json') return envelope;
    if (name !== 'index.json' || payload.index.size > maxBytes) {
      throw bundleError('bundle/absent', `${this.path} has no ${name} of at most ${maxBytes} bytes`);
    }
    await this.blobs.take(payload.index, signal);
    const chunks: Buffer[] = [];
    for await (const chunk of this.blobs.read(payload.index.digest, 0, signal)) chunks.push(chunk);
    return Buffer.concat(chunks);
  }

  sizeOf(digest: Digest, signal: AbortSignal): Promise<number | undefined> {
    return this.blobs.sizeOf(digest, signal);
  }

  async *read(digest: Digest, startByte: number, signal: AbortSignal): AsyncGenerator<Buffer, void, undefined> {
    const size = (await this.sizeOf(digest, signal)) ?? 0;
    await this.blobs.take({ digest, size }, signal);
    yield* this.blobs.read(digest, startByte, signal);
  }
}
