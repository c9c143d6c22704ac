import { digestOf } from '../../platform/digest.ts';
import { type Digest, hexOf } from '../model/digest.ts';
import type { LayerStorage } from '../model/image.ts';
import type { Policy } from '../settings/settings.ts';
import type { Observed } from '../state/state.ts';

/** How nodes that take the same bundle share the work: each begins with what few others have. */
export interface Spread {
  /** The name of the own Node. */
  readonly self: string;
  /** How many other nodes give a layer, as far as it is known; absent: none. */
  readonly holders: ReadonlyMap<Digest, number>;
}

/**
 * Undefined when this node does not give on what it takes: then all nodes keep the same order, so
 * that one pass over a stick serves a wave of them from the page cache. Undefined also when a stick
 * is plugged in here, and when no other node gives anything.
 */
export function spreadOf(
  { media, fleet }: Pick<Observed, 'media' | 'fleet'>,
  policy: Pick<Policy, 'fleet' | 'retention'>,
  layerStorage: LayerStorage | undefined,
): Spread | undefined {
  if (fleet === undefined || !policy.fleet.serve || !keepsBlobs(policy, layerStorage)) return undefined;
  const givers = media.filter(({ state }) => state.kind === 'read' && givenBy(state.bundles).size > 0);
  if (givers.length === 0 || givers.some(({ peer }) => peer === undefined)) return undefined;
  const holders = new Map<Digest, number>();
  for (const { state } of givers) {
    for (const digest of state.kind === 'read' ? givenBy(state.bundles) : [])
      holders.set(digest, (holders.get(digest) ?? 0) + 1);
  }
  return { self: fleet.self, holders };
}

/** Whether this node has the layers of an image once more, to give them to others. */
export function keepsBlobs({ retention }: Pick<Policy, 'retention'>, layerStorage: LayerStorage | undefined): boolean {
  return retention.blobs === 'kept' || layerStorage === 'both';
}

/** How many other nodes give the rarest of these layers. */
export function holdersOfRarest(layers: readonly { readonly digest: Digest }[], { holders }: Spread): number {
  return layers.reduce((least, { digest }) => Math.min(least, holders.get(digest) ?? 0), Number.MAX_SAFE_INTEGER);
}

/** A number below 2^32 by which each node puts equal pulls into an order of its own. */
export function ownRank(reference: string, { self }: Spread): number {
  return Number.parseInt(hexOf(digestOf(`${self}\n${reference}`)).slice(0, 8), 16);
}

function givenBy(bundles: Extract<Observed['media'][number]['state'], { kind: 'read' }>['bundles']): Set<Digest> {
  const given = bundles.flatMap((found) => {
    if (found.kind !== 'verified') return [];
    const missing = new Set(found.missing.map(({ digest }) => digest));
    return found.bundle.contents.layers.flatMap(({ digest }) => (missing.has(digest) ? [] : [digest]));
  });
  return new Set(given);
}
