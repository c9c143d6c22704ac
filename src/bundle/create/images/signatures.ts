import type { AttachedTag } from '../../../domain/model/bundle.ts';
import type { Digest } from '../../../domain/model/digest.ts';
import { bundleError } from '../../bundle-error.ts';
import {
  type Descriptor,
  type IndexEntry,
  indexMediaTypes,
  manifestMediaTypes,
  parseManifest,
} from '../../format/oci-schema.ts';
import { limits } from '../../limits.ts';
import { refNameOf } from './layout-source.ts';

/**
 * The tag under which cosign and podman keep the sigstore signatures of a manifest in its
 * repository (containers-registries.d(5), `use-sigstore-attachments`).
 */
export function signatureTagOf(digest: Digest): string {
  return `${digest.replace(':', '-')}.sig`;
}

/** Where signatures of an image are searched. */
interface SignatureSource {
  /** Of the image's reference, as `quay.io/coreos/etcd`. */
  readonly repository: string;
  /** All entries of the layout's `index.json`. */
  readonly entries: readonly IndexEntry[];
  /** Reads and keeps a document of the layout. */
  readonly read: (of: Descriptor) => Promise<Buffer>;
}

/**
 * The signatures of these manifests that a layout holds: entries named `sha256-<hex>.sig`, or the
 * same after a repository, preferably that of the image. Their manifests and blobs are read.
 *
 * @throws AppError `bundle/source` (`reject`) when one is damaged, too large, or no image manifest.
 */
export async function readSignatures(subjects: readonly Digest[], source: SignatureSource): Promise<AttachedTag[]> {
  const attached: AttachedTag[] = [];
  for (const subject of subjects) {
    const tag = signatureTagOf(subject);
    const found = findEntry(tag, source);
    if (found !== undefined) attached.push(await readSignature(tag, found, source));
  }
  return attached;
}

function findEntry(tag: string, { repository, entries }: SignatureSource): IndexEntry | undefined {
  const named = (isIt: (name: string) => boolean) =>
    entries.find((entry) => manifestMediaTypes.has(entry.mediaType) && isIt(refNameOf(entry) ?? ''));
  return (
    named((name) => name === `${repository}:${tag}`) ??
    named((name) => name === tag) ??
    named((name) => name.endsWith(`:${tag}`))
  );
}

async function readSignature(
  tag: string,
  entry: IndexEntry,
  { repository, read }: SignatureSource,
): Promise<AttachedTag> {
  const what = `${repository}:${tag}`;
  if (indexMediaTypes.has(entry.mediaType)) throw bundleError('bundle/source', `${what} is an index, not a signature`);
  const { config, layers } = parseManifest(await read(entry), `manifest of ${what}`, 'bundle/source');
  const blobs = new Map([config, ...layers].map((blob) => [blob.digest, blob]));
  if (blobs.size > limits.attachedBlobs) {
    throw bundleError('bundle/source', `${what} has ${blobs.size} blobs, and ${limits.attachedBlobs} are allowed`);
  }
  for (const blob of blobs.values()) await read(blob);
  const { digest, size, mediaType } = entry;
  return {
    tag,
    digest,
    size,
    mediaType,
    blobs: [...blobs.values()].map((blob) => ({ digest: blob.digest, size: blob.size })),
  };
}
