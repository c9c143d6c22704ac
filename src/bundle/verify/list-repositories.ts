import type { Contents } from '../../domain/model/bundle.ts';
import type { Digest } from '../../domain/model/digest.ts';
import { parseReference, type Reference } from '../../domain/model/reference.ts';
import { AppError } from '../../platform/app-error.ts';
import type { Descriptor, ImageIndex, IndexEntry } from '../format/oci-schema.ts';
import {
  parseReferring,
  type Referral,
  type ReferringDocument,
  referralOf,
  subjectOfTag,
} from '../format/referrers.ts';
import { limits } from '../limits.ts';
import type { BundleReader } from '../read/bundle-reader.ts';
import { readBlob } from '../read/open-file.ts';

export interface BundleRepository {
  /** Manifests, indexes, configs and layers; some may be missing. */
  readonly digests: ReadonlySet<Digest>;
  readonly tags: ReadonlyMap<string, Digest>;
  /** The referrers by subject, in the order of `index.json`, each once. */
  readonly referrers: ReadonlyMap<Digest, readonly Referral[]>;
}

interface Growing {
  readonly digests: Set<Digest>;
  readonly tags: Map<string, Digest>;
  readonly referrers: Map<Digest, Map<Digest, Referral>>;
}

const REF_NAME = 'org.opencontainers.image.ref.name';
/** The most levels of nested indexes. */
const MAX_DEPTH = 3;

/**
 * The images of each repository, and other manifests of `index.json`, as signatures and those with
 * a `subject`. Missing, damaged and foreign documents are skipped. @throws AppError `media/gone`
 */
export async function listRepositories(
  reader: BundleReader,
  bundle: { readonly contents: Contents; readonly index: ImageIndex },
  signal: AbortSignal,
): Promise<ReadonlyMap<string, BundleRepository>> {
  const repositories = new Map<string, Growing>();
  const at = (name: string): Growing => {
    const growing = repositories.get(name) ?? { digests: new Set(), tags: new Map(), referrers: new Map() };
    repositories.set(name, growing);
    return growing;
  };
  const listed = new Map(bundle.index.manifests.map((entry) => [entry.digest, entry]));
  for (const image of bundle.contents.images) {
    const repository = at(parseReference(image.reference).repository);
    for (const tag of image.tags) repository.tags.set(parseReference(tag).tag ?? '', image.digest);
    const entry = listed.get(image.digest);
    if (entry !== undefined) await collect(reader, entry, repository, signal);
  }
  for (const entry of bundle.index.manifests) await collectAttached(reader, entry, { repositories, at }, signal);
  return new Map([...repositories].map(([name, growing]) => [name, finished(growing)]));
}

/** Collects an entry that is no image of the contents: by its name, else by its subject. */
async function collectAttached(
  reader: BundleReader,
  entry: IndexEntry,
  { repositories, at }: { repositories: ReadonlyMap<string, Growing>; at: (name: string) => Growing },
  signal: AbortSignal,
): Promise<void> {
  const name = namedBy(entry);
  if (name !== undefined) {
    const repository = at(name.repository);
    if (!repository.digests.has(entry.digest)) await collect(reader, entry, repository, signal);
    if (name.tag === undefined || repository.tags.has(name.tag)) return;
    repository.tags.set(name.tag, entry.digest);
    const subject = subjectOfTag(name.tag);
    if (subject !== undefined) await collectListed(reader, entry, subject, repository, signal);
    return;
  }
  const subject = (await readDocument(reader, entry, signal))?.subject;
  if (subject === undefined) return;
  for (const repository of repositories.values()) {
    if (repository.digests.has(subject.digest)) await collect(reader, entry, repository, signal);
  }
}

/** All entries of an index under a referrers tag refer to `subject`, even if they don't say so. */
async function collectListed(
  reader: BundleReader,
  index: Descriptor,
  subject: Digest,
  repository: Growing,
  signal: AbortSignal,
): Promise<void> {
  const listed = await readDocument(reader, index, signal);
  for (const child of listed === undefined ? [] : childrenOf(listed)) {
    const found = await readDocument(reader, child, signal);
    if (found !== undefined) addReferral(repository, subject, referralOf(child, found));
  }
}

async function collect(
  reader: BundleReader,
  of: Descriptor,
  repository: Growing,
  signal: AbortSignal,
  depth = 0,
): Promise<void> {
  repository.digests.add(of.digest);
  const found = await readDocument(reader, of, signal);
  if (found === undefined) return;
  const parts = found.kind === 'manifest' ? [found.config, ...found.layers] : [];
  for (const { digest: part } of parts) repository.digests.add(part);
  if (found.subject !== undefined) addReferral(repository, found.subject.digest, referralOf(of, found));
  for (const child of depth < MAX_DEPTH ? childrenOf(found) : []) {
    if (!repository.digests.has(child.digest)) await collect(reader, child, repository, signal, depth + 1);
  }
}

function childrenOf(of: ReferringDocument): readonly Descriptor[] {
  return of.kind === 'index' ? of.manifests : [];
}

async function readDocument(
  reader: BundleReader,
  of: Descriptor,
  signal: AbortSignal,
): Promise<ReferringDocument | undefined> {
  if (of.size > limits.manifestBytes) return undefined;
  const read = await readBlob(reader, { digest: of.digest, sizeBytes: of.size }, signal);
  if (read.kind === 'missing') return undefined;
  try {
    return parseReferring(read.bytes, of.digest, 'bundle/inconsistent');
  } catch (error) {
    if (error instanceof AppError) return undefined;
    throw error;
  }
}

function addReferral({ referrers }: Growing, subject: Digest, referral: Referral): void {
  const known = referrers.get(subject) ?? new Map<Digest, Referral>();
  known.set(referral.digest, referral);
  referrers.set(subject, known);
}

function namedBy({ annotations }: IndexEntry): Reference | undefined {
  try {
    return parseReference(annotations?.[REF_NAME] ?? '');
  } catch {
    return undefined; // a short name, or none: it names no repository
  }
}

function finished({ digests, tags, referrers }: Growing): BundleRepository {
  const listed = [...referrers].map(([subject, all]) => [subject, [...all.values()]] as const);
  return { digests, tags, referrers: new Map(listed) };
}
