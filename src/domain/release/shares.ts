import { allIn, artifactLayers } from '../model/bundle.ts';
import type { BundleId } from '../model/digest.ts';
import { takesArtifacts } from '../model/image.ts';
import type { RoleShortage } from '../model/reason.ts';
import { diskUse, keptLayers } from '../preload/space.ts';
import type { Policy } from '../settings/settings.ts';
import type { Observed, StoredBundle } from '../state/state.ts';
import { ownerRoles, type Role } from '../trust/role.ts';
import { keptBundles } from './recorded-phase.ts';

/** The disk use of releases of roles (docs/decisions/key-roles.md, "Share of the disk"). */
export interface Shares {
  /** The role in force of each kept release that is not one of plain keys. */
  readonly owners: ReadonlyMap<BundleId, Role>;
  /** These releases would bring their role above its `max_bytes`. */
  readonly short: ReadonlyMap<BundleId, RoleShortage>;
  /** These roles have more than their `max_bytes`. */
  readonly over: ReadonlySet<string>;
  /** Returns how many bytes of their share roles get back with these releases. */
  freed(gone: readonly StoredBundle[]): number;
}

interface ShareContext {
  readonly observed: Pick<Observed, 'roles' | 'runtime'>;
  readonly policy: Pick<Policy, 'retention' | 'trust'>;
  readonly isTrusted: (bundle: StoredBundle) => boolean;
}

/** Keys are a layer, an image, or a copy. Values are bytes. */
type Parts = ReadonlyMap<string, number>;

/**
 * Releases of each role that were ready count first, then those that are loaded. Parts that a
 * release of plain keys also has do not count.
 */
export function assessShares(bundles: readonly StoredBundle[], context: ShareContext): Shares {
  const kept = keptBundles(bundles);
  const owners = ownersOf(kept, context);
  const limited = [...new Set(owners.values())].filter(({ maxBytes }) => maxBytes !== undefined);
  const plain = limited.length === 0 ? [] : kept.filter(({ bundleId }) => !owners.has(bundleId));
  const ofOthers = new Set(plain.flatMap((bundle) => [...partsOf(bundle, context).keys()]));
  const isOfOthers = (part: string) => ofOthers.has(part);
  const short = new Map<BundleId, RoleShortage>();
  const over = new Set<string>();
  const counted = new Map<Role, readonly StoredBundle[]>();
  const used = (releases: readonly StoredBundle[]) =>
    bytesOf(new Map(releases.flatMap((one) => [...partsOf(one, context)])), isOfOthers);
  for (const role of limited) {
    const { name, maxBytes: max = 0 } = role;
    const ofRole = kept.filter(({ bundleId }) => owners.get(bundleId) === role);
    const has = ofRole.filter(isLoaded);
    const parts = new Map(has.flatMap((one) => [...partsOf(one, context)]));
    let bytes = bytesOf(parts, isOfOthers);
    for (const bundle of inOrder(ofRole.filter((one) => !isLoaded(one)))) {
      if (bundle.cancelled !== undefined || !context.isTrusted(bundle)) continue;
      const more = partsOf(bundle, context);
      const needed = bytesOf(more, (part) => isOfOthers(part) || parts.has(part));
      if (bytes + needed > max) {
        short.set(bundle.bundleId, { role: name, needed, used: bytes, max });
        continue;
      }
      bytes += needed;
      has.push(bundle);
      for (const [part, size] of more) parts.set(part, size);
    }
    if (bytes > max) over.add(name);
    counted.set(role, has);
  }
  return {
    owners,
    short,
    over,
    freed: (gone) =>
      [...counted.values()].reduce((sum, has) => sum + used(has) - used(has.filter((one) => !gone.includes(one))), 0),
  };
}

function ownersOf(kept: readonly StoredBundle[], { observed: { roles = [] }, policy }: ShareContext) {
  const byName = new Map(roles.map((role) => [role.name, role]));
  return new Map(
    kept.flatMap((bundle) => {
      const role = ownerRoles(bundle, policy.trust.threshold)
        .map((name) => byName.get(name))
        .find((one) => one !== undefined);
      return role === undefined ? [] : [[bundle.bundleId, role] as const];
    }),
  );
}

function isLoaded({ readyAt, claimedAt }: StoredBundle): boolean {
  return (readyAt ?? claimedAt) !== undefined;
}

/** Sorts by adoption, and within one stream by sequence: an older release may be a barrier. */
function inOrder(releases: readonly StoredBundle[]): readonly StoredBundle[] {
  const waiting = [...releases].sort((a, b) => a.payload.sequence - b.payload.sequence);
  return releases.flatMap(({ payload: { name } }) => {
    const at = waiting.findIndex(({ payload }) => payload.name === name);
    return waiting.splice(at, 1);
  });
}

function bytesOf(parts: Parts, isLeftOut: (part: string) => boolean): number {
  return [...parts].reduce((sum, [part, size]) => sum + (isLeftOut(part) ? 0 : size), 0);
}

/** Counts as docs/decisions/disk-space.md says, without staged blobs. */
function partsOf({ contents, payload }: StoredBundle, { observed: { runtime }, policy }: ShareContext): Parts {
  const storage = (runtime.kind === 'reachable' ? runtime.layerStorage : undefined) ?? 'unpacked';
  const image = diskUse([], 1, storage).bytes;
  const artifacts = artifactLayers(contents);
  const ofImages = new Set(contents.images.flatMap(({ layers }) => layers));
  const copies = takesArtifacts(runtime) ? 2 : 1;
  return new Map([
    ...allIn(contents).map(({ reference }) => [reference, image] as const),
    ...contents.layers
      .filter((_layer, index) => ofImages.has(index))
      .map((layer) => [layer.digest, diskUse([layer], 0, storage).bytes] as const),
    ...keptLayers({ contents }, policy.retention).map(
      ({ digest, sizeBytes }) => [`copy ${digest}`, sizeBytes] as const,
    ),
    ...artifacts.map(({ digest, sizeBytes }) => [`copy ${digest}`, copies * sizeBytes] as const),
    ...(payload.attachments ?? []).map(({ digest, size }) => [`file ${digest}`, size] as const),
  ]);
}
