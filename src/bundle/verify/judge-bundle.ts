import {
  artifactLayers,
  type ContentPointer,
  type Contents,
  type Payload,
  type VerifiedBundle,
} from '../../domain/model/bundle.ts';
import { AppError } from '../../platform/app-error.ts';
import { digestOfLarge } from '../../platform/digest.ts';
import { formatBytes } from '../../platform/sizes.ts';
import { bundleError } from '../bundle-error.ts';
import { type Documents, documentsHere } from '../documents/worker-documents.ts';
import { type Envelope, parseEnvelope } from '../format/dsse.ts';
import type { ImageIndex } from '../format/oci-schema.ts';
import { checkNotice, parsePayload } from '../format/schema.ts';
import type { Trust } from '../keys/trust.ts';
import { limits } from '../limits.ts';
import type { BundleReader } from '../read/bundle-reader.ts';
import { readBlob } from '../read/open-file.ts';
import { checkRotation, checkScope, checkStream } from './check-authority.ts';
import { bundleIdOf, verifyEnvelope } from './verify-envelope.ts';
import { type WalkedImages, walkImages } from './walk-images.ts';

/** A trusted bundle; `missing` lists the blobs that it lacks. */
export interface JudgedBundle extends WalkedImages {
  readonly bundle: VerifiedBundle;
  /**
   * The bundle has no layers, and `contents.json` is beside the envelope: the images come from
   * their registries.
   */
  readonly isEnvelope: boolean;
  readonly index: ImageIndex;
}

/**
 * Proves that a bundle may be trusted, and finds what of it is there.
 *
 * INVARIANTS: the order must not change. (1) The envelope's size, then its form; (2) signatures
 * over the raw payload bytes; only then (3) the payload is parsed, and the signers' right to its
 * stream is checked; (4) the digests and sizes of contents.json and index.json; only then (5) these
 * are parsed, and the signers' right to their repositories is checked; (6) documents, each parsed
 * only after its digest. So the size-limited envelope is the only unsigned document that is parsed.
 *
 * @param documents parses what is large; default {@link documentsHere}.
 * @throws AppError with a `BundleErrorCode`: `reject` when the bundle is bad, `wait` when no key is
 *   installed or the medium is gone, `retry` when the medium can't be read.
 */
export async function judgeBundle(
  reader: BundleReader,
  trust: Trust,
  signal: AbortSignal,
  documents: Documents = documentsHere,
): Promise<JudgedBundle> {
  const verified = await verifyEnvelope(await readEnvelope(reader, signal), trust);
  const payload = parsePayload(verified.payload);
  checkStream(verified, payload, trust);
  const tree = await readTree(reader, payload, documents, signal);
  const bundle = checkScope(verified, { payload, contents: tree.contents }, trust);
  checkRotation(bundle, verified, trust);
  const walked = await walkImages(reader, { payload, ...tree }, documents, signal);
  const isEnvelope = tree.isBeside && lacksAllLayers(tree.contents, walked);
  return { bundle, index: tree.index, isEnvelope, ...walked };
}

/** A bundle as it describes itself. Its digests match, but it is not trusted. */
export interface UntrustedBundle extends WalkedImages {
  readonly envelope: Envelope;
  readonly bundle: VerifiedBundle;
  readonly index: ImageIndex;
}

/** {@link judgeBundle} without step 2, for the inspection of bundles. `signedBy` is empty. */
export async function readUntrusted(reader: BundleReader, signal: AbortSignal): Promise<UntrustedBundle> {
  const envelope = await readEnvelope(reader, signal);
  const payload = parsePayload(envelope.payload);
  const tree = await readTree(reader, payload, documentsHere, signal);
  const walked = await walkImages(reader, { payload, ...tree }, documentsHere, signal);
  const bundleId = bundleIdOf(envelope.payload);
  return {
    envelope,
    bundle: { bundleId, payload, contents: tree.contents, signedBy: [], signerKeyIds: [] },
    index: tree.index,
    ...walked,
  };
}

/**
 * Reads and parses `bundle.dsse.json`. @throws AppError `bundle/absent`, `bundle/envelope`,
 * `bundle/schema-version`, `media/…`
 */
export async function readEnvelope(reader: BundleReader, signal: AbortSignal): Promise<Envelope> {
  return parseEnvelope(await reader.readFile('bundle.dsse.json', limits.envelopeBytes, signal));
}

/** Bundle format, `index`, `contents`: "parsed only after their digests match". */
async function readTree(
  reader: BundleReader,
  payload: Payload,
  documents: Documents,
  signal: AbortSignal,
): Promise<{ contents: Contents; index: ImageIndex; isBeside: boolean }> {
  const { bytes: contentsBytes, isBeside } = await readContents(reader, payload.contents, signal);
  const indexBytes = await reader.readFile('index.json', limits.indexBytes, signal);
  await checkDigest('index.json', indexBytes, payload.index);
  const contents = await documents.contents(contentsBytes, payload, signal);
  checkNotice(payload, contents);
  const index = await documents.layoutIndex(indexBytes, { what: 'index.json', code: 'bundle/index' }, signal);
  return { contents, index, isBeside };
}

/**
 * The place of `contents.json`: among the blobs, or beside the envelope, which an interrupted copy
 * can't cause.
 */
interface FoundContents {
  readonly bytes: Buffer;
  readonly isBeside: boolean;
}

/**
 * Reads `contents.json` and checks its digest; it is not parsed here.
 *
 * @throws AppError `bundle/contents` when it is larger than allowed; `bundle/digest` when it is
 *   absent or not what was signed; `media/…`
 */
export async function readContents(
  reader: BundleReader,
  pointer: ContentPointer,
  signal: AbortSignal,
): Promise<FoundContents> {
  if (pointer.size > limits.contentsBytes) {
    const [size, most] = [formatBytes(pointer.size), formatBytes(limits.contentsBytes)];
    throw bundleError(
      'bundle/contents',
      `contents.json is too large to be read: it has ${size}, and ${most} are allowed; make the bundle with fewer images and layers`,
    );
  }
  const beside = await readBeside(reader, pointer, signal);
  if (beside !== undefined) return { bytes: beside, isBeside: true };
  return { bytes: await readContentsBlob(reader, pointer, signal), isBeside: false };
}

async function readBeside(
  reader: BundleReader,
  pointer: ContentPointer,
  signal: AbortSignal,
): Promise<Buffer | undefined> {
  try {
    const bytes = await reader.readFile('contents.json', pointer.size, signal);
    await checkDigest('contents.json', bytes, pointer);
    return bytes;
  } catch (error) {
    if (error instanceof AppError && error.code === 'bundle/absent') return undefined;
    throw error;
  }
}

/** An envelope has all of its artifacts, which only a medium or another node can bring. */
function lacksAllLayers(contents: Contents, { missing }: WalkedImages): boolean {
  const kept = new Set(artifactLayers(contents));
  const absent = new Set(missing.flatMap(({ digest, why }) => (why === 'absent' || why === 'in-base' ? [digest] : [])));
  return contents.layers.every((layer) => kept.has(layer) || absent.has(layer.digest));
}

async function readContentsBlob(reader: BundleReader, pointer: ContentPointer, signal: AbortSignal): Promise<Buffer> {
  const { digest, size } = pointer;
  const read = await readBlob(reader, { digest, sizeBytes: size }, signal);
  if (read.kind === 'read') return read.bytes;
  const how = {
    absent: 'is absent',
    truncated: `has not the ${size} bytes that were signed`,
    damaged: 'has another digest',
  };
  throw bundleError(
    'bundle/digest',
    `contents.json (blobs/sha256/${digest.slice('sha256:'.length)}) ${how[read.missing.why]}: copy the bundle again`,
  );
}

/** Hashes outside of the event loop: such a file has up to 16 MiB. */
async function checkDigest(what: string, bytes: Buffer, pointer: ContentPointer): Promise<void> {
  const found = await digestOfLarge(bytes);
  if (bytes.length === pointer.size && found === pointer.digest) return;
  throw bundleError(
    'bundle/digest',
    `${what} has digest ${found} and ${bytes.length} bytes, but ${pointer.digest} with ${pointer.size} bytes was signed: copy the bundle again`,
  );
}
