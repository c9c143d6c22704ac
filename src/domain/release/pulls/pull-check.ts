import type { Image } from '../../model/bundle.ts';
import type { RuntimeObservation } from '../../model/image.ts';
import { repositoryOf } from '../../model/reference.ts';
import type { PullCheck, PullChecks } from '../../state/checks.ts';
import type { StoredBundle } from '../../state/state.ts';
import { isRetired, isRolledBack } from '../recorded-phase.ts';

/** Pauses after the first and the second pull that was not answered. There is no fourth one. */
const PAUSES_MS = [5_000, 30_000] as const;

/** What a test pull is about, or why there is none. */
export type PullToCheck =
  | { readonly kind: 'image'; readonly reference: string }
  | { readonly kind: 'nothing-activated' }
  /** No image of an activated release is present. */
  | { readonly kind: 'nothing-present' }
  /** The runtime has no mirror of ours for any image. `reference`: the first one. */
  | { readonly kind: 'no-mirror'; readonly reference: string };

/** A test pull that is to be made. */
export type PullTest = Pick<PullCheck, 'activation' | 'reference' | 'attempts'>;

/** A test pull that is to be made now, or the time of the next one. */
export type PullCheckDue =
  | { readonly kind: 'now'; readonly test: PullTest }
  /** Milliseconds since the epoch; undefined when none is to be made. */
  | { readonly kind: 'later'; readonly at: number | undefined };

/** Releases whose images are to be pulled with no medium, in the order of adoption. */
export function releasesInForce(bundles: readonly StoredBundle[]): readonly StoredBundle[] {
  return bundles.filter((bundle) => bundle.activatedAt !== undefined && !isRetired(bundle) && !isRolledBack(bundle));
}

/** What is activated, as a text that changes with each activation and retirement. */
export function activationKey(bundles: readonly StoredBundle[]): string {
  return releasesInForce(bundles)
    .map(({ bundleId, activatedAt }) => `${bundleId} ${activatedAt}`)
    .join('\n');
}

/**
 * The image by which pulls are tested: the first one of the release that was activated last, that
 * is present by its digest and whose repository has a mirror of ours.
 */
export function pullToCheck(
  bundles: readonly StoredBundle[],
  { images, renderedMirrors }: Extract<RuntimeObservation, { kind: 'reachable' }>,
): PullToCheck {
  const activated = [...releasesInForce(bundles)].sort((a, b) => (b.activatedAt ?? 0) - (a.activatedAt ?? 0));
  if (activated.length === 0) return { kind: 'nothing-activated' };
  const present = new Set(images.flatMap(({ repoDigests }) => repoDigests));
  const candidates = activated.flatMap(({ contents }) => contents.images).filter((image) => isPresent(image, present));
  const mirrors = new Set(renderedMirrors);
  const found = candidates.find(({ reference }) => mirrors.has(repositoryOf(reference)));
  if (found !== undefined) return { kind: 'image', reference: found.reference };
  const [first] = candidates;
  return first === undefined ? { kind: 'nothing-present' } : { kind: 'no-mirror', reference: first.reference };
}

function isPresent({ reference }: Image, present: ReadonlySet<string>): boolean {
  return present.has(reference);
}

/**
 * Whether a test pull is due: once after the start of the daemon and after each activation. One
 * that was not answered is made again twice, since a runtime may take up its mirrors late.
 */
export function pullCheckDue(
  bundles: readonly StoredBundle[],
  runtime: Extract<RuntimeObservation, { kind: 'reachable' }>,
  { isRunning, last }: PullChecks,
  now: number,
): PullCheckDue {
  const none = { kind: 'later', at: undefined } as const;
  const subject = pullToCheck(bundles, runtime);
  if (isRunning || subject.kind !== 'image') return none;
  const activation = activationKey(bundles);
  const { reference } = subject;
  if (last === undefined || last.activation !== activation) {
    return { kind: 'now', test: { reference, activation, attempts: 1 } };
  }
  const at = againAt(last);
  if (at === undefined) return none;
  // A time in the future means that the wall clock was set back.
  return at <= now || last.at > now
    ? { kind: 'now', test: { reference, activation, attempts: last.attempts + 1 } }
    : { kind: 'later', at };
}

function againAt({ end, attempts, at }: PullCheck): number | undefined {
  const pauseMs = end.kind === 'answered' ? undefined : PAUSES_MS[attempts - 1];
  return pauseMs === undefined ? undefined : at + pauseMs;
}
