import { digestOf } from '../../platform/digest.ts';

/** Nodes from which this one takes the same bundle at the same time. */
export const MOST_GIVERS = 8;

/** Those of them with the whole bundle, if there are so many: all others may lack the same blob. */
const WHOLE_GIVERS = MOST_GIVERS / 2;

/** A node that gives less of what is sought in {@link JUDGED_MS} makes room for another one. */
export const LEAST_BYTES = 1024 * 1024;
export const JUDGED_MS = 60_000;
/** The time for a node with a queue: as long as the turn of another node there. */
const QUEUED_MS = 10 * 60_000;

/** @param ms since it began, or gave {@link LEAST_BYTES} */
export function givesTooLittle({ ms, bytes, isQueued }: { ms: number; bytes: number; isQueued: boolean }): boolean {
  return bytes < LEAST_BYTES && ms >= (isQueued ? QUEUED_MS : JUDGED_MS);
}

/** The place of a node among equals. */
export interface GiverRank {
  readonly lot: string;
  /** How often it failed, gave too little or wrong bytes. Fewer come first: each one is tried. */
  readonly strikes: number;
}

/** Each node ranks givers in another way, and a new one changes no order (rendezvous hashing). */
export function newRank(self: string, giver: string): GiverRank {
  return { lot: digestOf(`${self}\n${giver}`), strikes: 0 };
}

export interface Giver {
  readonly name: string;
  /** Needed ones. */
  readonly bundles: readonly { readonly bundleId: string; readonly isWhole: boolean }[];
  readonly rank: GiverRank;
}

/** The names of the nodes that are used: {@link MOST_GIVERS} for each bundle. */
export function chosenGivers(givers: readonly Giver[]): ReadonlySet<string> {
  const byBundle = new Map<string, { readonly giver: Giver; readonly isWhole: boolean }[]>();
  for (const giver of givers) {
    for (const { bundleId, isWhole } of giver.bundles) {
      const holders = byBundle.get(bundleId);
      if (holders === undefined) byBundle.set(bundleId, [{ giver, isWhole }]);
      else holders.push({ giver, isWhole });
    }
  }
  const chosen = new Set<string>();
  for (const holders of byBundle.values()) {
    if (holders.length > MOST_GIVERS) holders.sort((a, b) => order(a.giver.rank, b.giver.rank));
    const first = holders.filter(({ isWhole }) => isWhole).slice(0, WHOLE_GIVERS);
    for (const { giver } of [...new Set([...first, ...holders])].slice(0, MOST_GIVERS)) chosen.add(giver.name);
  }
  return chosen;
}

function order(a: GiverRank, b: GiverRank): number {
  return a.strikes - b.strikes || (a.lot < b.lot ? -1 : 1);
}
