import { sequenceOf } from '../adoption/floors.ts';
import type { BundleId } from '../model/digest.ts';
import type { RuntimeContainer, RuntimeImage, RuntimeObservation } from '../model/image.ts';
import { RULE_CODES } from '../model/reason.ts';
import type { Policy } from '../settings/settings.ts';
import type { LifecycleFinding } from '../state/effect.ts';
import type { TagGiven } from '../state/memory.ts';
import type { Soak } from '../state/release-record.ts';
import { type Observed, ofStream, type Stored, type StoredBundle } from '../state/state.ts';
import {
  type ContainerView,
  componentsById,
  distinguishingIds,
  imageIdOf,
  imageIds,
  soakAfter,
  type Witness,
} from './evidence.ts';
import { currentRelease, hasOpenRequest, keptBundles, unprovenReleases } from './recorded-phase.ts';
import { removableIds, spareTagsIn, surplusBundles, withoutUses } from './retention.ts';
import { isContainerCheckDue, isListTime } from './rollback.ts';
import { proofGoals } from './tag-goals.ts';

export interface ContainersSeen {
  readonly images: readonly RuntimeImage[];
  readonly containers: readonly RuntimeContainer[];
}

/** Returns kept releases whose distinguishing images have containers that have not ended. */
export function runningReleases(
  bundles: readonly StoredBundle[],
  { images, containers }: ContainersSeen,
): ReadonlySet<BundleId> {
  const seen = { bundles, containers, ids: imageIds(images) };
  return new Set(keptBundles(bundles).flatMap((bundle) => (isAnyRunning(bundle, seen) ? [bundle.bundleId] : [])));
}

export function isRunning(bundle: StoredBundle, { stored: { bundles }, containers, ids }: ContainerView): boolean {
  return isAnyRunning(bundle, { bundles, containers, ids });
}

/** While an older release runs, this one does not count as running. */
export function isOtherOfStreamRunning({ bundleId, payload }: StoredBundle, view: ContainerView): boolean {
  return keptBundles(ofStream(view.stored.bundles, payload.name)).some(
    (other) => other.bundleId !== bundleId && other.activatedAt !== undefined && isRunning(other, view),
  );
}

function isAnyRunning(
  bundle: StoredBundle,
  { bundles, containers, ids }: Pick<ContainerView, 'containers' | 'ids'> & Pick<Stored, 'bundles'>,
): boolean {
  const distinguishing = distinguishingIds(bundle, bundles, ids);
  return containers.some(
    (container) => container.state !== 'exited' && distinguishing.has(imageIdOf(container, ids) ?? ''),
  );
}

interface BeforeList {
  readonly isShort: boolean;
  readonly sinceListMs: number;
  readonly tagsGiven: readonly TagGiven[];
  readonly observed: Pick<Observed, 'now' | 'boot' | 'imageUses'>;
}

/** While all is proven containers are listed rarely, since an older release may run again. */
export function needsContainers(
  stored: Stored,
  runtime: RuntimeObservation,
  policy: Policy,
  { isShort, sinceListMs, tagsGiven, observed }: BeforeList,
): boolean {
  if (runtime.kind !== 'reachable') return false;
  if (isContainerCheckDue(stored.bundles, sinceListMs, policy.lifecycle)) return true;
  if (isShort || unprovenReleases(stored).length + neverActivated(stored.bundles).length > 0) return true;
  if (surplusBundles(stored.bundles, policy.lifecycle).length > 0) return true;
  const isGivenSince = tagsGiven.some(({ at }) => Math.abs(observed.now - at) <= sinceListMs);
  if (isGivenSince || isListTime(sinceListMs, policy.lifecycle.soak)) {
    if (mayReplace(stored.bundles, policy.streams)) return true;
  }
  const context = { images: runtime.images, ids: imageIds(runtime.images), stored, policy };
  if ([...removableIds(context).values()].some((imageIds) => imageIds.length > 0)) return true;
  const spareOf = spareTagsIn(observed.now, context);
  return stored.bundles.some((bundle) => withoutUses(spareOf(bundle), observed).length > 0);
}

function mayReplace(bundles: readonly StoredBundle[], streams: Policy['streams']): boolean {
  const isNamed = (stream: string) => {
    const { replace_stopped = [], local_images } = streams[stream] ?? {};
    return replace_stopped.length > 0 || local_images === 'retire';
  };
  const given = new Set(proofGoals(bundles, streams).map(({ bundleId }) => bundleId));
  return bundles.some(({ bundleId, payload }) => isNamed(payload.name) && given.has(bundleId));
}

/** How long a release must run before it counts as activated. A shorter soak time wins. */
const SEEN_MS = 60_000;

/** Returns releases that were ready once: another program may start them. */
export function neverActivated(bundles: readonly StoredBundle[]): readonly StoredBundle[] {
  return keptBundles(bundles).filter(({ readyAt, activatedAt }) => readyAt !== undefined && activatedAt === undefined);
}

interface SeenRunning {
  readonly findings: readonly LifecycleFinding[];
  /** Milliseconds from now. */
  readonly dueInMs: readonly number[];
}

/**
 * Finds never activated releases that run: the cluster may have been upgraded by other means. Then
 * the release is activated, so that its tags are set and it can prove itself. Only the newest one
 * of each stream counts.
 */
export function seenRunning(waiting: readonly StoredBundle[], view: ContainerView): SeenRunning {
  const followed = waiting.map((bundle) => follow(bundle, view));
  const due = followed
    .filter(({ dueInMs }) => dueInMs !== undefined && dueInMs <= 0)
    .sort((a, b) => sequenceOf(b.bundle) - sequenceOf(a.bundle));
  const first = due.filter((one) => due.find((other) => other.bundle.payload.name === one.bundle.payload.name) === one);
  return {
    findings: [
      ...followed.flatMap(({ bundle, soak }): LifecycleFinding[] =>
        soak === undefined ? [] : [{ kind: 'clock-changed', bundleId: bundle.bundleId, soak }],
      ),
      ...first.map(
        ({ bundle, components }): LifecycleFinding => ({
          kind: 'runs-unrequested',
          bundleId: bundle.bundleId,
          components,
        }),
      ),
    ],
    dueInMs: followed.flatMap(({ dueInMs }) => (dueInMs === undefined || dueInMs <= 0 ? [] : [dueInMs])),
  };
}

interface Followed {
  readonly bundle: StoredBundle;
  readonly soak: Soak | undefined;
  readonly components: readonly string[];
  /** Milliseconds from now. Undefined while no container runs. */
  readonly dueInMs: number | undefined;
}

function follow(bundle: StoredBundle, view: ContainerView): Followed {
  const { boot } = view.observed;
  const witnesses = witnessesOf(bundle, view);
  if (witnesses.length === 0 && bundle.soak === undefined) {
    return { bundle, soak: undefined, components: [], dueInMs: undefined };
  }
  const soak = soakAfter(bundle.soak, witnesses, boot, NO_ACTIVATION);
  const running = soak.components.filter(({ runs }) => runs.length > 0);
  const needMs = Math.min(SEEN_MS, view.policy.lifecycle.soak);
  const dueInMs = running.map(
    ({ runs, disturbedMs = 0 }) =>
      Math.max(disturbedMs, ...runs.map(({ sinceMs }) => sinceMs)) + needMs - boot.uptimeMs,
  );
  return {
    bundle,
    soak: JSON.stringify(soak) === JSON.stringify(bundle.soak) ? undefined : soak,
    components: running.map(({ component }) => component),
    dueInMs: running.length === 0 ? undefined : Math.min(...dueInMs),
  };
}

/** The clock of a release that was never activated belongs to no activation. */
const NO_ACTIVATION = 0;

/**
 * Returns the containers that show that `bundle` runs, from images that stickpin pulled and that no
 * other known release has. Where a release of the stream is active, its version of the component
 * must have stopped: an additional container, such as a test or an early pull, is no upgrade.
 */
function witnessesOf(bundle: StoredBundle, { stored, policy, containers, ids }: ContainerView): readonly Witness[] {
  const exclusive = exclusiveIds(bundle, stored.bundles, stored.pulledByUs ?? new Set(), ids);
  const components = componentsById(bundle, ids);
  const current = currentRelease(stored.bundles, bundle.payload.name);
  const before = current && componentsById(current, ids);
  const stillRunning = new Set(
    containers
      .filter(({ state }) => state !== 'exited')
      .map((container) => before?.get(imageIdOf(container, ids) ?? '')),
  );
  const replaced = (component: string) =>
    before === undefined || ([...before.values()].includes(component) && !stillRunning.has(component));
  return containers.flatMap((container) => {
    const id = imageIdOf(container, ids) ?? '';
    const component = components.get(id);
    if (component === undefined || !exclusive.has(id) || policy.lifecycle.ignore.includes(component)) return [];
    return replaced(component) ? [{ component, counts: true, container }] : [];
  });
}

function exclusiveIds(
  { bundleId, contents }: StoredBundle,
  bundles: readonly StoredBundle[],
  pulledByUs: ReadonlySet<string>,
  ids: ContainerView['ids'],
): ReadonlySet<string> {
  const others = bundles.filter((other) => other.bundleId !== bundleId);
  const shared = new Set(
    others.flatMap((other) =>
      other.contents.images.flatMap(({ reference }) => [reference, ids.of(reference) ?? reference]),
    ),
  );
  return new Set(
    contents.images.flatMap(({ reference }) => {
      const id = ids.of(reference);
      return id === undefined || shared.has(reference) || shared.has(id) || !pulledByUs.has(reference) ? [] : [id];
    }),
  );
}

interface StreamEntry {
  readonly bundle: StoredBundle;
  readonly activationDue: boolean;
  /** The codes of the gates that hold its activation. */
  readonly holds: readonly { readonly code: string }[];
}

/** In these streams an activation follows or is requested, so no other one is automatic. */
export function streamsInMotion(entries: readonly StreamEntry[]): ReadonlySet<string> {
  return new Set(
    entries
      .filter(({ bundle, activationDue, holds }) => activationDue || (!holds.some(isRule) && hasOpenRequest(bundle)))
      .map(({ bundle }) => bundle.payload.name),
  );
}

function isRule({ code }: { readonly code: string }): boolean {
  return (RULE_CODES as readonly string[]).includes(code);
}
