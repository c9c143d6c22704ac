import { createHash } from 'node:crypto';
import { bundleError } from '../../bundle/bundle-error.ts';
import { type Descriptor, entriesForPlatform, type ImageDocument, mediaTypes } from '../../bundle/format/oci-schema.ts';
import { limits } from '../../bundle/limits.ts';
import type { BundleReader } from '../../bundle/read/bundle-reader.ts';
import { readImageDocument } from '../../bundle/read/read-image-document.ts';
import { readContents, readUntrusted, type UntrustedBundle } from '../../bundle/verify/judge-bundle.ts';
import { BUNDLE_TYPE, ENVELOPE_TYPE, emptyConfig, Link } from '../../distribution/linked-bundle.ts';
import { Answered, type Ask, type RegistryAccess } from '../../distribution/registry-client.ts';
import type { VerifiedBundle } from '../../domain/model/bundle.ts';
import { type Digest, digestFromHex } from '../../domain/model/digest.ts';
import type { Reference } from '../../domain/model/reference.ts';
import type { AppError } from '../../platform/app-error.ts';
import { forEachLimited } from '../../platform/async/concurrency.ts';
import { digestOf } from '../../platform/digest.ts';
import { countBytes, type ProgressListener } from '../progress.ts';

interface PushOptions {
  /** It has a tag. */
  readonly reference: Reference;
  readonly access: RegistryAccess;
  readonly onProgress: ProgressListener;
}

export interface PushedBundle {
  readonly bundle: VerifiedBundle;
  /** The digest of the index that the tag names now. */
  readonly digest: Digest;
  /** The number of blobs that the registry lacked. */
  readonly sentBlobs: number;
  readonly sentBytes: number;
  readonly blobs: number;
}

const ASKS_AT_ONCE = 16;
const UPLOADS_AT_ONCE = 3;

/**
 * Sends what the registry lacks: blobs, then the manifests of images and artifacts, then that of
 * the documents, the tag last. Digests are checked, signatures are not.
 *
 * @throws AppError `bundle/registry`; `bundle/source` when neither side has a blob, or it is
 *   damaged; as `readUntrusted()`
 */
export async function pushBundle(
  reader: BundleReader,
  { reference, access, onProgress }: PushOptions,
  signal: AbortSignal,
): Promise<PushedBundle> {
  const read = await readUntrusted(reader, signal);
  const plan = await planOf(reader, read, signal);
  const push = new Push(reader, new Link(reference, access, 'pull,push'), signal);
  const lacking = await push.lackingOf(plan);
  const sentBytes = lacking.reduce((sum, [, size]) => sum + size, 0);
  const onBytes = countBytes('push', sentBytes, onProgress);
  await forEachLimited(lacking, UPLOADS_AT_ONCE, signal, async ([digest, size], stopped) => {
    await push.upload({ digest, size }, plan.documents.get(digest), stopped);
    onBytes(size);
  });
  const { manifests } = plan;
  await forEachLimited(manifests, ASKS_AT_ONCE, signal, ({ of, bytes }, stopped) => push.keep(of, bytes, stopped));
  const envelope = jsonBytes(plan.envelope);
  const { artifactType } = plan.envelope;
  const top = { mediaType: mediaTypes.ociManifest, digest: digestOf(envelope), size: envelope.length, artifactType };
  await push.keep(top, envelope, signal);
  const index = jsonBytes({
    schemaVersion: 2,
    mediaType: mediaTypes.ociIndex,
    artifactType,
    manifests: [top, ...manifests.map(({ of }) => of)],
  });
  await push.put(reference.tag ?? '', mediaTypes.ociIndex, index, signal);
  const sent = { sentBlobs: lacking.length, sentBytes, blobs: plan.blobs.size };
  return { bundle: read.bundle, digest: digestOf(index), ...sent };
}

function jsonBytes(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value));
}

interface Plan {
  /** Sizes in bytes. */
  readonly blobs: ReadonlyMap<Digest, number>;
  /** Blobs that have no file among the blobs of the bundle. */
  readonly documents: ReadonlyMap<Digest, Buffer>;
  readonly manifests: readonly { readonly of: Descriptor; readonly bytes: Buffer }[];
  readonly envelope: { readonly artifactType: string; readonly layers: readonly object[] };
}

/**
 * An image index and attachments of images are blobs of the envelope's manifest: registries refuse
 * an index whose manifests are absent.
 */
async function planOf(reader: BundleReader, read: UntrustedBundle, signal: AbortSignal): Promise<Plan> {
  const manifests = await manifestsOf(reader, read, signal);
  const files = await filesOf(reader, read, signal);
  const blobs = new Map<Digest, number>([[digestOf(emptyConfig.bytes), emptyConfig.bytes.length]]);
  for (const { parts } of manifests) for (const { digest, size } of parts) blobs.set(digest, size);
  const pushed = new Set(manifests.map(({ of }) => of.digest));
  const others = [...read.blobs].filter(([digest]) => !blobs.has(digest) && !pushed.has(digest));
  const layers = [
    ...files.map(({ mediaType, name, bytes }) => {
      const annotations = { 'org.opencontainers.image.title': name };
      return { mediaType, digest: digestOf(bytes), size: bytes.length, annotations };
    }),
    ...others.map(([digest, size]) => ({ mediaType: 'application/octet-stream', digest, size })),
  ];
  for (const { digest, size } of layers) blobs.set(digest, size);
  const { mediaType, bytes: config } = emptyConfig;
  const envelope = {
    schemaVersion: 2,
    mediaType: mediaTypes.ociManifest,
    artifactType: BUNDLE_TYPE,
    config: { mediaType, digest: digestOf(config), size: config.length },
    layers,
  };
  const documents = new Map([config, ...files.map(({ bytes }) => bytes)].map((bytes) => [digestOf(bytes), bytes]));
  return { blobs, documents, manifests, envelope };
}

interface PlannedManifest {
  readonly of: Descriptor & { readonly platform?: { readonly os: string; readonly architecture: string } };
  readonly bytes: Buffer;
  readonly parts: readonly Descriptor[];
}

async function manifestsOf(
  reader: BundleReader,
  { bundle: { payload, contents }, blobs }: UntrustedBundle,
  signal: AbortSignal,
): Promise<PlannedManifest[]> {
  const found = new Map<Digest, PlannedManifest>();
  const take = async (digest: Digest, isImage: boolean): Promise<void> => {
    const { bytes, document } = await documentIn(reader, digest, signal);
    if (document.kind === 'index') {
      const children = entriesForPlatform(document, payload.arch).filter((child) => blobs.has(child.digest));
      for (const child of children) await take(child.digest, isImage);
      return;
    }
    const platform = isImage ? { os: 'linux', architecture: payload.arch } : undefined;
    const of = { mediaType: document.mediaType, digest, size: bytes.length, ...(platform && { platform }) };
    found.set(digest, { of, bytes, parts: [document.config, ...document.layers] });
  };
  for (const { digest } of contents.images) await take(digest, true);
  for (const { digest } of contents.artifacts ?? []) await take(digest, false);
  return [...found.values()];
}

async function documentIn(
  reader: BundleReader,
  digest: Digest,
  signal: AbortSignal,
): Promise<{ readonly bytes: Buffer; readonly document: ImageDocument }> {
  const { bytes, document } = (await readImageDocument(reader, digest, signal)) ?? {};
  if (bytes !== undefined && document !== undefined) return { bytes, document };
  throw unusable(reader, `manifest ${digest} is absent or damaged`);
}

/** `oci-layout` is the same for all, and does not travel. */
async function filesOf(reader: BundleReader, { bundle: { payload } }: UntrustedBundle, signal: AbortSignal) {
  return [
    {
      name: 'bundle.dsse.json',
      mediaType: ENVELOPE_TYPE,
      bytes: await reader.readFile('bundle.dsse.json', limits.envelopeBytes, signal),
    },
    {
      name: 'contents.json',
      mediaType: 'application/json',
      bytes: (await readContents(reader, payload.contents, signal)).bytes,
    },
    {
      name: 'index.json',
      mediaType: mediaTypes.ociIndex,
      bytes: await reader.readFile('index.json', limits.indexBytes, signal),
    },
  ];
}

function unusable({ path }: BundleReader, why: string): AppError {
  return bundleError('bundle/source', `${path}: ${why}: name the whole bundle, or copy it again`);
}

class Push {
  constructor(
    private readonly reader: BundleReader,
    private readonly link: Link,
    private readonly signal: AbortSignal,
  ) {}

  /** @throws AppError `bundle/source` when the bundle has not all of them; `bundle/registry` */
  async lackingOf({ blobs, documents }: Plan): Promise<[Digest, number][]> {
    const lacking: [Digest, number][] = [];
    const nowhere: Digest[] = [];
    await forEachLimited([...blobs], ASKS_AT_ONCE, this.signal, async ([digest, size], stopped) => {
      const found = await this.link.sizeOf(digest, 'blobs', stopped);
      if (found !== undefined && found !== size) {
        throw this.link.fault(`it has ${found} bytes of ${digest}, which has ${size}: remove that blob there`);
      }
      if (found !== undefined) return;
      const sizeHere = documents.get(digest)?.length ?? (await this.reader.sizeOf(digest, stopped));
      if (sizeHere === size) lacking.push([digest, size]);
      else nowhere.push(digest);
    });
    const [first] = nowhere;
    if (first === undefined) return lacking.sort(([, a], [, b]) => b - a);
    const what = `${nowhere.length} of ${blobs.size} blobs are neither in it nor in ${this.link.name}, for example ${first}`;
    throw unusable(this.reader, `${what}; push the base of a delta to the same repository first`);
  }

  async upload(of: { readonly digest: Digest; readonly size: number }, bytes: Buffer | undefined, signal: AbortSignal) {
    const { client } = this.link;
    const work = async (): Promise<void> => {
      // This is also right after a try whose answer was lost.
      if ((await this.link.sizeOf(of.digest, 'blobs', signal)) === of.size) return;
      const { pathname, search } = await this.placeForUpload(signal);
      const query = new URLSearchParams(search);
      query.set('digest', of.digest);
      const headers = { 'content-type': 'application/octet-stream', 'content-length': of.size };
      const body = bytes ?? this.checked(of, signal);
      const response = await client.open({ method: 'PUT', path: `${pathname}?${query}`, headers, body }, signal);
      response.resume();
      if (response.statusCode !== 201) throw new Answered(`it answers ${response.statusCode} to ${of.digest}`);
    };
    await this.link.known(client.again(signal, work), signal);
  }

  /** distribution-spec, "Pushing a blob monolithically". */
  private async placeForUpload(signal: AbortSignal): Promise<URL> {
    const { client } = this.link;
    const ask: Ask = { method: 'POST', path: `${client.base}blobs/uploads/`, headers: { 'content-length': 0 } };
    const response = await client.open(ask, signal);
    response.resume();
    if (response.statusCode !== 202) throw this.link.refusal(response.statusCode);
    const { location = '' } = response.headers;
    const place = `https://${client.host}${ask.path}`;
    const found = URL.canParse(location, place) ? new URL(location, place) : undefined;
    // Behind a proxy a registry may think that it has no TLS. A login goes to no other host.
    if (found?.hostname === new URL(place).hostname && found.username === '') return found;
    throw new Answered(
      `it wants blobs at ${found === undefined ? 'a malformed address' : `another host, ${found.host}`}`,
    );
  }

  /** The last chunk comes when all are right. @throws AppError `bundle/source` */
  private async *checked({ digest }: { readonly digest: Digest }, signal: AbortSignal): AsyncGenerator<Buffer> {
    const hash = createHash('sha256');
    let last: Buffer = Buffer.alloc(0);
    for await (const chunk of this.reader.read(digest, 0, signal)) {
      hash.update(chunk);
      if (last.length > 0) yield last;
      last = chunk;
    }
    if (digestFromHex(hash.digest('hex')) !== digest) throw unusable(this.reader, `blob ${digest} is damaged`);
    yield last;
  }

  /** Stores it by its digest, unless it exists. */
  async keep({ digest, mediaType }: Descriptor, bytes: Buffer, signal: AbortSignal): Promise<void> {
    if ((await this.link.sizeOf(digest, 'manifests', signal)) === bytes.length) return;
    await this.put(digest, mediaType, bytes, signal);
  }

  async put(name: string, mediaType: string, body: Buffer, signal: AbortSignal): Promise<void> {
    const { client } = this.link;
    const headers = { 'content-type': mediaType, 'content-length': body.length };
    const ask = { method: 'PUT', path: `${client.base}manifests/${name}`, headers, body } as const;
    const { status } = await this.link.known(client.document(ask, signal), signal);
    if (status !== 201) throw this.link.refusal(status);
  }
}
