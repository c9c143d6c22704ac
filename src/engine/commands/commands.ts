import type { Assessment } from '../../domain/assess/assess.ts';
import { askRules } from '../../domain/gates/gates.ts';
import { bundleName, bundleTitle } from '../../domain/model/bundle.ts';
import type { BundleId } from '../../domain/model/digest.ts';
import { currentRelease, isRetired, keptBundles, lastProven } from '../../domain/release/recorded-phase.ts';
import { isBaseInNeed, isProtected } from '../../domain/release/retention.ts';
import { confirmationMessage, whyHeld } from '../../domain/report/hold-text.ts';
import { stampAfter } from '../../domain/state/stamp.ts';
import type { LifecyclePolicy, StoredBundle } from '../../domain/state/state.ts';
import { AppError } from '../../platform/app-error.ts';
import type { Clock } from '../../platform/clock.ts';
import type { EventRow, StateStore } from '../../ports/state.ts';
import type { Running } from './running-releases.ts';

/** What a person may ask of releases. Each refusal is an AppError `engine/…` (`reject`); each success is in the history. */
export interface Commands {
  /** Asks for activation of `name@version` or a bundle digest. @throws `engine/no-bundle`, `engine/not-ready`, `engine/activation-held` without `override` */
  activate(bundle: string, options?: ActivateOptions): void;
  /** Asks for activation of the fallback of a stream; which one may be left out while there is only one. Returns `name@version`. @throws `engine/no-fallback` */
  rollback(stream: string | undefined): string;
  /** Takes the pins off a release; `running`: which ones run. @throws `engine/no-bundle`, `engine/running` without `force`, `engine/protected` */
  unpin(bundle: string, options: UnpinOptions, running: Running): void;
}

/** How {@link Commands.activate} goes about it. */
export interface ActivateOptions {
  /** Even if rules of the release hold its activation now: a person has confirmed it. Default false. */
  readonly override: boolean;
}

/** How {@link Commands.unpin} goes about it. */
export interface UnpinOptions {
  /** Also remove the images that only this release has. */
  readonly removeImages: boolean;
  /** Even if it is the release that runs, or the last known good one. */
  readonly force: boolean;
}

/** What {@link createCommands} needs. `assessment`: of the last round. */
export interface CommandDependencies {
  readonly clock: Clock;
  readonly store: StateStore;
  readonly policy: Pick<LifecyclePolicy, 'protect'>;
  readonly assessment: () => Assessment | undefined;
}

/** Commands over the state. They only record; the next round does what follows. */
export function createCommands({ clock, store, policy, assessment }: CommandDependencies): Commands {
  const now = () => stampAfter(store.load().bundles, clock.now());
  const entryOf = (bundleId: BundleId) => assessment()?.bundles.find((other) => other.bundle.bundleId === bundleId);
  const requestFor = (bundle: StoredBundle, what: string, at: number, although = ''): EventRow => {
    const message = `${what} ${bundleTitle(bundle.payload)} was asked for${although}`;
    return { at, kind: 'activation-requested', bundleId: bundle.bundleId, message };
  };
  return {
    activate: (name, { override } = { override: false }) => {
      const { bundles } = store.load();
      const bundle = findBundle(bundles, name);
      requireReady(bundle, entryOf(bundle.bundleId));
      // What was confirmed for an earlier request is not confirmed for this one.
      const { activationOverrides: _, ...unconfirmed } = bundle;
      const { holds } = askRules(unconfirmed, { bundles, now: clock.now() });
      if (holds.length > 0 && !override) throw refuse('engine/activation-held', confirmationMessage(bundle, holds));
      const although = holds.length === 0 ? '' : ` and confirmed, although ${whyHeld(holds)}`;
      const event = requestFor(bundle, 'Activation of', now(), although);
      store.requestActivation(
        bundle.bundleId,
        holds.map(({ code }) => code),
        event,
      );
    },
    rollback: (stream) => {
      const { bundles } = store.load();
      const name = stream ?? onlyStream(bundles);
      const from = currentRelease(bundles, name);
      const to = fallbackOf(bundles, name, from);
      const at = now();
      requireReady(to, entryOf(to.bundleId));
      const request = requestFor(to, 'Rollback to', at + 1);
      if (from === undefined) {
        store.requestActivation(to.bundleId, [], request);
      } else {
        const message = `${bundleTitle(from.payload)} was rolled back to ${bundleTitle(to.payload)} by hand. It is not activated again by itself; 'stickpin activate ${bundleName(from.payload)}' tries it once more`;
        const event = { at, kind: 'bundleRolledBack', bundleId: from.bundleId, message };
        store.rollBack(from.bundleId, event, { bundleId: to.bundleId, event: request });
      }
      return bundleName(to.payload);
    },
    unpin: (name, { removeImages, force }, running) => {
      const { bundles } = store.load();
      const bundle = findBundle(bundles, name);
      if (isRetired(bundle) && (bundle.removeImages === true || !removeImages)) return;
      if (isProtected(bundle, policy)) {
        throw refuse(
          'engine/protected',
          `${bundleName(bundle.payload)} is in lifecycle.protect; take it out there first`,
        );
      }
      if (!force) {
        requireIdle(bundle, bundles, running);
        requireNoDelta(bundle, bundles);
      }
      const what = removeImages ? ', with the images that only it has' : '';
      const doubt = force || running.isSeenNow ? '' : `; ${UNSEEN}`;
      const message = `${bundleTitle(bundle.payload)} was unpinned by hand${what}${doubt}`;
      store.retire(bundle.bundleId, removeImages, {
        at: now(),
        kind: 'bundleRetired',
        bundleId: bundle.bundleId,
        message,
      });
    },
  };
}

/** The bundle of this `name@version` or digest. @throws AppError `engine/no-bundle` (`reject`) */
export function findBundle(bundles: readonly StoredBundle[], name: string): StoredBundle {
  const named = bundles.filter((bundle) => bundleName(bundle.payload) === name);
  const live = named.filter((bundle) => !isRetired(bundle));
  if (live.length > 1) throw ambiguous(live, name);
  const found = bundles.find((bundle) => bundle.bundleId === name) ?? live[0] ?? named.at(-1);
  if (found !== undefined) return found;
  const known = bundles.map((bundle) => bundleName(bundle.payload)).join(', ');
  throw refuse(
    'engine/no-bundle',
    `no bundle ${name} is known here; ${known === '' ? 'none is, plug in a stick' : `known are ${known}`}`,
  );
}

function ambiguous(bundles: readonly StoredBundle[], name: string): AppError {
  const ids = bundles.map(({ bundleId, payload }) => `${bundleId} (sequence ${payload.sequence})`).join(' or ');
  return refuse(
    'engine/ambiguous',
    `${bundles.length} bundles here are called ${name}: name the one you mean by its digest, ${ids}`,
  );
}

function refuse(code: string, message: string): AppError {
  return new AppError({ code, message, disposition: 'reject' });
}

function onlyStream(bundles: readonly StoredBundle[]): string {
  const streams = [...new Set(keptBundles(bundles).map((bundle) => bundle.payload.name))];
  const [only] = streams;
  if (only !== undefined && streams.length === 1) return only;
  if (only === undefined)
    throw refuse('engine/no-fallback', 'no release is known here, so there is none to go back to');
  throw refuse('engine/no-fallback', `several streams are known here; say which: ${streams.join(', ')}`);
}

/** The last known good release, or the one before it when that is the one that is activated. */
function fallbackOf(bundles: readonly StoredBundle[], name: string, from: StoredBundle | undefined): StoredBundle {
  const others = bundles.filter((bundle) => bundle.bundleId !== from?.bundleId);
  const to = lastProven(others, name);
  if (to !== undefined) return to;
  throw refuse(
    'engine/no-fallback',
    `${name} has no earlier proven release here that is still pinned; 'stickpin list' shows what there is, 'stickpin activate' takes any that is ready`,
  );
}

function requireReady(bundle: StoredBundle, entry: Assessment['bundles'][number] | undefined): void {
  if (entry?.withdrawn !== undefined) throw refuse('engine/withdrawn', entry.withdrawn.message);
  const absent = entry?.absentImages.length ?? 0;
  // A retired release is pinned and pulled again once it is asked for, if there is something to pull it from.
  if (entry?.phase === 'retired' && entry.pullableImages.length >= absent) return;
  if (entry !== undefined && absent === 0 && entry.unpinnedImages.length === 0) return;
  const why =
    entry?.phase === 'retired'
      ? `it is retired and ${absent} of its images are gone; plug in its stick`
      : (entry?.reason?.message ?? `it is ${entry?.phase ?? 'not looked at yet'}`);
  throw refuse('engine/not-ready', `${bundleTitle(bundle.payload)} can't be activated yet: ${why}`);
}

/** Why it is not known what runs. */
const UNSEEN = 'whether it runs could not be seen, since the container runtime did not answer';

function requireIdle(bundle: StoredBundle, bundles: readonly StoredBundle[], { releases, isSeenNow }: Running): void {
  const { name } = bundle.payload;
  if (releases.has(bundle.bundleId)) {
    const run = isSeenNow ? 'containers run' : 'when the container runtime answered last, containers ran';
    const message = `${run} from images that only ${bundleName(bundle.payload)} has; it is unpinned by force only`;
    throw refuse('engine/running', message);
  }
  const isCurrent = currentRelease(bundles, name)?.bundleId === bundle.bundleId;
  const isGood = lastProven(bundles, name)?.bundleId === bundle.bundleId;
  if (!isCurrent && !isGood) return;
  const what = isCurrent ? 'the release that was activated last' : 'the last known good release';
  throw refuse(
    'engine/running',
    `${bundleName(bundle.payload)} is ${what} of ${name}, and the node may be running it; it is unpinned by force only`,
  );
}

function requireNoDelta(bundle: StoredBundle, bundles: readonly StoredBundle[]): void {
  if (!isBaseInNeed(bundle, bundles)) return;
  const name = bundleName(bundle.payload);
  throw refuse(
    'engine/running',
    `${name} is the base of a bundle that is not ready yet; until that one is, it is unpinned by force only`,
  );
}
