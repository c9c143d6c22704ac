import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import * as v from 'valibot';
import { bundleError } from '../../bundle/bundle-error.ts';
import { parseJson } from '../../bundle/format/json.ts';
import {
  type Descriptor,
  indexMediaTypes,
  manifestsForPlatform,
  mediaTypes,
  parseIndex,
  parseManifest,
} from '../../bundle/format/oci-schema.ts';
import {
  parseReferrers,
  parseReferring,
  type Referral,
  referralOf,
  referrersTagOf,
} from '../../bundle/format/referrers.ts';
import type { ImageRequest } from '../../bundle/image-request.ts';
import { limits } from '../../bundle/limits.ts';
import type { RegistryAccess } from '../../distribution/registry-client.ts';
import { type Digest, digestFromHex } from '../../domain/model/digest.ts';
import { formatReference, parseReference, repositoryOf, withRegistry } from '../../domain/model/reference.ts';
import { AppError, FaultList } from '../../platform/app-error.ts';
import { digestOf } from '../../platform/digest.ts';
import type { ProgressListener } from '../progress.ts';
import { measureWhile } from '../run-program.ts';
import { attachedTagsOf, excessOf, isChosen, partsOf, type ReferrerChoice } from './attached.ts';
import type { ImageCache } from './image-cache.ts';
import { withOrigin } from './images-file.ts';
import { layoutBlobPath, REF_NAME, withPlace } from './layout-source.ts';
import type { LayoutRequest } from './plan-images.ts';
import { RegistryReferrers } from './registry-referrers.ts';
import { accessFlags, runSkopeo } from './skopeo.ts';

interface FetchOptions {
  readonly referrers: ReferrerChoice;
  readonly access: RegistryAccess;
  readonly onProgress?: ProgressListener;
  readonly onNote?: (note: string) => void;
  readonly cache?: ImageCache | undefined;
  /**
   * If it is given, no layers of registries are fetched. It gets how many bytes of each image, by
   * its digest, a registry would send.
   */
  readonly unfetched?: Map<Digest, number> | undefined;
}

/**
 * Fetches every image that is not in an OCI layout into one at `folder`, with skopeo and
 * `--preserve-digests`. From an index, it fetches only the manifests that runtimes choose for
 * `linux/arch`; the bytes of the index stay. Missing images are known before the first download.
 * The caller removes `folder`.
 * @throws AppError `bundle/skopeo`, `bundle/source`, with all images that registries don't have
 */
export async function fetchImages(
  images: readonly ImageRequest[],
  arch: string,
  folder: string,
  options: FetchOptions,
  signal: AbortSignal,
): Promise<LayoutRequest[]> {
  const fetched: Descriptor[] = [];
  const attached = new Attached(options);
  const fetches = images.flatMap(({ reference, source, origin }) =>
    source.kind === 'layout'
      ? []
      : [{ ...options, name: formatReference(reference), location: source.location, arch, folder, origin }],
  );
  const listenerAt = (at: number, image: string) => (bytes: number) =>
    options.onProgress?.({ kind: 'fetch', image, position: at + 1, total: fetches.length, bytes });
  const indexes = await fetchIndexes(fetches, (at, name) => listenerAt(at, name)(0), signal);
  const requests: LayoutRequest[] = [];
  for (const { source, ...image } of images) {
    if (source.kind === 'layout') {
      const { kind: _, ...layout } = source;
      requests.push({ ...image, ...layout });
      continue;
    }
    const at = fetched.length;
    const fetch = fetches[at];
    if (fetch === undefined) throw new TypeError('an image from a registry has no place');
    const selector = { kind: 'position', position: at } as const;
    const onBytes = listenerAt(at, fetch.name);
    onBytes(0);
    const { top, subjects } = await measureWhile(
      () => folderBytes(join(folder, INCOMING)),
      onBytes,
      () => withOrigin(image.origin, () => fetchImage(fetch, indexes[at], signal)),
    );
    fetched.push(top);
    if (options.referrers !== 'none' && source.location.startsWith('docker://')) {
      await withOrigin(image.origin, () => attached.fetch(fetch, image.reference.repository, subjects, signal));
    }
    const isDisposable = options.unfetched === undefined;
    requests.push({ ...image, directory: folder, selector, isDisposable, place: source.location });
  }
  if (fetched.length > 0) {
    const manifests = [...fetched, ...attached.entries()];
    await writeFile(join(folder, 'index.json'), JSON.stringify({ schemaVersion: 2, manifests }));
  }
  for (const note of attached.notes()) options.onNote?.(note);
  return requests;
}

/** Each registry may require another login. Any other fault, like no network, ends the search. */
const NOT_ALLOWED = /unauthorized|denied|forbidden/i;

/** The index of each image that has one. @throws AppError with all images that are missing */
async function fetchIndexes(
  fetches: readonly Fetch[],
  onImage: (at: number, name: string) => void,
  signal: AbortSignal,
): Promise<(Inspected | undefined)[]> {
  const faults = new FaultList();
  const indexes: (Inspected | undefined)[] = [];
  for (const [at, fetch] of fetches.entries()) {
    if (!MAY_BE_INDEX.test(fetch.location)) {
      indexes.push(undefined);
      continue;
    }
    await mkdir(join(fetch.folder, 'blobs', 'sha256'), { recursive: true });
    onImage(at, fetch.name);
    try {
      indexes.push(await withOrigin(fetch.origin, () => fetchIndex(fetch, signal)));
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
      faults.add(error);
      const isOfImage = error.code !== 'bundle/skopeo' || NOT_THERE.test(error.message);
      if (!isOfImage && !NOT_ALLOWED.test(error.message)) break;
    }
  }
  faults.throwAny();
  return indexes;
}

/** Transports that can hold an index. Reading a manifest is slow in the others. */
const MAY_BE_INDEX = /^(?:docker:\/\/|dir:|oci-archive:)/;

const INCOMING = 'incoming';

interface Fetch extends FetchOptions {
  readonly name: string;
  readonly location: string;
  readonly arch: string;
  readonly folder: string;
  /** The place that names the image, for errors. */
  readonly origin?: string | undefined;
  /** A signature is not signed itself, so it could never satisfy a policy.json. */
  readonly isSignature?: true;
}

/** @returns also the digests that may be signed: those of an index and its manifests */
async function fetchImage(fetch: Fetch, found: Inspected | undefined, signal: AbortSignal) {
  const { name, location, unfetched } = fetch;
  await mkdir(join(fetch.folder, 'blobs', 'sha256'), { recursive: true });
  // Only a registry answers a manifest by its digest; for other transports skopeo chooses one from
  // the index by platform.
  const isRegistry = location.startsWith('docker://');
  const { top, children } = found ?? {};
  if (top === undefined || children === undefined) {
    const copied = await copyManifest(fetch, location, isRegistry ? top?.digest : undefined, signal);
    return { top: copied, subjects: [copied.digest] };
  }
  for (const digest of isRegistry ? children : children.slice(0, 1)) {
    const from = isRegistry ? `docker://${repositoryIn(fetch)}@${digest}` : location;
    const copied = await copyManifest(fetch, from, isRegistry ? digest : undefined, signal);
    if (copied.digest === digest && (isRegistry || children.length === 1)) continue;
    const message = `${name} from ${location}: skopeo takes only ${copied.digest} from its index, and nodes choose from ${children.join(', ')}; give it as docker://, oci: or --archive`;
    throw bundleError('bundle/source', message);
  }
  const missing = children.reduce((sum, digest) => sum + (unfetched?.get(digest) ?? 0), 0);
  unfetched?.set(top.digest, missing);
  return { top, subjects: [top.digest, ...children] };
}

function repositoryIn({ location }: Fetch): string {
  return repositoryOf(location.slice('docker://'.length));
}

/**
 * Finds what refers to images of registries: by the tags of cosign, by the API, and by the
 * referrers tag.
 */
class Attached {
  private readonly tagged = new Map<string, Descriptor>();
  private readonly referring = new Map<Digest, Descriptor>();
  private readonly leftOut = new Set<string>();
  private readonly lists: RegistryReferrers;

  constructor(private readonly options: FetchOptions) {
    this.lists = new RegistryReferrers(options.access);
  }

  entries(): readonly object[] {
    const tagged = [...this.tagged].map(([name, found]) => ({ ...found, annotations: { [REF_NAME]: name } }));
    return [...tagged, ...this.referring.values()];
  }

  notes(): Iterable<string> {
    return [...this.lists.notes.values(), ...this.leftOut];
  }

  /** @param repository as which nodes know the image */
  async fetch(fetch: Fetch, repository: string, subjects: readonly Digest[], signal: AbortSignal): Promise<void> {
    for (const subject of subjects) {
      for (const tag of attachedTagsOf(subject, this.options.referrers)) {
        const name = `${repository}:${tag}`;
        const take = async () => {
          const bytes = await inspectIfThere(fetch, `docker://${repositoryIn(fetch)}:${tag}`, signal);
          const found = bytes && (await this.copy(fetch, bytes, signal));
          if (found !== undefined) this.tagged.set(name, found);
        };
        // A node may refuse an image without its signature.
        await (tag.endsWith('.sig') ? take() : this.unlessOdd(name, take));
      }
      await this.fetchReferrers(fetch, repository, subject, signal);
    }
  }

  private async fetchReferrers(fetch: Fetch, repository: string, subject: Digest, signal: AbortSignal): Promise<void> {
    const { referrers: choice } = this.options;
    const image = `${repository}@${subject}`;
    const listed = (await this.unlessOdd(image, () => this.referrersOf(fetch, repository, subject, signal))) ?? [];
    const wanted = listed.filter(({ artifactType }) => artifactType === undefined || isChosen(artifactType, choice));
    const most = limits.attachedBlobs;
    if (wanted.length > most) this.leftOut.add(`${image}: of ${wanted.length} referrers only ${most} are read`);
    for (const { digest } of wanted.slice(0, most)) {
      if (this.referring.has(digest)) continue;
      await this.unlessOdd(`${image}: referrer ${digest}`, async () => {
        const bytes = await inspectIfThere(fetch, `docker://${repositoryIn(fetch)}@${digest}`, signal);
        if (bytes === undefined) throw bundleError('bundle/source', 'it is listed, but not there');
        const found = await this.copy(fetch, bytes, signal, choice);
        if (found !== undefined) this.referring.set(digest, found);
      });
    }
  }

  /** Adds a note instead of an error: anybody who may push can add what can't be fetched. */
  private async unlessOdd<T>(what: string, take: () => Promise<T>): Promise<T | undefined> {
    try {
      return await take();
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
      this.leftOut.add(`${what} is left out: ${error.message}`);
      return undefined;
    }
  }

  /** Sizes are known before anything is copied. Returns undefined when it is not chosen. */
  private async copy(fetch: Fetch, bytes: Buffer, signal: AbortSignal, choice: ReferrerChoice = 'all') {
    const digest = digestOf(bytes);
    const location = `docker://${repositoryIn(fetch)}@${digest}`;
    const found = parseReferring(bytes, location, 'bundle/source');
    // Runtimes read no signatures from an index.
    if (found.kind !== 'manifest') {
      this.leftOut.add(`${location} is left out: it is an index`);
      return undefined;
    }
    const of = { mediaType: found.mediaType, digest, size: bytes.length };
    if (!isChosen(referralOf(of, found).artifactType, choice)) return undefined;
    const excess = excessOf(partsOf(of, found));
    if (excess !== undefined) throw bundleError('bundle/source', `${location}: ${excess}`);
    return copyManifest({ ...fetch, isSignature: true }, location, undefined, signal);
  }

  private async referrersOf(
    fetch: Fetch,
    repository: string,
    subject: Digest,
    signal: AbortSignal,
  ): Promise<readonly Referral[]> {
    const listed = await this.lists.list(
      parseReference(`${withRegistry(repositoryIn(fetch), 'docker.io')}@${subject}`),
      subject,
      signal,
    );
    if (listed !== undefined) return listed;
    const tag = referrersTagOf(subject);
    const location = `docker://${repositoryIn(fetch)}:${tag}`;
    const bytes = await inspectIfThere(fetch, location, signal);
    if (bytes === undefined) return [];
    const referrers = parseReferrers(bytes, location, 'bundle/source');
    // The manifests in it may not say to what they refer.
    this.tagged.set(`${repository}:${tag}`, await keepDocument(fetch.folder, bytes, mediaTypes.ociIndex));
    return referrers;
  }
}

/** The manifest or, with `--config`, the config of an image. */
function inspectRaw({ name, location, access }: Fetch, from: string, signal: AbortSignal, ...more: '--config'[]) {
  const args = ['inspect', ...accessFlags(access, 'inspect'), '--raw', ...more, from];
  return runSkopeo(args, `${name} from ${location}`, signal);
}

/** Registries report a missing tag in these words; skopeo 1.9 exits with 1 for every error. */
const NOT_THERE = /manifest unknown|name unknown|image not found|status code 404|404 not found/i;

async function inspectIfThere(
  { name, access }: Fetch,
  location: string,
  signal: AbortSignal,
): Promise<Buffer | undefined> {
  try {
    const what = `${location.endsWith('.sig') ? 'the signature of' : 'what refers to'} ${name} at ${location}`;
    return await runSkopeo(['inspect', ...accessFlags(access, 'inspect'), '--raw', location], what, signal);
  } catch (error) {
    if (error instanceof AppError && NOT_THERE.test(error.message)) return undefined;
    throw error;
  }
}

interface Inspected {
  readonly top: Descriptor;
  /** The manifests of an index that runtimes choose; absent for a manifest. */
  readonly children?: readonly Digest[];
}

/** Keeps an index, since skopeo alone would copy a manifest and drop the index. */
async function fetchIndex(fetch: Fetch, signal: AbortSignal): Promise<Inspected> {
  const { name, location, arch, folder } = fetch;
  const bytes = await inspectRaw(fetch, location, signal);
  const mediaType = mediaTypeOf(bytes, name);
  if (!indexMediaTypes.has(mediaType)) return { top: { mediaType, digest: digestOf(bytes), size: bytes.length } };
  const index = parseIndex(bytes, `index of ${name}`, 'bundle/source');
  const readIndex = (entry: Descriptor) => fetchInner(fetch, entry, signal);
  const children = (await manifestsForPlatform(index, arch, name, readIndex)).map(({ digest }) => digest);
  return { top: await keepDocument(folder, bytes, mediaType), children };
}

/** An index in an index: only a registry answers it by its digest. */
async function fetchInner(fetch: Fetch, { digest, mediaType }: Descriptor, signal: AbortSignal) {
  const { name, location, folder } = fetch;
  if (!location.startsWith('docker://')) {
    const message = `${name} from ${location}: skopeo does not read the index ${digest} in its index; give it as docker://, oci: or --archive`;
    throw bundleError('bundle/source', message);
  }
  const bytes = await inspectRaw(fetch, `docker://${repositoryIn(fetch)}@${digest}`, signal);
  await keepDocument(folder, bytes, mediaType);
  return parseIndex(bytes, `index ${digest} of ${name}`, 'bundle/source');
}

/**
 * The `dir:` transport keeps Docker's schema 2; for an OCI layout skopeo would rewrite it.
 *
 * @param digest that of the manifest, if it is an image of a registry and known
 */
async function copyManifest(
  fetch: Fetch,
  location: string,
  digest: Digest | undefined,
  signal: AbortSignal,
): Promise<Descriptor> {
  const { name, arch, folder, access, isSignature, cache, unfetched } = fetch;
  if (digest !== undefined && unfetched !== undefined) return copyDocuments(fetch, location, digest, signal);
  const cached = digest && (await cache?.take(location, digest, folder, signal));
  if (cached) return keepDocument(folder, cached, mediaTypeOf(cached, name));
  const incoming = join(folder, INCOMING);
  const platform = ['--override-os', 'linux', '--override-arch', arch];
  const policy = isSignature ? ['--insecure-policy'] : [];
  const copy = ['copy', ...accessFlags(access, 'copy'), '--quiet', '--preserve-digests', location, `dir:${incoming}`];
  await runSkopeo([...policy, ...platform, ...copy], `${name} from ${location}`, signal).catch((error: unknown) => {
    throw withPlace(error, incoming, 'the new bundle');
  });
  for (const file of (await readdir(incoming)).filter((entry) => /^[0-9a-f]{64}$/.test(entry))) {
    await rename(join(incoming, file), layoutBlobPath(folder, digestFromHex(file)));
  }
  const bytes = await readFile(join(incoming, 'manifest.json'));
  await rm(incoming, { recursive: true });
  if (digest !== undefined) await cache?.put(location, bytes, folder);
  return keepDocument(folder, bytes, mediaTypeOf(bytes, name));
}

/** Fetches manifest and config without the layers, for a plan. */
async function copyDocuments(fetch: Fetch, location: string, digest: Digest, signal: AbortSignal): Promise<Descriptor> {
  const { name, folder, cache, unfetched } = fetch;
  const from = `docker://${repositoryIn(fetch)}@${digest}`;
  const bytes = await inspectRaw(fetch, from, signal);
  const { config, layers } = parseManifest(bytes, `manifest of ${name}`, 'bundle/source');
  await writeFile(layoutBlobPath(folder, config.digest), await inspectRaw(fetch, from, signal, '--config'));
  const isCached = (await cache?.find(location, digest)) !== undefined;
  unfetched?.set(digest, isCached ? 0 : layers.reduce((sum, { size }) => sum + size, config.size));
  return keepDocument(folder, bytes, mediaTypeOf(bytes, name));
}

async function keepDocument(folder: string, bytes: Buffer, mediaType: string): Promise<Descriptor> {
  const digest = digestOf(bytes);
  await writeFile(layoutBlobPath(folder, digest), bytes);
  return { mediaType, digest, size: bytes.length };
}

const typed = v.looseObject({ mediaType: v.exactOptional(v.string()), manifests: v.exactOptional(v.unknown()) });

/** image-spec: `mediaType` is optional in OCI documents; Docker's always have it. */
function mediaTypeOf(bytes: Buffer, name: string): string {
  const { mediaType, manifests } = parseJson(bytes, typed, `manifest of ${name}`, 'bundle/source');
  return mediaType ?? (manifests === undefined ? mediaTypes.ociManifest : mediaTypes.ociIndex);
}

/** A missing folder counts as 0. */
export async function folderBytes(folder: string): Promise<number> {
  const names = await readdir(folder).catch(() => []);
  const sizes = await Promise.all(
    names.map(async (name) => (await stat(join(folder, name)).catch(() => undefined))?.size ?? 0),
  );
  return sizes.reduce((sum, size) => sum + size, 0);
}
