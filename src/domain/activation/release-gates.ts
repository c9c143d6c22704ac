import { isAboveFloor, sequenceOf, streamScheme } from '../adoption/floors.ts';
import type { FleetView } from '../fleet/node-status.ts';
import { type AwaitedNode, NEW_SEARCH_MS, type Turn, type TurnRelease, turnOf } from '../fleet/turn.ts';
import { areFilesInstalled, beforeActivate, hasSucceeded } from '../release/hooks.ts';
import { answeredNames, namesOnceActivated, pullsFromElsewhere } from '../release/pulls.ts';
import { commandName, currentRelease, isRetired } from '../release/recorded-phase.ts';
import type { ContentChecks } from '../state/checks.ts';
import { type HookFailure, isSameRun } from '../state/hook.ts';
import { isWaiting } from '../state/memory.ts';
import type { StoredBundle } from '../state/state.ts';
import { type GateContext, type GateVerdict, type Hold, type HoldData, PASS } from './gate.ts';
import { placeIn } from './read-paths.ts';
import type { PathRelease } from './stream-path.ts';
import { isAutomatic } from './timing-gates.ts';

export function trust({
  withdrawn,
}: Pick<GateContext, 'withdrawn'>): GateVerdict<Hold<'trust/withdrawn', { readonly reason: string }>> {
  if (withdrawn === undefined) return PASS;
  return { kind: 'hold', hold: { code: 'trust/withdrawn', data: { reason: withdrawn }, releasedBy: 'person' } };
}

/** A release with a cancelled preload needs all its images. `absent`: number of missing images. */
export function cancellation({
  bundle,
  absentImages,
}: Pick<GateContext, 'bundle' | 'absentImages'>): GateVerdict<Hold<'engine/cancelled', { readonly absent: number }>> {
  if (bundle.cancelled === undefined || absentImages === 0) return PASS;
  const data = { absent: absentImages };
  return { kind: 'hold', hold: { code: 'engine/cancelled', data, releasedBy: 'person', keepsDue: true } };
}

export function denied({
  bundle,
  path,
}: Pick<GateContext, 'bundle' | 'path'>): GateVerdict<Hold<'engine/denied', Record<never, never>>> {
  if (placeIn(path, bundle).isDenied !== true) return PASS;
  return { kind: 'hold', hold: { code: 'engine/denied', data: {}, releasedBy: 'person' } };
}

type FloorHold =
  | Hold<'engine/floor-unknown', { readonly stream: string }>
  | Hold<'engine/below-floor', { readonly stream: string; readonly sequence: number; readonly floor: number }>;

/** A step below the floor needs a request, or `update.allow_downgrade` for a later release. */
export function floor({
  bundle,
  policy,
  floors,
  path,
}: Pick<GateContext, 'bundle' | 'policy' | 'floors' | 'path'>): GateVerdict<FloorHold> {
  const { payload, activationRequestedAt, activatedAt } = bundle;
  const isAutomaticNow =
    isAutomatic(bundle, policy) && activationRequestedAt === undefined && activatedAt === undefined;
  if (!isAutomaticNow || isRetired(bundle) || isAboveFloor(bundle, floors)) return PASS;
  const stream = payload.name;
  const least = floors.sequences.get(stream);
  if (least === undefined || floors.doubted?.has(stream) === true) {
    return { kind: 'hold', hold: { code: 'engine/floor-unknown', data: { stream }, releasedBy: 'person' } };
  }
  if (path.allowDowngrade && placeIn(path, bundle).isLate === true) return PASS;
  const data = { stream, sequence: sequenceOf(bundle), floor: least };
  return { kind: 'hold', hold: { code: 'engine/below-floor', data, releasedBy: 'person' } };
}

/** Of several possible releases the highest is activated. `next`: its version. */
export function order(
  bundle: StoredBundle,
  next: PathRelease | undefined,
): GateVerdict<Hold<'engine/not-next', { readonly next: string }>> {
  if (next === undefined || next.id === bundle.bundleId) return PASS;
  return { kind: 'hold', hold: { code: 'engine/not-next', data: { next: next.version }, releasedBy: 'event' } };
}

type RetryHold = Hold<'engine/activation-failed', { readonly attempts: number; readonly reason: string }>;

export function retry({
  bundle,
  failures,
  now,
}: Pick<GateContext, 'bundle' | 'failures' | 'now'>): GateVerdict<RetryHold> {
  const failed = failures.find(
    (failure) =>
      failure.task.kind === 'activate' && failure.task.bundleId === bundle.bundleId && isWaiting(failure, now),
  );
  if (failed === undefined) return PASS;
  const { attempts, reason, retryAt } = failed;
  const hold = { code: 'engine/activation-failed', data: { attempts, reason: reason.code }, keepsDue: true } as const;
  return retryAt === undefined
    ? { kind: 'hold', hold: { ...hold, releasedBy: 'event' } }
    : { kind: 'hold', hold: { ...hold, releasedBy: 'time', checkAgainAt: retryAt } };
}

type ContentHold =
  | Hold<'engine/content-unchecked', Readonly<Record<never, never>>>
  | Hold<'engine/content-damaged', { readonly image: string; readonly more: number }>;

/**
 * A runtime may list an image whose files were lost in a power cut. So a release waits for a due
 * check, for a check of images that were pulled again, and while images of it are damaged, unless
 * it was requested after the damage was found.
 */
export function content({
  bundle,
  contentChecks: checks,
}: Pick<GateContext, 'bundle' | 'contentChecks'>): GateVerdict<ContentHold> {
  if (checks === undefined) return PASS;
  const references = bundle.contents.images.map(({ reference }) => reference);
  if (checks.isAwaited || references.some((reference) => checks.healed.includes(reference))) {
    const hold = { code: 'engine/content-unchecked', data: {}, releasedBy: 'event', keepsDue: true } as const;
    return { kind: 'hold', hold };
  }
  const [image, ...others] = references.filter((reference) => isDamaged(reference, bundle, checks));
  if (image === undefined) return PASS;
  const data = { image, more: others.length };
  return { kind: 'hold', hold: { code: 'engine/content-damaged', data, releasedBy: 'event' } };
}

/** Whether an image was found damaged, without a request for its release since. */
function isDamaged(
  reference: string,
  { activationRequestedAt = 0 }: GateContext['bundle'],
  { results }: ContentChecks,
): boolean {
  const result = results.get(reference);
  return result?.content.kind === 'broken' && activationRequestedAt <= (result.brokenSince ?? 0);
}

type ForeignTagHold = Hold<
  'engine/tag-of-other-stream',
  { readonly tag: string; readonly stream: string; readonly other: string; readonly holder: string }
>;

/**
 * A tag of another stream's release. Only giving that one up ends it. `holder`: as `ocp@4.13.7`.
 */
export function foreignTags({
  bundle,
  bundles,
  foreignTag,
}: Pick<GateContext, 'bundle' | 'bundles' | 'foreignTag'>): GateVerdict<ForeignTagHold> {
  if (foreignTag === undefined) return PASS;
  const { tag, holder } = foreignTag;
  const data = { tag, stream: bundle.payload.name, other: holder.payload.name, holder: commandName(holder, bundles) };
  return { kind: 'hold', hold: { code: 'engine/tag-of-other-stream', data, releasedBy: 'person' } };
}

type ElsewhereHold = Hold<
  'engine/pulls-from-elsewhere',
  | { readonly kind: 'found'; readonly image: string; readonly usedBy: string; readonly more: number }
  | { readonly kind: 'unknown' }
>;

/** Setting `update.pulls_from_elsewhere = "hold"`: without a network such a pull would fail. */
export function pullsElsewhere({
  bundle,
  bundles,
  policy,
  imageUses,
}: Pick<GateContext, 'bundle' | 'bundles' | 'policy' | 'imageUses'>): GateVerdict<ElsewhereHold> {
  if (policy.update.pulls_from_elsewhere !== 'hold') return PASS;
  if (imageUses === undefined) return held({ kind: 'unknown' });
  const names = namesOnceActivated(bundle, bundles);
  const [first, ...others] = pullsFromElsewhere(imageUses.uses, names, answeredNames(policy));
  if (first !== undefined) {
    return held({ kind: 'found', image: first.image, usedBy: first.usedBy, more: others.length });
  }
  return imageUses.isComplete ? PASS : held({ kind: 'unknown' });
}

function held(data: ElsewhereHold['data']): GateVerdict<ElsewhereHold> {
  return { kind: 'hold', hold: { code: 'engine/pulls-from-elsewhere', data, releasedBy: 'event' } };
}

/** One release is activated at a time. `bundleId`: the one whose tags move. */
export function tagsInMotion({
  bundle,
  running,
}: Pick<GateContext, 'bundle' | 'running'>): GateVerdict<Hold<'engine/tags-in-motion', { readonly bundleId: string }>> {
  const other = running.find((task) => task.kind === 'activate' && task.bundleId !== bundle.bundleId);
  if (other === undefined) return PASS;
  const data = { bundleId: other.bundleId };
  return { kind: 'hold', hold: { code: 'engine/tags-in-motion', data, releasedBy: 'event', keepsDue: true } };
}

interface HookData extends HoldData {
  readonly unit: string;
  readonly state: 'files' | 'start' | 'end' | 'retry';
  readonly attempts?: number;
  readonly failure?: HookFailure['kind'];
  readonly job?: string;
  readonly result?: string;
  readonly status?: number;
  readonly loadState?: string;
  readonly message?: string;
}

type HookHold = Hold<'hook', HookData>;

/** Setting `hooks.before-activate`: the last gate. The unit starts when no other gate holds it. */
export function hook({
  bundle,
  policy,
  hooks,
}: Pick<GateContext, 'bundle' | 'policy' | 'hooks'>): GateVerdict<HookHold> {
  const run = beforeActivate(bundle, policy);
  if (run === undefined) return PASS;
  const { unit } = run;
  const held = (data: HookData, more: Pick<HookHold, 'releasedBy' | 'checkAgainAt'>): GateVerdict<HookHold> => ({
    kind: 'hold',
    hold: { code: 'hook', data, keepsDue: true, ...more },
  });
  // While it runs, its success may not be on the disk yet.
  if (hooks.running.some((one) => isSameRun(one, run))) return held({ unit, state: 'end' }, { releasedBy: 'event' });
  if (hasSucceeded(run, hooks.ledger)) return PASS;
  const failed = hooks.failed.find((one) => isSameRun(one, run));
  if (failed !== undefined) {
    const data = { unit, state: 'retry', attempts: failed.attempts, ...failureData(failed.why) } as const;
    return held(data, { releasedBy: 'time', checkAgainAt: failed.retryAt });
  }
  const state = areFilesInstalled(bundle, hooks.installed) ? 'start' : 'files';
  return held({ unit, state }, { releasedBy: 'event' });
}

function failureData(why: HookFailure): Partial<HookData> & Pick<HookData, 'failure'> {
  const { kind: failure } = why;
  switch (why.kind) {
    case 'ended':
      return {
        failure,
        job: why.job,
        ...(why.result !== undefined && { result: why.result }),
        ...(why.status !== undefined && { status: why.status }),
      };
    case 'not-loaded':
      return { failure, loadState: why.state };
    case 'unasked':
      return { failure, message: why.message };
    default:
      return { failure };
  }
}

/** `more`: how many other nodes are awaited. `absent`: names, separated by commas. */
type NodeData = {
  readonly node: string;
  readonly phase?: string;
  readonly percent?: number;
  readonly reason?: string;
  readonly isUnknown?: true;
  readonly more: number;
  readonly absent?: string;
};

type FleetHold =
  | Hold<'fleet/unknown', Record<never, never>>
  | Hold<'fleet/nobody-known', { readonly waitMs: number; readonly isFirst: boolean }>
  | Hold<'fleet/rolled-back', NodeData>
  | Hold<'fleet/not-ready', NodeData>
  | Hold<'fleet/order', NodeData>;

/** Setting `fleet.activate = "ordered"`: see {@link turnOf}. A request lifts it. */
export function fleet({
  bundle,
  bundles,
  policy,
  now,
  fleet: view,
}: Pick<GateContext, 'bundle' | 'bundles' | 'policy' | 'now' | 'fleet'>): GateVerdict<FleetHold> {
  const { enabled, activate } = policy.fleet;
  if (!enabled || activate !== 'ordered' || bundle.activationRequestedAt !== undefined) return PASS;
  if (view === undefined) {
    return { kind: 'hold', hold: { code: 'fleet/unknown', data: {}, releasedBy: 'event' } };
  }
  const alone = waitForOthers(view, { bundle, bundles, absentMs: policy.fleet.absent, now });
  if (alone !== undefined) return alone;
  const turn = turnOf(turnRelease(bundle, bundles), view);
  switch (turn.kind) {
    case 'go':
      return PASS;
    case 'rolled-back':
      return fleetHold('fleet/rolled-back', turn.node, 0, turn);
    case 'not-ready':
      return fleetHold('fleet/not-ready', turn.nodes[0], turn.nodes.length - 1, turn);
    case 'before':
      return fleetHold('fleet/order', turn.node, 0, turn);
  }
}

export function turnRelease({ bundleId, payload }: StoredBundle, bundles: readonly StoredBundle[]): TurnRelease {
  const { name, version, arch } = payload;
  const replaces = currentRelease(bundles, name)?.payload.version;
  return { bundleId, name, version, arch, scheme: streamScheme(bundles, name), replaces };
}

/**
 * A node that knows no other one may be alone, or the Kubernetes API has not answered yet: after a
 * power cut there may be none before stickpin has done its work. So it waits as long as for a
 * silent node. The time counts from the start of the fleet process and from when the release was
 * ready; a restart or a clock that is set back makes it longer. The first release of a stream waits
 * only until the API had time to answer, since nothing runs yet that an order would protect.
 */
function waitForOthers(
  { self, nodes, apiTrouble, search = 'new' }: FleetView,
  { bundle, bundles, absentMs, now }: Pick<GateContext, 'bundle' | 'bundles' | 'now'> & { readonly absentMs: number },
): GateVerdict<FleetHold> | undefined {
  if (apiTrouble === undefined || nodes.some(({ name }) => name !== self)) return undefined;
  const isFirst = !bundles.some(
    (other) => other.bundleId !== bundle.bundleId && other.payload.name === bundle.payload.name && other.activatedAt,
  );
  const { readyAt } = bundle;
  const overAt = readyAt === undefined ? Number.POSITIVE_INFINITY : readyAt + absentMs;
  if (isFirst ? search !== 'new' : search === 'long' && now >= overAt) return undefined;
  const waitMs = isFirst ? Math.min(NEW_SEARCH_MS, absentMs) : absentMs;
  const checkAgainAt = !isFirst && Number.isFinite(overAt) && now < overAt ? { checkAgainAt: overAt } : {};
  return {
    kind: 'hold',
    hold: { code: 'fleet/nobody-known', data: { waitMs, isFirst }, releasedBy: 'event', ...checkAgainAt },
  };
}

function fleetHold(
  code: 'fleet/rolled-back' | 'fleet/not-ready' | 'fleet/order',
  { name, release, isUnknown }: AwaitedNode,
  more: number,
  { absent }: Turn,
): GateVerdict<FleetHold> {
  const data = {
    node: name,
    more,
    ...(release !== undefined && { phase: release.phase }),
    ...(release?.percent !== undefined && { percent: release.percent }),
    ...(release?.reason !== undefined && { reason: release.reason }),
    ...(isUnknown && { isUnknown }),
    ...(absent.length > 0 && { absent: absent.join(', ') }),
  };
  return { kind: 'hold', hold: { code, data, releasedBy: 'event' } };
}
