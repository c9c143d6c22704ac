import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Digest, digestFromHex, hexOf } from '../../domain/digest.ts';
import { formatReference } from '../../domain/reference.ts';
import { reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { bundleError } from '../bundle-error.ts';
import { limits } from '../limits.ts';
import { entryForPlatform, indexMediaTypes, parseIndex } from '../oci-schema.ts';
import type { ImageRequest } from './image-request.ts';
import type { LayoutRequest } from './plan-images.ts';

/** All images as layouts on disk. `remove` takes away what was fetched for it. */
export interface FetchedImages {
  readonly requests: readonly LayoutRequest[];
  remove(): Promise<void>;
}

/**
 * Brings every image that does not come from an OCI layout into layouts below `folder`, through skopeo (1.9 or newer) with
 * `--preserve-digests`. Of an index only the manifest for `linux/arch` is fetched, the index itself keeps its bytes. Layers that images
 * share are fetched once. Credentials, mirrors and TLS are as containers-registries.conf(5) and containers-auth.json(5) say.
 *
 * @throws AppError `bundle/skopeo` (`reject`) with skopeo's own last line.
 */
export async function fetchImages(
  images: readonly ImageRequest[],
  arch: string,
  folder: string,
  signal: AbortSignal,
): Promise<FetchedImages> {
  const requests: LayoutRequest[] = [];
  for (const [at, { source, ...image }] of images.entries()) {
    if (source.kind === 'layout') {
      requests.push({ ...image, directory: source.directory, selector: source.selector });
      continue;
    }
    const fetch: Fetch = { name: formatReference(image.reference), location: source.location, arch, folder, at };
    requests.push({ ...image, ...(await fetchImage(fetch, signal)) });
  }
  return { requests, remove: () => rm(folder, { recursive: true, force: true }) };
}

interface Fetch {
  readonly name: string;
  readonly location: string;
  readonly arch: string;
  readonly folder: string;
  readonly at: number;
}

type Fetched = Pick<LayoutRequest, 'directory' | 'selector'>;

async function fetchImage(fetch: Fetch, signal: AbortSignal): Promise<Fetched> {
  const directory = join(fetch.folder, String(fetch.at));
  await mkdir(join(directory, 'blobs', 'sha256'), { recursive: true });
  const index = fetch.location.startsWith('docker://') ? await fetchIndex(fetch, signal) : undefined;
  const location = index === undefined ? fetch.location : `${withoutTag(fetch.location)}@${index.child}`;
  await skopeo(
    [
      'copy',
      '--quiet',
      '--preserve-digests',
      '--override-os',
      'linux',
      '--override-arch',
      fetch.arch,
      location,
      `oci:${directory}:fetched`,
    ],
    fetch,
    signal,
  );
  if (index === undefined) return { directory, selector: { kind: 'only' } };
  await writeFile(join(directory, 'blobs', 'sha256', hexOf(index.digest)), index.bytes);
  const entry = { mediaType: index.mediaType, digest: index.digest, size: index.bytes.length };
  await writeFile(join(directory, 'index.json'), JSON.stringify({ schemaVersion: 2, manifests: [entry] }));
  return { directory, selector: { kind: 'only' } };
}

interface FetchedIndex {
  readonly digest: Digest;
  readonly bytes: Buffer;
  readonly mediaType: string;
  readonly child: Digest;
}

/** The index behind a location, or undefined when it is a plain manifest. skopeo's copy alone would leave the index behind. */
async function fetchIndex(fetch: Fetch, signal: AbortSignal): Promise<FetchedIndex | undefined> {
  const bytes = await skopeo(['inspect', '--raw', fetch.location], fetch, signal);
  const mediaType = mediaTypeOf(bytes);
  if (mediaType === undefined || !indexMediaTypes.has(mediaType)) return undefined;
  const child = entryForPlatform(parseIndex(bytes, `index of ${fetch.name}`, 'bundle/source'), fetch.arch);
  if (child === undefined) throw bundleError('bundle/source', `${fetch.name} has no image for linux/${fetch.arch}`);
  return {
    digest: digestFromHex(createHash('sha256').update(bytes).digest('hex')),
    bytes,
    mediaType,
    child: child.digest,
  };
}

function mediaTypeOf(bytes: Buffer): string | undefined {
  try {
    const value: unknown = JSON.parse(bytes.toString('utf8'));
    if (typeof value !== 'object' || value === null) return undefined;
    if ('mediaType' in value && typeof value.mediaType === 'string') return value.mediaType;
    // image-spec: mediaType is optional in an OCI index.
    return 'manifests' in value ? 'application/vnd.oci.image.index.v1+json' : undefined;
  } catch {
    return undefined;
  }
}

/** `docker://host:5000/repo` of `docker://host:5000/repo:tag` or `…@sha256:…`. */
function withoutTag(location: string): string {
  const [named = ''] = location.split('@');
  const colon = named.indexOf(':', named.lastIndexOf('/'));
  return colon < 0 ? named : named.slice(0, colon);
}

/** Runs skopeo. Its stdout, at most 4 MiB, is the answer. */
function skopeo(args: readonly string[], { name, location }: Fetch, signal: AbortSignal): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const fail = (why: string, cause?: unknown) =>
      reject(bundleError('bundle/skopeo', `${name} can't be fetched from ${location}: ${why}`, { cause }));
    const child = spawn('skopeo', args, { stdio: ['ignore', 'pipe', 'pipe'], signal });
    const out: Buffer[] = [];
    let outBytes = 0;
    let errors = '';
    child.stdout.on('data', (chunk: Buffer) => {
      outBytes += chunk.length;
      if (outBytes <= limits.manifestBytes) out.push(chunk);
      else child.kill();
    });
    child.stderr.on('data', (chunk: Buffer) => {
      errors = `${errors}${chunk.toString('utf8')}`.slice(-4096);
    });
    child.on('error', (error) => {
      if (signal.aborted) reject(signal.reason);
      else if (systemCodeOf(error) === 'ENOENT')
        fail('skopeo is not installed; install it, or give the image as oci:DIR:TAG', error);
      else fail(reasonOf(error), error);
    });
    child.on('close', (code) => {
      if (signal.aborted) reject(signal.reason);
      else if (code === 0) resolve(Buffer.concat(out));
      else fail(errors.trim().split('\n').at(-1) || `skopeo ended with ${code}`);
    });
  });
}
