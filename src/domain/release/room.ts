import { artifactLayers, type Layer } from '../model/bundle.ts';
import type { Digest } from '../model/digest.ts';
import type { DiskUse } from '../preload/space.ts';
import type { Policy } from '../settings/settings.ts';
import type { Stored, StoredBundle } from '../state/state.ts';
import type { ContainerView } from './evidence.ts';
import { currentRelease, hasOpenRequest, isProven, isRolledBack, keptBundles, lastProven } from './recorded-phase.ts';
import { isBaseInNeed, isBaseOf, isProtected } from './retention.ts';
import type { Shares } from './shares.ts';
import type { Whole } from './whole.ts';

export interface ShortOfSpace {
  readonly bundle: StoredBundle;
  readonly lacking: DiskUse;
  /** The bundle lacks room in the share of its role, not on the disk. */
  readonly isOverShare?: true;
}

/**
 * Returns the bundle to retire so that `short` gets the space it lacks: a spare release of a role
 * ({@link spareReleases}), else one of its own stream that was rolled back, else the fallback.
 * Undefined when the freed space would not help.
 */
export function roomFor(
  { bundle: next, lacking, isOverShare }: ShortOfSpace,
  { bundles, pulledByUs = new Set() }: Stored,
  policy: Policy['lifecycle'],
  /** `withArtifacts` means that artifacts are on the filesystem of the images. */
  { spares = [], shares, withArtifacts = false }: Room = {},
): StoredBundle | undefined {
  if (!policy.remove_images) return undefined;
  const candidates = [...new Set([...spares, ...ownRoom(next, bundles, policy)])];
  const freed = (gone: readonly StoredBundle[]) => {
    if (isOverShare === true) return { bytes: shares?.freed(gone) ?? 0, inodes: 0 };
    const others = keptBundles(bundles).filter((bundle) => !gone.includes(bundle));
    return roomOf(gone, others, pulledByUs, withArtifacts);
  };
  const all = freed(candidates);
  if (all.bytes < lacking.bytes || all.inodes < lacking.inodes) return undefined;
  const given = candidates.find((bundle) => {
    const { bytes, inodes } = freed([bundle]);
    return (lacking.bytes > 0 && bytes > 0) || (lacking.inodes > 0 && inodes > 0);
  });
  return given && (spares.find((delta) => delta.readyAt === undefined && isBaseOf(given, delta)) ?? given);
}

interface Room {
  readonly spares?: readonly StoredBundle[];
  readonly shares?: Shares;
  readonly withArtifacts?: boolean | undefined;
}

/** Returns none while the present release of the stream is neither proven nor rolled back. */
function ownRoom(
  next: StoredBundle,
  bundles: readonly StoredBundle[],
  policy: Policy['lifecycle'],
): readonly StoredBundle[] {
  const { name } = next.payload;
  const current = currentRelease(bundles, name);
  const good = lastProven(bundles, name);
  if (!policy.make_room || good === undefined || current === undefined) return [];
  if (!isProven(current) && !isRolledBack(current)) return [];
  return keptBundles(bundles)
    .filter((bundle) => bundle.payload.name === name && ![next, good, current].includes(bundle))
    .filter((bundle) => !hasOpenRequest(bundle))
    .filter((bundle) => !isBaseInNeed(bundle, bundles))
    .filter((bundle) => !isProtected(bundle, policy) && (bundle.provenAt !== undefined || isRolledBack(bundle)))
    .sort((a, b) => Number(isRolledBack(b)) - Number(isRolledBack(a)) || (a.provenAt ?? 0) - (b.provenAt ?? 0));
}

/**
 * Returns releases of roles that give way to `next`, in order: all to a release of plain keys, else
 * surplus ones of its role and of roles over their share.
 * INVARIANT: the current release of a stream, its fallback, running releases, requested ones and
 * protected ones never give way.
 */
export function spareReleases(
  { bundle: next, isOverShare }: ShortOfSpace,
  { stored: { bundles }, memory, policy, whole }: ContainerView,
  { owners, over }: Shares,
  isFree: (bundle: StoredBundle) => boolean,
): readonly StoredBundle[] {
  const nextRole = owners.get(next.bundleId);
  const busy = new Set(memory.running.map(({ bundleId }) => bundleId));
  const kept = keptBundles(bundles);
  const staying = new Set([...new Set(kept.map(({ payload }) => payload.name))].flatMap(stayingOf));
  const spares = kept
    .filter((bundle) => bundle !== next && !staying.has(bundle) && gives(bundle))
    .filter((bundle) => !isProtected(bundle, policy.lifecycle) && !hasOpenRequest(bundle))
    .filter((bundle) => !busy.has(bundle.bundleId) && isFree(bundle));
  const isNeeded = (base: StoredBundle) =>
    kept.some((delta) => delta.readyAt === undefined && isBaseOf(base, delta) && !spares.includes(delta));
  const rank = (bundle: StoredBundle) => [
    Number(!isOfOver(bundle)),
    Number(!isPast(bundle)),
    Number(!isRolledBack(bundle)),
    bundle.activatedAt ?? bundle.readyAt ?? bundle.adoptedAt,
  ];
  return spares.filter((bundle) => !isNeeded(bundle)).sort((a, b) => compare(rank(a), rank(b)));

  function stayingOf(stream: string): readonly StoredBundle[] {
    const current = currentRelease(bundles, stream);
    const good = lastProven(bundles, stream);
    const others = kept.filter((bundle) => bundle.payload.name === stream && bundle !== current && bundle !== good);
    const isKept = good !== undefined && good !== current;
    const fallback = isKept ? undefined : fallbackAmong(others, current, whole);
    return [current, good, fallback].filter((one) => one !== undefined);
  }

  function gives(bundle: StoredBundle): boolean {
    const role = owners.get(bundle.bundleId);
    if (role === undefined || nextRole === undefined) return role !== undefined;
    return role.name === nextRole.name ? isPast(bundle) : isOverShare !== true && isOfOver(bundle);
  }

  function isOfOver({ bundleId }: StoredBundle): boolean {
    return over.has(owners.get(bundleId)?.name ?? '');
  }

  /** The stream has activated a later release. */
  function isPast({ payload, activatedAt }: StoredBundle): boolean {
    const { sequence = 0 } = currentRelease(bundles, payload.name)?.payload ?? {};
    return activatedAt !== undefined || payload.sequence < sequence;
  }
}

/** Before any activation the fallback is the release that was loaded last. */
function fallbackAmong(
  others: readonly StoredBundle[],
  current: StoredBundle | undefined,
  whole: Whole,
): StoredBundle | undefined {
  const rank = (bundle: StoredBundle) => [
    Number(whole.has(bundle.bundleId)),
    Number(!isRolledBack(bundle)),
    bundle.provenAt ?? 0,
    bundle.activatedAt ?? bundle.readyAt ?? 0,
  ];
  return others
    .filter(({ activatedAt }) => current === undefined || activatedAt !== undefined)
    .sort((a, b) => compare(rank(b), rank(a)))[0];
}

function compare(one: readonly number[], other: readonly number[]): number {
  return one.map((value, at) => value - (other[at] ?? 0)).find((difference) => difference !== 0) ?? 0;
}

/** `ownBytes` counts layers on disk that no other kept release has. */
export interface ProtectedRelease {
  readonly bundle: StoredBundle;
  readonly ownBytes: number;
}

export function protectedReleases(
  { bundles, pulledByUs = new Set() }: Stored,
  policy: Policy['lifecycle'],
): readonly ProtectedRelease[] {
  const kept = keptBundles(bundles);
  return kept
    .filter((bundle) => isProtected(bundle, policy))
    .map((bundle) => {
      const others = kept.filter((other) => other !== bundle);
      return { bundle, ownBytes: roomOf([bundle], others, pulledByUs, true).bytes };
    });
}

function roomOf(
  gone: readonly StoredBundle[],
  others: readonly StoredBundle[],
  pulledByUs: ReadonlySet<string>,
  withArtifacts: boolean,
): DiskUse {
  const staying = new Set<Digest>(
    [
      ...others.map((bundle) => layersOf(bundle, () => true)),
      ...gone.map((bundle) => layersOf(bundle, (reference) => !pulledByUs.has(reference))),
    ].flatMap((layers) => layers.map((layer) => layer.digest)),
  );
  const layers = gone.flatMap((bundle) => layersOf(bundle, () => true)).filter(({ digest }) => !staying.has(digest));
  const freed = [...new Map(layers.map((layer) => [layer.digest, layer])).values()];
  const copies = withArtifacts ? ownArtifactLayers(gone, others) : [];
  return {
    bytes:
      freed.reduce((sum, { diskBytes }) => sum + diskBytes, 0) +
      copies.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
    inodes: freed.reduce((sum, { inodes }) => sum + inodes, copies.length),
  };
}

/** Returns each layer once, without those that others have. */
export function ownArtifactLayers(gone: readonly StoredBundle[], others: readonly StoredBundle[]): readonly Layer[] {
  const staying = new Set(others.flatMap(({ contents }) => contents.layers.map(({ digest }) => digest)));
  const layers = gone.flatMap(({ contents }) => artifactLayers(contents)).filter(({ digest }) => !staying.has(digest));
  return [...new Map(layers.map((layer) => [layer.digest, layer])).values()];
}

function layersOf({ contents }: StoredBundle, isMeant: (reference: string) => boolean) {
  const indexes = new Set(contents.images.filter((image) => isMeant(image.reference)).flatMap((image) => image.layers));
  return contents.layers.filter((_layer, index) => indexes.has(index));
}
