import type { Referral } from '../bundle/verify/list-repositories.ts';
import type { Digest } from '../domain/model/digest.ts';

/**
 * The content of one repository of the registry: a catalog entry of the daemon, or a repository of
 * `stickpin bundle serve`.
 */
export interface Offer {
  readonly tags: ReadonlyMap<string, Digest>;
  /** Sizes in bytes of layers that are offered even while no source has them. */
  readonly layers: ReadonlyMap<Digest, number>;
  /**
   * Whether layers that are not promised in `layers` are waited for when their medium goes away
   * within a transfer. Default: yes.
   */
  readonly waitsForAll?: boolean;
  /** The digests that may be requested. Undefined: all that the source has. */
  readonly digests?: ReadonlySet<Digest>;
  /**
   * Which images these are, for `manifestAnswer`: references of the runtime by digest, and the
   * images that it is to pull from us now. Undefined: every manifest is sent to everybody.
   */
  readonly images?: { readonly references: ReadonlyMap<Digest, string>; readonly arriving: ReadonlySet<Digest> };
  /** Referrers by subject. Default none. */
  readonly referrers?: ReadonlyMap<Digest, readonly Referral[]>;
  /**
   * Tags of the referrers tag schema (`sha256-<hex>`), for clients without the referrers API. They
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
 * One page of tags (distribution-spec 1.1, "Listing Tags"): in case-insensitive lexical order,
 * after `last`, at most `limit`. The tag `last` need not exist.
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

/** The image index that lists referrers, optionally of one artifact type. */
export function referrersIndex(referrers: readonly Referral[], artifactType?: string) {
  const manifests = referrers.filter((one) => artifactType === undefined || one.artifactType === artifactType);
  return { schemaVersion: 2, mediaType: 'application/vnd.oci.image.index.v1+json', manifests };
}
