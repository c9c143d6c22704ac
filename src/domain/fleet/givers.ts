import { digestOf } from '../../platform/digest.ts';

/** Nodes from which this one takes the same bundle at the same time. */
export const MOST_GIVERS = 8;

/** Those of them with the whole bundle, if there are so many: all others may lack the same blob. */
const WHOLE_GIVERS = MOST_GIVERS / 2;

/** A node that gives less in this time is replaced. */
export const TERM_MS = 30_000;
const LEAST_BYTES = 256 * 1024;

/** How a node did so far. */
export interface Trial {
  /** How often it gave too little. Others with fewer come first, so each node has its turn. */
  readonly strikes: number;
  /** In its last term. */
  readonly hasGiven: boolean;
  /** It gave wrong bytes. */
  readonly isWrong: boolean;
}

export const NEW_TRIAL: Trial = { strikes: 0, hasGiven: false, isWrong: false };

/** @param bytes in the term that ends now */
export function trialAfter(trial: Trial, bytes: number): Trial {
  const hasGiven = bytes >= LEAST_BYTES && !trial.isWrong;
  return { ...trial, hasGiven, strikes: trial.strikes + (hasGiven ? 0 : 1) };
}

export interface Giver {
  readonly name: string;
  /** Needed ones. */
  readonly bundles: readonly { readonly bundleId: string; readonly isWhole: boolean }[];
  readonly trial: Trial;
}

/**
 * The names of the nodes that are used: {@link MOST_GIVERS} for each bundle. Nodes choose different
 * ones: the order among equals follows from the names of both (rendezvous hashing), so that a new
 * giver replaces one at most.
 */
export function chosenGivers(self: string, givers: readonly Giver[]): ReadonlySet<string> {
  const byBundle = new Map<string, { readonly giver: Giver; readonly isWhole: boolean }[]>();
  for (const giver of givers) {
    for (const { bundleId, isWhole } of giver.bundles) {
      const holders = byBundle.get(bundleId);
      if (holders === undefined) byBundle.set(bundleId, [{ giver, isWhole }]);
      else holders.push({ giver, isWhole });
    }
  }
  const hashes = new Map<string, string>();
  const hashOf = (name: string) => {
    const hash = hashes.get(name) ?? digestOf(`${self}\n${name}`);
    hashes.set(name, hash);
    return hash;
  };
  const chosen = new Set<string>();
  for (const holders of byBundle.values()) {
    if (holders.length > MOST_GIVERS) holders.sort((a, b) => order(a.giver, b.giver, hashOf));
    const first = holders.filter(({ isWhole }) => isWhole).slice(0, WHOLE_GIVERS);
    for (const { giver } of [...new Set([...first, ...holders])].slice(0, MOST_GIVERS)) chosen.add(giver.name);
  }
  return chosen;
}

function order(a: Giver, b: Giver, hashOf: (name: string) => string): number {
  const rank = ({ trial: { hasGiven, strikes } }: Giver) => (hasGiven ? -1 : strikes);
  return rank(a) - rank(b) || (hashOf(a.name) < hashOf(b.name) ? -1 : 1);
}
