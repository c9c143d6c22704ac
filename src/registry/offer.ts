import type { Referral } from '../bundle/verify/list-repositories.ts';
import type { Digest } from '../domain/model/digest.ts';

/**
 * What the registry offers under one repository. A catalog's entry of the daemon is one, a
 * repository of a served bundle another.
 */
export interface Offer {
  readonly tags: ReadonlyMap<string, Digest>;
  /** Sizes in bytes of what is promised even while no source has it. */
  readonly layers: ReadonlyMap<Digest, number>;
  /** All that may be asked for by digest; undefined: whatever the source has. */
  readonly digests?: ReadonlySet<Digest>;
  /** Manifests that are not given although a source has them. */
  readonly withheld?: ReadonlySet<Digest> | undefined;
  /** By subject; undefined where they are not known, which clients are told. */
  readonly referrers?: ReadonlyMap<Digest, readonly Referral[]>;
  /**
   * Tags of the referrers tag schema (`sha256-<hex>`), for clients that ask for no referrers; they
   * are in no list.
   */
  readonly referrersTags?: ReadonlyMap<string, Digest>;
}

/** One page of tags in the order of the specification. */
export interface TagPage {
  readonly tags: readonly string[];
  /** The last tag of the page when others follow. */
  readonly last: string | undefined;
}

/**
 * Pages through tags (distribution-spec 1.1, "Listing Tags"): in lexical order regardless of case,
 * those behind `last`, at most `limit`. `last` need not exist (any more).
 */
export function pageOfTags(tags: Iterable<string>, limit: number | undefined, last: string | undefined): TagPage {
  const behind = [...tags].sort(lexically).filter((tag) => last === undefined || lexically(tag, last) > 0);
  const page = limit === undefined ? behind : behind.slice(0, limit);
  return { tags: page, last: page.length > 0 && page.length < behind.length ? page.at(-1) : undefined };
}

function lexically(a: string, b: string): number {
  return compare(a.toLowerCase(), b.toLowerCase()) || compare(a, b);
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** The image index that lists referrers, those of one artifact type when it is given. */
export function referrersIndex(referrers: readonly Referral[], artifactType?: string) {
  const manifests = referrers.filter((one) => artifactType === undefined || one.artifactType === artifactType);
  return { schemaVersion: 2, mediaType: 'application/vnd.oci.image.index.v1+json', manifests };
}
