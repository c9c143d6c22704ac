import type { Digest } from '../model/digest.ts';
import { isFaulty } from '../model/medium.ts';
import { type BadBlob, flawedAmong } from '../state/checks.ts';
import type { BundleFacts } from './hold.ts';

/** So many are remembered of a bundle; a message names one and counts the rest. */
const REMEMBERED = 20;

type Facts = Pick<BundleFacts, 'bundle' | 'absentImages' | 'presentLayers' | 'carriers' | 'failures'> & {
  readonly localBlobs: ReadonlySet<Digest>;
};

/**
 * What is known to be bad of a bundle after a round. What is stored holds while no medium with the
 * blob is plugged in: a copy that was just plugged in may be good until a pull has failed for it.
 */
export function badBlobsAfter(facts: Facts): readonly BadBlob[] {
  const { bundle, absentImages, carriers } = facts;
  if (absentImages.length === 0) return [];
  const isNeeded = neededIn(facts);
  const isMissingOnAll = (digest: Digest) =>
    carriers.every(({ found }) => found.missing.some((blob) => blob.digest === digest));
  const stored = (bundle.badBlobs ?? []).filter((bad) => isMissingOnAll(bad.digest));
  const unique = new Map<Digest, BadBlob>();
  for (const bad of [...failedIn(facts), ...stored, ...missingIn(facts, isMissingOnAll)]) {
    if (isNeeded(bad) && !unique.has(bad.digest)) unique.set(bad.digest, bad);
  }
  const all = [...unique.values()];
  // Of what may lie on another medium one is enough: a large bundle on several media would have
  // thousands.
  const absent = all.filter(({ why }) => why === 'absent').slice(0, 1);
  return [...flawedAmong(all).slice(0, REMEMBERED), ...absent];
}

/** Pulls that failed while nothing plugged in had a good copy. */
function failedIn({ failures }: Facts): readonly BadBlob[] {
  return failures.flatMap(({ task, blob }) =>
    blob === undefined || !blob.isLast || task.kind !== 'pull'
      ? []
      : [{ digest: blob.digest, why: blob.why, medium: blob.medium ?? 'the medium', reference: task.reference }],
  );
}

/** What no plugged medium with the bundle has as a whole. */
function missingIn({ carriers }: Facts, isMissingOnAll: (digest: Digest) => boolean): readonly BadBlob[] {
  return carriers.flatMap(({ medium, found }) =>
    found.isEnvelope === true
      ? []
      : found.missing
          .filter(isFaulty)
          .filter(({ digest }) => isMissingOnAll(digest))
          .map(({ digest, why }) => ({ digest, why, medium: medium.label })),
  );
}

function neededIn({ bundle, absentImages, presentLayers, localBlobs }: Facts): (bad: BadBlob) => boolean {
  const { layers } = bundle.contents;
  const all = new Set(layers.map(({ digest }) => digest));
  const wanted = new Set(absentImages.flatMap((image) => image.layers.map((index) => layers[index]?.digest)));
  const references = new Set(absentImages.map(({ reference }) => reference));
  return ({ digest, reference }) => {
    if (localBlobs.has(digest) || presentLayers.has(digest)) return false;
    if (all.has(digest)) return wanted.has(digest);
    return reference === undefined || references.has(reference);
  };
}
