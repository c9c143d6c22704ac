import { defined } from '../../platform/defined.ts';
import type { Image } from '../model/bundle.ts';
import { type ImageUse, type RuntimeObservation, usableImages } from '../model/image.ts';
import { formatReference, mirrorPathOf, parseReference, type Reference, repositoryOf } from '../model/reference.ts';
import type { Policy } from '../settings/settings.ts';
import type { PullCheck, PullChecks } from '../state/checks.ts';
import type { StoredBundle } from '../state/state.ts';
import { commandName, isRetired, isRolledBack, keptBundles } from './recorded-phase.ts';
import { goalsAfterProof, type TagGoal, tagGoalsOf } from './tag-goals.ts';
import { tagOwners } from './tags.ts';

export function answeredNames({ serve }: Pick<Policy, 'serve'>): AnsweredNames {
  const { activated, except } = serve;
  return { tags: activated === 'digests-and-tags', digests: activated !== 'off', except };
}

/** Returns names whose pull would remove a pin: mirror path `@sha256:…` or `:TAG`. */
export function pinnedNames(
  runtime: RuntimeObservation,
  bundles: readonly StoredBundle[],
  afterProof: readonly TagGoal[] = [],
): ReadonlySet<string> {
  if (runtime.kind !== 'reachable' || runtime.arePinsLostByPulls !== true) return new Set();
  const pinned = keptBundles(bundles).flatMap(({ contents }) => contents.images.filter((image) => image.pin));
  const references = new Set(pinned.map(({ reference }) => reference));
  const given = afterProof.filter(({ reference }) => references.has(reference)).map(({ tag }) => tag);
  const tags = [...pinned.flatMap((image) => image.tags), ...given];
  return new Set([
    ...pinned.map(({ reference, digest }) => `${mirrorPathOf(repositoryOf(reference))}@${digest}`),
    ...tags.map((tag) => `${mirrorPathOf(repositoryOf(tag))}${tag.slice(repositoryOf(tag).length)}`),
  ]);
}

export interface ProvidedNames {
  /** The registry answers these tags by the image of a release: `quay.io/coreos/etcd:v3.5`. */
  readonly tags: ReadonlySet<string>;
  /** Digests of activated and fallback releases: `quay.io/coreos/etcd@sha256:…`. */
  readonly digests: ReadonlySet<string>;
  /** Tags of kept releases that are not activated. Values are releases, such as `ocp@4.13.7`. */
  readonly later: ReadonlyMap<string, string>;
}

interface NameConditions {
  readonly afterProof?: readonly string[];
  readonly skipped?: ReadonlySet<string>;
  readonly inWork?: readonly string[];
  readonly withdrawn?: ReadonlySet<StoredBundle>;
}

export function providedNames(
  bundles: readonly StoredBundle[],
  { afterProof = [], skipped = new Set(), inWork = [], withdrawn = new Set() }: NameConditions = {},
): ProvidedNames {
  const tags = new Set([...tagOwners(bundles, withdrawn).keys(), ...afterProof]);
  for (const tag of skipped) tags.delete(tag);
  for (const tag of inWork) tags.add(tag);
  const kept = keptBundles(bundles).filter((bundle) => !withdrawn.has(bundle));
  const images = kept.filter(({ activatedAt }) => activatedAt !== undefined).flatMap(({ contents }) => contents.images);
  const further = kept.flatMap((bundle) =>
    tagGoalsOf(bundle).flatMap(({ tag }) => (tags.has(tag) ? [] : [[tag, commandName(bundle, bundles)] as const])),
  );
  return {
    tags,
    digests: new Set(images.map(({ reference, digest }) => `${repositoryOf(reference)}@${digest}`)),
    later: new Map(further),
  };
}

/** Includes the names that follow its proof. */
export function namesOnceActivated(
  bundle: StoredBundle,
  bundles: readonly StoredBundle[],
  { streams }: Policy,
): ProvidedNames {
  const { retiredAt, rolledBackAt, ...inForce } = bundle;
  const latest = Math.max(retiredAt ?? 0, rolledBackAt ?? 0, ...bundles.map((other) => other.activatedAt ?? 0));
  const activated: StoredBundle = { ...inForce, activatedAt: latest + 1 };
  const afterProof = goalsAfterProof(bundle, streams).map(({ tag }) => tag);
  return providedNames(
    bundles.map((other) => (other.bundleId === bundle.bundleId ? activated : other)),
    { afterProof },
  );
}

/** Pauses after the first and the second failed test pull. There is no fourth. */
const PAUSES_MS = [5_000, 30_000] as const;

type PullToCheck =
  | { readonly kind: 'image'; readonly reference: string }
  | { readonly kind: 'nothing-activated' }
  | { readonly kind: 'nothing-present' }
  /** Pulls by others do not reach stickpin's registry. */
  | { readonly kind: 'no-mirrors' }
  | { readonly kind: 'no-mirror'; readonly reference: string };

export type PullTest = Pick<PullCheck, 'activation' | 'reference' | 'attempts'>;

export type PullCheckDue =
  | { readonly kind: 'now'; readonly test: PullTest }
  /** Milliseconds since the epoch. Undefined when no test follows. */
  | { readonly kind: 'later'; readonly at: number | undefined };

/** Returns releases whose images must be pullable without a medium, in the order of adoption. */
export function releasesInForce(bundles: readonly StoredBundle[]): readonly StoredBundle[] {
  return bundles.filter((bundle) => bundle.activatedAt !== undefined && !isRetired(bundle) && !isRolledBack(bundle));
}

/** Changes with each activation and retirement. */
export function activationKey(bundles: readonly StoredBundle[]): string {
  return releasesInForce(bundles)
    .map(({ bundleId, activatedAt }) => `${bundleId} ${activatedAt}`)
    .join('\n');
}

/** Returns the first image, present and with a mirror, of the release activated last. */
export function pullToCheck(
  bundles: readonly StoredBundle[],
  { images, renderedMirrors, mirrorsTakeEffect }: Extract<RuntimeObservation, { kind: 'reachable' }>,
): PullToCheck {
  const activated = [...releasesInForce(bundles)].sort((a, b) => (b.activatedAt ?? 0) - (a.activatedAt ?? 0));
  if (activated.length === 0) return { kind: 'nothing-activated' };
  if (mirrorsTakeEffect === 'own-pulls') return { kind: 'no-mirrors' };
  const present = new Set(usableImages(images).flatMap(({ repoDigests }) => repoDigests));
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

/** A failed test pull is retried twice, since a runtime may read its mirrors late. */
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
  // The time is in the future when the wall clock was set back.
  return at <= now || last.at > now
    ? { kind: 'now', test: { reference, activation, attempts: last.attempts + 1 } }
    : { kind: 'later', at };
}

function againAt({ end, attempts, at }: PullCheck): number | undefined {
  const pauseMs = end.kind === 'answered' ? undefined : PAUSES_MS[attempts - 1];
  return pauseMs === undefined ? undefined : at + pauseMs;
}

export interface ElsewhereUse {
  /** The name as written: `quay.io/coreos/etcd:v3.5`. */
  readonly image: string;
  readonly usedBy: string;
  readonly more: number;
  /** The release that provides it once activated, such as `ocp@4.13.7`. */
  readonly release?: string;
}

/** The provided names that the registry answers, so that a forced pull of them succeeds. */
export interface AnsweredNames {
  readonly tags: boolean;
  readonly digests: boolean;
  /** Repositories for which the registry answers neither. */
  readonly except: readonly string[];
}

/**
 * Returns images whose pull another registry, or none, would answer: by a tag that no activated
 * release holds, or forced (`imagePullPolicy: Always`) while stickpin's registry does not answer.
 * Each image has one entry, in the given order.
 */
export function pullsFromElsewhere(
  uses: readonly ImageUse[],
  names: ProvidedNames,
  answered: AnsweredNames,
): readonly ElsewhereUse[] {
  const found = new Map<string, ElsewhereUse>();
  for (const use of uses) {
    if (!isFromElsewhere(use, names, answered)) continue;
    const { usedBy, more } = found.get(use.image) ?? { usedBy: use.usedBy, more: -1 };
    found.set(use.image, defined({ image: use.image, usedBy, more: more + 1, release: releaseOf(use.image, names) }));
  }
  return [...found.values()];
}

function releaseOf(image: string, { later }: ProvidedNames): string | undefined {
  const reference = parsed(image);
  if (reference === undefined || reference.digest !== undefined) return undefined;
  return later.get(formatReference({ repository: reference.repository, tag: reference.tag ?? 'latest' }));
}

function isFromElsewhere({ image, pullPolicy }: ImageUse, names: ProvidedNames, answered: AnsweredNames): boolean {
  if (pullPolicy === 'Never' || isImageId(image)) return false;
  const reference = parsed(image);
  if (reference === undefined) return true;
  const { repository, tag = 'latest', digest } = reference;
  const isForced = isAlways(reference, pullPolicy);
  if (digest !== undefined) {
    if (!isForced) return false;
    return !names.digests.has(`${repository}@${digest}`) || !isAnswered(repository, answered.digests, answered);
  }
  if (!names.tags.has(formatReference({ repository, tag }))) return true;
  return isForced && !isAnswered(repository, answered.tags, answered);
}

/** Kubernetes: without a policy it is `Always` for the tag `latest`, and without tag and digest. */
function isAlways({ tag, digest }: Reference, pullPolicy: string | undefined): boolean {
  if (pullPolicy !== undefined) return pullPolicy === 'Always';
  return digest === undefined && (tag === undefined || tag === 'latest');
}

function isAnswered(repository: string, kind: boolean, { except }: AnsweredNames): boolean {
  return kind && !except.includes(repository);
}

/** A container that was created from the id of its image gives no name. */
function isImageId(image: string): boolean {
  return /^(sha256:)?[0-9a-f]{64}$/.test(image);
}

/** A short name (`nginx:1`) belongs to `docker.io`, as in containerd. */
function parsed(image: string): Reference | undefined {
  for (const text of [image, `docker.io/${image}`]) {
    try {
      return parseReference(text);
    } catch {
      // Tries the next form, or returns undefined.
    }
  }
  return undefined;
}
