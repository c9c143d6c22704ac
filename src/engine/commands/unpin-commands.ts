import { bundleName, bundleTitle } from '../../domain/model/bundle.ts';
import { currentRelease, isRetired, isRolledBack, lastProven } from '../../domain/release/recorded-phase.ts';
import { isBaseInNeed } from '../../domain/release/retention.ts';
import { goesBackTo } from '../../domain/release/rollback.ts';
import { isReliable, reliedOn, type Whole } from '../../domain/release/whole.ts';
import { ownersOf } from '../../domain/report/events/release-events.ts';
import { type StoredBundle, stampAfter } from '../../domain/state/state.ts';
import { formatCount } from '../../platform/sizes.ts';
import { type CommandContext, findBundle, NOTHING_SEEN, type Running, refuse } from './command-context.ts';

export interface UnpinArgs {
  readonly bundle: string;
  /** Also removes the images that belong only to this release. */
  readonly removeImages?: boolean;
  /** Unpins even the running release or the last known good one. */
  readonly force?: boolean;
}

export async function unpin(context: CommandContext, args: UnpinArgs, signal: AbortSignal): Promise<string> {
  const running = args.force ? NOTHING_SEEN : await context.running.read(signal);
  retireByHand(context, args, running);
  const answers = running.isSeenNow || (await context.ports.runtime.observe(signal)).kind === 'reachable';
  if (answers) return `${args.bundle} is no longer pinned`;
  return `${args.bundle} is given up, and its images are still pinned, since the container runtime does not answer. They are unpinned when it does: see 'stickpin status'`;
}

/** @throws AppError `engine/no-bundle`, `engine/protected`, `engine/running` (`reject`) */
export function retireByHand(
  { ports: { clock, store, policy }, assessment }: CommandContext,
  { bundle: name, removeImages = false, force = false }: UnpinArgs,
  running: Running,
): void {
  const { bundles } = store.load();
  const bundle = findBundle(bundles, name);
  const isRemoving = bundle.removeImages === true && bundle.isGivenUp === true;
  if (isRetired(bundle) && (isRemoving || !removeImages)) return;
  if (policy.lifecycle.protect.includes(bundleName(bundle.payload))) {
    throw refuse('engine/protected', `${bundleName(bundle.payload)} is in lifecycle.protect; take it out there first`);
  }
  if (!force && bundle.payload.keep === 'life') {
    const message = `${bundleName(bundle.payload)} is kept for good, as its bundle says; it is unpinned by force only`;
    throw refuse('engine/running', message);
  }
  if (!force) {
    requireIdle(bundle, bundles, running);
    requireNoWayBack(bundle, bundles);
    requireNoDelta(bundle, bundles);
    requireWholeRest(bundle, bundles, assessment()?.whole);
  }
  const what = removeImages ? ', with the images that only it has' : '';
  const doubt = force || running.isSeenNow ? '' : `; ${UNSEEN}`;
  const message = `${bundleTitle(bundle.payload)} was unpinned by hand${what}${doubt}`;
  const at = stampAfter(bundles, clock.now());
  const { bundleId } = bundle;
  store.change(
    bundleId,
    { retiredAt: at, removeImages, isGivenUp: true },
    { at, kind: 'bundleRetired', bundleId, message },
  );
}

export async function unpinUnclaimed(
  { ports: { signedBundles, store }, assessment, recorder, pinKeeper }: CommandContext,
  { force }: { readonly force?: boolean },
  signal: AbortSignal,
): Promise<string> {
  const { unclaimed = [], unclaimedReleases = [] } = assessment()?.pins ?? {};
  if (unclaimed.length === 0) {
    throw refuse('engine/no-unclaimed', "there are no unclaimed pins here; 'stickpin list' shows what is pinned");
  }
  const isOne = unclaimed.length === 1;
  const owners = ownersOf(unclaimedReleases) ?? 'a release that nobody remembers';
  const pins = `${formatCount(unclaimed.length, 'unclaimed pin')} of ${owners}`;
  if (!force) {
    const message = `containers may run from the images of ${pins}, which can be collected then; ${isOne ? 'it is' : 'they are'} given up by force only`;
    throw refuse('engine/running', message);
  }
  await pinKeeper.giveUp(unclaimed, signal);
  // Otherwise their releases would be rebuilt when the keys change.
  const known = new Set(store.load().bundles.map(({ bundleId }) => bundleId));
  for (const bundleId of [...(await signedBundles.list(signal))].filter((one) => !known.has(one))) {
    await signedBundles.remove(bundleId, signal);
  }
  const done = `${pins} ${isOne ? 'was' : 'were'} given up by hand`;
  recorder.record({ kind: 'pinsGivenUp', level: 'info', message: done });
  return done;
}

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

/** The stream would stay on the tags of the release that was rolled back. */
function requireNoWayBack(bundle: StoredBundle, bundles: readonly StoredBundle[]): void {
  const current = currentRelease(bundles, bundle.payload.name);
  if (current === undefined || !isRolledBack(current) || goesBackTo(current, bundles) !== bundle) return;
  const name = bundleName(bundle.payload);
  throw refuse(
    'engine/running',
    `${bundleName(current.payload)} was rolled back, and the node goes back to ${name}. Activate another release first; until then ${name} is unpinned by force only`,
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

/** The node would have no whole release of the stream. */
function requireWholeRest(bundle: StoredBundle, bundles: readonly StoredBundle[], whole: Whole = new Set()): void {
  const { name } = bundle.payload;
  const needed = reliedOn(bundles, name);
  if (needed === undefined || !whole.has(bundle.bundleId) || isReliable(name, bundles, whole)) return;
  throw refuse(
    'engine/running',
    `${bundleName(bundle.payload)} is whole and ${bundleName(needed.payload)} is not: it lacks images, pins or a check of its content. Plug in the stick of ${bundleName(needed.payload)} first; until it is whole, ${bundleName(bundle.payload)} is unpinned by force only`,
  );
}
