import { bundleError } from '../../bundle/bundle-error.ts';
import {
  type Descriptor,
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
import { oneLine } from '../../platform/plain-text.ts';
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
  /** Adds the document to those that travel. @throws AppError `bundle/source` */
  readonly read: (of: Descriptor) => Promise<Buffer>;
}

/** Finds signatures and other referrers in layouts: by their tags, and by their `subject`. */
export class AttachedReader {
  readonly warnings: string[] = [];
  /** By directory, then by subject. */
  private readonly known = new Map<string, ReadonlyMap<Digest, readonly Referral[]>>();

  /** @param documents of the bundle; the indexes of referrers are added */
  constructor(
    private readonly choice: ReferrerChoice,
    private readonly documents: Map<Digest, Buffer>,
    private readonly signal: AbortSignal,
  ) {}

  /** @throws AppError `bundle/source` when one is damaged, too large, or no manifest */
  async of(subjects: readonly Digest[], source: AttachedSource): Promise<AttachedTag[]> {
    if (this.choice === 'none') return [];
    const attached: AttachedTag[] = [];
    for (const subject of subjects) {
      for (const tag of attachedTagsOf(subject, this.choice)) {
        const found = findEntry(tag, source);
        if (found !== undefined) attached.push(await readTagged(tag, found, source));
      }
      const referrers = await this.referrersOf(subject, source);
      if (referrers !== undefined) attached.push(referrers);
    }
    return attached;
  }

  private async referrersOf(subject: Digest, source: AttachedSource): Promise<AttachedTag | undefined> {
    const tag = referrersTagOf(subject);
    const listed = findEntry(tag, source);
    const tagged =
      listed === undefined
        ? []
        : parseReferrers(await this.peek(listed, source), `${tag} of ${source.place}`, 'bundle/source');
    const all = new Map(
      [...tagged, ...((await this.subjectsIn(source)).get(subject) ?? [])].map((one) => [one.digest, one]),
    );
    const taken: Referral[] = [];
    const blobs = new Map<Digest, ContentPointer>();
    for (const referral of all.values()) {
      const parts = await this.partsOf(referral, source);
      if (parts === undefined || !isChosen(parts.referral.artifactType, this.choice)) continue;
      if (
        parts.blobs.some(({ size }) => size > limits.manifestBytes) ||
        blobs.size + parts.blobs.length > limits.attachedBlobs
      ) {
        this.warnings.push(
          `${source.repository}@${subject}: ${oneLine((parts.referral.artifactType ?? '').slice(0, MAX_TYPE))} ${referral.digest} is too large for a bundle, and is left out`,
        );
        continue;
      }
      if (!(await this.areThere(parts.blobs, source))) {
        this.warnings.push(
          `${source.repository}@${subject}: not all of referrer ${referral.digest} is there, and it is left out`,
        );
        continue;
      }
      for (const blob of parts.blobs) {
        await source.read({ mediaType: '', ...blob });
        blobs.set(blob.digest, blob);
      }
      taken.push(shortened(parts.referral));
    }
    if (taken.length === 0) return undefined;
    const bytes = Buffer.from(JSON.stringify(referrersIndex(taken)));
    const digest = digestOf(bytes);
    this.documents.set(digest, bytes);
    return { tag, digest, size: bytes.length, mediaType: mediaTypes.ociIndex, blobs: [...blobs.values()] };
  }

  private async areThere(blobs: readonly ContentPointer[], source: AttachedSource): Promise<boolean> {
    try {
      for (const blob of blobs) await this.peek({ mediaType: '', ...blob }, source);
      return true;
    } catch (error) {
      if (error instanceof AppError) return false;
      throw error;
    }
  }

  /** Undefined when it is not there, or no manifest: nothing depends on it. */
  private async partsOf(of: Referral, source: AttachedSource) {
    const found = await this.document(of, source);
    if (found?.kind !== 'manifest') return undefined;
    const parts = [of, found.config, ...found.layers].map(({ digest, size }) => [digest, { digest, size }] as const);
    return { referral: referralOf(of, found), blobs: [...new Map(parts).values()] };
  }

  private async subjectsIn(source: AttachedSource): Promise<ReadonlyMap<Digest, readonly Referral[]>> {
    const { directory, entries } = source;
    const known = this.known.get(directory);
    if (known !== undefined) return known;
    const bySubject = new Map<Digest, Referral[]>();
    for (const one of entries) {
      if (one.kind !== 'usable' || indexMediaTypes.has(one.entry.mediaType)) continue;
      const found = await this.document(one.entry, source);
      if (found?.subject === undefined) continue;
      const { digest } = found.subject;
      bySubject.set(digest, [...(bySubject.get(digest) ?? []), referralOf(one.entry, found)]);
    }
    this.known.set(directory, bySubject);
    return bySubject;
  }

  private async document(of: Descriptor, source: AttachedSource): Promise<ReferringDocument | undefined> {
    try {
      return parseReferring(await this.peek(of, source), of.digest, 'bundle/source');
    } catch (error) {
      if (error instanceof AppError) return undefined;
      throw error;
    }
  }

  private peek(of: Descriptor, { directory, place }: AttachedSource): Promise<Buffer> {
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

/** Named by the tag, or so after a repository, preferably that of the image. */
function findEntry(tag: string, { repository, entries }: AttachedSource): IndexEntry | undefined {
  const usable = entries.flatMap((one) => (one.kind === 'usable' ? one.entry : []));
  const named = (isIt: (name: string) => boolean) =>
    usable.find((entry) => manifestMediaTypes.has(entry.mediaType) && isIt(refNameOf(entry) ?? ''));
  return (
    named((name) => name === `${repository}:${tag}`) ??
    named((name) => name === tag) ??
    named((name) => name.endsWith(`:${tag}`))
  );
}

async function readTagged(tag: string, entry: IndexEntry, { repository, read }: AttachedSource): Promise<AttachedTag> {
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
