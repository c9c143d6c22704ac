import { bundleError } from '../../bundle/bundle-error.ts';
import {
  type Descriptor,
  type ImageManifest,
  type IndexEntry,
  indexMediaTypes,
  manifestMediaTypes,
  mediaTypes,
  parseManifest,
  type SourceEntry,
} from '../../bundle/format/oci-schema.ts';
import {
  parseReferrers,
  parseReferring,
  type Referral,
  type ReferringDocument,
  referralOf,
  referrersIndex,
  referrersTagOf,
} from '../../bundle/format/referrers.ts';
import { limits } from '../../bundle/limits.ts';
import type { AttachedTag, ContentPointer } from '../../domain/model/bundle.ts';
import type { Digest } from '../../domain/model/digest.ts';
import { AppError } from '../../platform/app-error.ts';
import { defined } from '../../platform/defined.ts';
import { digestOf } from '../../platform/digest.ts';
import { layoutBlobPath, readLayoutDocument, refNameOf } from './layout-source.ts';

/** What travels of the documents that refer to an image. */
export type ReferrerChoice = 'signatures' | 'all' | 'none';

/** Characters, of one entry of a list. */
const MAX_ANNOTATIONS = 1_000;
const MAX_TYPE = 255;
/** Sigstore bundles of cosign 3, and Notary's signatures. */
const SIGNATURE_TYPE = /^application\/vnd\.(?:dev\.sigstore\.bundle\b|cncf\.notary\.signature$)/;

export function isChosen(artifactType: string | undefined, choice: ReferrerChoice): boolean {
  return choice === 'all' || (choice === 'signatures' && SIGNATURE_TYPE.test(artifactType ?? ''));
}

/** Kinds of tags that describe an image (cosign); the first is that of signatures. */
const KINDS = ['sig', 'att', 'sbom'] as const;

/** cosign and podman (containers-registries.d(5), `use-sigstore-attachments`). */
export function signatureTagOf(digest: Digest): string {
  return attachedTagsOf(digest, 'signatures')[0] ?? '';
}

export function attachedTagsOf(digest: Digest, choice: ReferrerChoice): string[] {
  const kinds = choice === 'all' ? KINDS : choice === 'signatures' ? KINDS.slice(0, 1) : [];
  return kinds.map((kind) => `${referrersTagOf(digest)}.${kind}`);
}

interface AttachedSource {
  readonly repository: string;
  readonly directory: string;
  /** Its name in errors. */
  readonly place: string;
  readonly entries: readonly SourceEntry[];
}

/** Why these blobs may not be attached to an image. */
export function excessOf(blobs: readonly Pick<ContentPointer, 'size'>[]): string | undefined {
  const { manifestBytes, attachedBlobs } = limits;
  const large = blobs.find(({ size }) => size > manifestBytes);
  if (large !== undefined) return `it has a blob of ${large.size} bytes, and ${manifestBytes} are allowed`;
  if (blobs.length > attachedBlobs) return `it has ${blobs.length} blobs, and ${attachedBlobs} are allowed`;
  return undefined;
}

/** The manifest, its config and its layers, each once. */
export function partsOf(of: ContentPointer, { config, layers }: ImageManifest): readonly ContentPointer[] {
  const parts = [of, config, ...layers].map(({ digest, size }) => [digest, { digest, size }] as const);
  return [...new Map(parts).values()];
}

/** The content of a layout, by the names of its entries. */
interface Listing {
  readonly byName: ReadonlyMap<string, IndexEntry>;
  readonly byTag: ReadonlyMap<string, IndexEntry>;
  readonly bySubject: ReadonlyMap<Digest, readonly Referral[]>;
}

/** The documents of all sources that refer to one digest in a repository. */
interface ReferrersList {
  readonly taken: Map<Digest, Referral>;
  readonly blobs: Map<Digest, ContentPointer>;
}

/** Finds signatures and other referrers in layouts: by their tags, and by their `subject`. */
export class AttachedReader {
  readonly warnings = new Set<string>();
  /** The listings by directory. */
  private readonly listings = new Map<string, Listing>();
  /** The full names of tags that describe an image, by its reference. */
  private readonly names = new Map<string, readonly string[]>();
  /** The tags by full name. Images of one repository may share a manifest and its attachments. */
  private readonly tagged = new Map<string, AttachedTag>();
  private readonly lists = new Map<string, ReferrersList>();
  private readonly read = new Map<Digest, Buffer>();

  /** @param documents of the bundle; {@link of} adds those that are attached */
  constructor(
    private readonly choice: ReferrerChoice,
    private readonly documents: Map<Digest, Buffer>,
    private readonly signal: AbortSignal,
  ) {}

  /**
   * Each image once, by its `reference`.
   *
   * @throws AppError `bundle/source` when a signature under its tag is damaged, too large, or none
   */
  async find(reference: string, subjects: readonly Digest[], source: AttachedSource): Promise<void> {
    if (this.choice === 'none' || this.names.has(reference)) return;
    const names: string[] = [];
    for (const subject of subjects) {
      for (const tag of attachedTagsOf(subject, this.choice)) {
        if (await this.takeTagged(tag, source)) names.push(`${source.repository}:${tag}`);
      }
      names.push(await this.takeReferrers(subject, source));
    }
    this.names.set(reference, names);
  }

  /** Call it when all images were found: returns what is attached to this one. */
  of(reference: string): AttachedTag[] {
    const all = (this.names.get(reference) ?? []).flatMap((name) => this.tagged.get(name) ?? this.listed(name) ?? []);
    const mayHaveSignatures = ({ tag }: AttachedTag) => !/\.(?:att|sbom)$/.test(tag);
    const others = all.filter((one) => !mayHaveSignatures(one));
    const most = limits.attachedTags;
    const kept = all.length <= most ? all : [...all.filter(mayHaveSignatures), ...others].slice(0, most);
    for (const { tag } of all.filter((one) => !kept.includes(one))) {
      this.warnings.add(`${reference}: ${tag} is left out: the image has more than ${most} such tags`);
    }
    for (const { digest } of kept.flatMap((one) => [one, ...one.blobs])) {
      const bytes = this.read.get(digest);
      if (bytes !== undefined) this.documents.set(digest, bytes);
    }
    return kept;
  }

  private listed(name: string): AttachedTag | undefined {
    const { taken, blobs } = this.lists.get(name) ?? {};
    if (taken === undefined || blobs === undefined || taken.size === 0) return undefined;
    const bytes = Buffer.from(JSON.stringify(referrersIndex([...taken.values()])));
    const digest = digestOf(bytes);
    this.read.set(digest, bytes);
    const tag = name.slice(name.lastIndexOf(':') + 1);
    return { tag, digest, size: bytes.length, mediaType: mediaTypes.ociIndex, blobs: [...blobs.values()] };
  }

  /** A node may refuse an image without its signature, but not without anything else. */
  private async takeTagged(tag: string, source: AttachedSource): Promise<boolean> {
    const { repository, place } = source;
    const name = `${repository}:${tag}`;
    const entry = await this.entryOf(tag, source);
    const known = this.tagged.get(name);
    if (entry === undefined) return false;
    if (known !== undefined) {
      if (known.digest !== entry.digest) {
        this.warnings.add(
          `${name} is ${entry.digest} in ${place}, and ${known.digest} in another source, which is taken`,
        );
      }
      return true;
    }
    // Runtimes read no signatures from an index.
    if (indexMediaTypes.has(entry.mediaType)) {
      this.warnings.add(`${name} is left out: it is an index`);
      return false;
    }
    try {
      this.tagged.set(name, await this.readTagged(tag, entry, source));
      return true;
    } catch (error) {
      if (!(error instanceof AppError) || tag.endsWith('.sig')) throw error;
      this.warnings.add(`${name} is left out: ${error.message}`);
      return false;
    }
  }

  private async readTagged(tag: string, entry: IndexEntry, source: AttachedSource): Promise<AttachedTag> {
    const what = `${source.repository}:${tag}`;
    const { digest, size, mediaType } = entry;
    const manifest = parseManifest(await this.peek(entry, source), `manifest of ${what}`, 'bundle/source');
    const parts = partsOf(entry, manifest);
    const blobs = parts.filter((part) => part.digest !== digest);
    const excess = excessOf(blobs);
    if (excess !== undefined) throw bundleError('bundle/source', `${what}: ${excess}`);
    await this.keep(parts, source);
    return { tag, digest, size, mediaType, blobs };
  }

  /** @returns the full name of the referrers tag */
  private async takeReferrers(subject: Digest, source: AttachedSource): Promise<string> {
    const tag = referrersTagOf(subject);
    const name = `${source.repository}:${tag}`;
    const list = this.lists.get(name) ?? { taken: new Map(), blobs: new Map() };
    this.lists.set(name, list);
    const { bySubject } = await this.listingOf(source);
    for (const referral of [...(await this.taggedReferrers(tag, source)), ...(bySubject.get(subject) ?? [])]) {
      if (list.taken.has(referral.digest)) continue;
      const why = await this.takeReferrer(referral, list, source);
      if (why !== undefined) {
        this.warnings.add(`${source.repository}@${subject}: referrer ${referral.digest} is left out: ${why}`);
      }
    }
    return name;
  }

  private async taggedReferrers(tag: string, source: AttachedSource): Promise<readonly Referral[]> {
    const entry = await this.entryOf(tag, source);
    if (entry === undefined) return [];
    try {
      return parseReferrers(await this.peek(entry, source), `${tag} of ${source.place}`, 'bundle/source');
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
      this.warnings.add(`${source.repository}:${tag} is left out: ${error.message}`);
      return [];
    }
  }

  /** @returns why it is left out; undefined also when it is absent, or of another kind */
  private async takeReferrer(
    of: Referral,
    { taken, blobs }: ReferrersList,
    source: AttachedSource,
  ): Promise<string | undefined> {
    const found = await this.document(of, source);
    if (found?.kind !== 'manifest') return undefined;
    const referral = referralOf(of, found);
    if (!isChosen(referral.artifactType, this.choice)) return undefined;
    const parts = partsOf(of, found);
    const excess = excessOf(parts);
    if (excess !== undefined) return excess;
    if (blobs.size + parts.length > limits.attachedBlobs) return `${limits.attachedBlobs} blobs in all are allowed`;
    try {
      await this.keep(parts, source);
      for (const part of parts) blobs.set(part.digest, part);
      taken.set(of.digest, shortened(referral));
      return undefined;
    } catch (error) {
      if (error instanceof AppError) return error.message;
      throw error;
    }
  }

  /** Finds it by its full name, else by its tag, preferably in the repository of the image. */
  private async entryOf(tag: string, source: AttachedSource): Promise<IndexEntry | undefined> {
    const { byName, byTag } = await this.listingOf(source);
    return byName.get(`${source.repository}:${tag}`) ?? byName.get(tag) ?? byTag.get(tag);
  }

  private async listingOf(source: AttachedSource): Promise<Listing> {
    const known = this.listings.get(source.directory);
    if (known !== undefined) return known;
    const byName = new Map<string, IndexEntry>();
    const byTag = new Map<string, IndexEntry>();
    const bySubject = new Map<Digest, Referral[]>();
    // Many entries may name one large manifest.
    const read = new Set<Digest>();
    for (const one of source.entries) {
      if (one.kind !== 'usable' || !manifestMediaTypes.has(one.entry.mediaType)) continue;
      const { entry } = one;
      const name = refNameOf(entry);
      const tag = name?.slice(name.lastIndexOf(':') + 1);
      if (name !== undefined && !byName.has(name)) byName.set(name, entry);
      if (tag !== undefined && !byTag.has(tag)) byTag.set(tag, entry);
      if (indexMediaTypes.has(entry.mediaType) || read.has(entry.digest)) continue;
      read.add(entry.digest);
      const found = await this.document(entry, source);
      if (found?.subject === undefined) continue;
      const { digest } = found.subject;
      const same = bySubject.get(digest);
      if (same === undefined) bySubject.set(digest, [referralOf(entry, found)]);
      else same.push(referralOf(entry, found));
    }
    const listing = { byName, byTag, bySubject };
    this.listings.set(source.directory, listing);
    return listing;
  }

  /** Returns undefined when it is absent, or no manifest. */
  private async document(of: Descriptor, source: AttachedSource): Promise<ReferringDocument | undefined> {
    try {
      return parseReferring(await this.peek(of, source), of.digest, 'bundle/source');
    } catch (error) {
      if (error instanceof AppError) return undefined;
      throw error;
    }
  }

  /** All or none. */
  private async keep(parts: readonly ContentPointer[], source: AttachedSource): Promise<void> {
    const read: [Digest, Buffer][] = [];
    for (const part of parts) read.push([part.digest, await this.peek(part, source)]);
    for (const [digest, bytes] of read) this.read.set(digest, bytes);
  }

  private peek(of: ContentPointer, { directory, place }: AttachedSource): Promise<Buffer> {
    const file = { path: layoutBlobPath(directory, of.digest), what: `blob ${of.digest} in ${place}` };
    return readLayoutDocument(file, of, this.signal);
  }
}

/** Long texts are in the manifest itself; nodes read the list strictly. */
function shortened({ annotations, artifactType, ...referral }: Referral): Referral {
  const isShort = JSON.stringify(annotations ?? {}).length <= MAX_ANNOTATIONS;
  return {
    ...referral,
    ...defined({ artifactType: artifactType?.slice(0, MAX_TYPE), annotations: isShort ? annotations : undefined }),
  };
}
