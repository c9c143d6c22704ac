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
  /** Its place among equals. */
  readonly rank: string;
  /** How often it gave too little. Others with fewer come first, so each node has its turn. */
  readonly strikes: number;
  /** In its last term. */
  readonly hasGiven: boolean;
  /** It gave wrong bytes. */
  readonly isWrong: boolean;
}

/** Each node ranks givers in another way, and a new one changes no order (rendezvous hashing). */
export function newTrial(self: string, giver: string): Trial {
  return { rank: digestOf(`${self}\n${giver}`), strikes: 0, hasGiven: false, isWrong: false };
}

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
    if (holders.length > MOST_GIVERS) holders.sort((a, b) => order(a.giver.trial, b.giver.trial));
    const first = holders.filter(({ isWhole }) => isWhole).slice(0, WHOLE_GIVERS);
    for (const { giver } of [...new Set([...first, ...holders])].slice(0, MOST_GIVERS)) chosen.add(giver.name);
  }
  return chosen;
}

function order(a: Trial, b: Trial): number {
  const strikesOf = ({ hasGiven, strikes }: Trial) => (hasGiven ? -1 : strikes);
  return strikesOf(a) - strikesOf(b) || (a.rank < b.rank ? -1 : 1);
}
