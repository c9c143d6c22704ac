import type { BundleRepository } from '../../bundle/verify/list-repositories.ts';
import type { Digest } from '../../domain/model/digest.ts';
import { mirrorPathOf } from '../../domain/model/mirror-path.ts';
import { digestOf } from '../../platform/digest.ts';
import { type Offer, referrersIndex } from '../../registry/offer.ts';

/** The repositories of a served bundle, and their paths. */
export interface BundleOffers {
  /** See `PullApiOptions.find`. */
  readonly find: (path: string, namespace: string | undefined) => Offer | undefined;
  /** The paths of each repository, the full one first. */
  readonly paths: ReadonlyMap<string, readonly string[]>;
  /** Generated indexes for the referrers tag schema. */
  readonly documents: ReadonlyMap<Digest, Buffer>;
}

/**
 * Offers every repository under its full path (`quay.io/coreos/etcd`, and `localhost__5000/app` for
 * a registry with a port), and without the registry (`coreos/etcd`) if only one repository matches.
 * A client that names the original registry (`?ns=quay.io`) gets the repository of that registry.
 */
export function offersOf(repositories: ReadonlyMap<string, BundleRepository>): BundleOffers {
  const documents = new Map<Digest, Buffer>();
  const full = new Map<string, Offer>();
  const short = new Map<string, string[]>();
  for (const [repository, found] of repositories) {
    full.set(mirrorPathOf(repository), offerOf(found, documents));
    const path = withoutRegistry(repository);
    short.set(path, [...(short.get(path) ?? []), mirrorPathOf(repository)]);
  }
  const aliases = new Map<string, string>();
  for (const [path, [only, ...others]] of short) {
    if (only !== undefined && others.length === 0 && !full.has(path)) aliases.set(path, only);
  }
  return {
    documents,
    find: (path, namespace) => {
      const exact = full.get(path);
      if (exact !== undefined) return exact;
      if (namespace !== undefined) return full.get(mirrorPathOf(`${namespace}/${path}`));
      return full.get(aliases.get(path) ?? '');
    },
    paths: new Map(
      [...repositories.keys()].map((repository) => {
        const path = mirrorPathOf(repository);
        const alias = withoutRegistry(repository);
        return [repository, aliases.get(alias) === path ? [path, alias] : [path]];
      }),
    ),
  };
}

function withoutRegistry(repository: string): string {
  return repository.slice(repository.indexOf('/') + 1);
}

/** Adds the generated indexes for referrers tags to `documents`. */
function offerOf({ digests, tags, referrers }: BundleRepository, documents: Map<Digest, Buffer>): Offer {
  const referrersTags = new Map<string, Digest>();
  const all = new Set(digests);
  for (const [subject, found] of referrers) {
    const bytes = Buffer.from(JSON.stringify(referrersIndex(found)));
    const digest = digestOf(bytes);
    documents.set(digest, bytes);
    all.add(digest);
    referrersTags.set(subject.replace(':', '-'), digest);
  }
  return { digests: all, tags, referrers, referrersTags, layers: new Map() };
}
