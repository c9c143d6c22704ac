import { assertNever } from '../../../platform/app-error.ts';
import { defined } from '../../../platform/defined.ts';
import { formatDuration } from '../../../platform/sizes.ts';
import type { NextWindows } from '../../activation/timing-gates.ts';
import type { Assessment } from '../../assess/assess.ts';
import type { BundleAssessment } from '../../assess/assess-bundle.ts';
import {
  allIn,
  baseNeededBy,
  bundleName,
  bundleTitle,
  type Contents,
  ignoredMembers,
  type Payload,
  type UpdateRules,
  type VerifiedBundle,
  verifiedLines,
} from '../../model/bundle.ts';
import type { BundleId } from '../../model/digest.ts';
import type { ImageContent } from '../../model/image.ts';
import { repositoryOf } from '../../model/reference.ts';
import { forgeableKeys, orderOfRelease, type RollOutOrder, settleOf } from '../../model/roll-out-order.ts';
import type { Opening } from '../../model/windows.ts';
import type { DamagedImage } from '../../release/damaged-images.ts';
import { keptBundles } from '../../release/recorded-phase.ts';
import type { ContentResult } from '../../state/checks.ts';
import { type HookFailure, type HookMemory, type HookRun, releaseOfRun } from '../../state/hook.ts';
import type { StoredBundle } from '../../state/state.ts';
import type { RejectedName } from '../../trust/approval.ts';
import { isAwaited } from '../hold-text.ts';
import { rejectedNameText, type ShownReason } from '../reasons/reason-text.ts';
import type { CheckedImage, ImageState, NoticeReport, ShownRule, StatusReport } from '../status-schema.ts';
import { contentFaultText, damageNextText, hookFailureText } from '../texts/release-text.ts';
import { openingText, percentText } from '../texts/short-texts.ts';

export function shownRules({ update }: Pick<Payload, 'update'>): readonly ShownRule[] {
  const { from, rollout, order, endOfLife, barrier, deadend } = update ?? {};
  const rule = (name: ShownRule['rule'], value: string | undefined): ShownRule[] => {
    const effect = name === 'barrier' || name === 'deadend' ? 'holds-others' : 'holds-activation';
    return value === undefined ? [] : [{ rule: name, value, effect }];
  };
  return [
    ...rule('from', from),
    ...rule('rollout', rollout && rolloutText(rollout)),
    ...rule('order', order && orderText(orderOfRelease(order))),
    ...rule('endOfLife', endOfLife),
    ...rule('barrier', barrier?.reason),
    ...rule('deadend', deadend?.reason),
  ];
}

/** Describes a rollout: `from 2026-03-10T12:00:00Z, over 90 minutes, 10 % of the nodes at once`. */
export function rolloutText({ start, durationMinutes, startPercentage }: NonNullable<UpdateRules['rollout']>): string {
  const minutes = durationMinutes === 1 ? '1 minute' : `${durationMinutes} minutes`;
  const over = durationMinutes === undefined ? '' : `, over ${minutes}`;
  const atOnce = startPercentage === undefined ? '' : `, ${percentText(startPercentage)} of the nodes at once`;
  return `from ${start ?? 'the beginning'}${over}${atOnce}`;
}

/** Returns images in load order. @param seen absent while nothing was observed */
export function imageStates({ images, layers }: Contents, seen?: BundleAssessment): readonly ImageState[] {
  const [absent, pinned] = [seen?.absentImages, seen?.pinnedImages].map(
    (some) => some && new Set(some.map(({ reference }) => reference)),
  );
  return images.map(({ reference, digest, tags: [tag], component, layers: indexes }) =>
    defined({
      component,
      name: tag ?? repositoryOf(reference),
      digest,
      sizeBytes: indexes.reduce((sum, index) => sum + (layers[index]?.sizeBytes ?? 0), 0),
      present: absent && !absent.has(reference),
      pinned: pinned?.has(reference),
    }),
  );
}

/** Returns `control plane last; groups zone=a, zone=b; 1 canary for 1 h; at most 25% at once`. */
export function orderText(order: RollOutOrder): string {
  const { controlPlane, groups, canary, maxUnavailable } = order;
  const { nodes = 0, soakMs = 0 } = canary ?? {};
  const forgeable = forgeableKeys(order);
  const who = typeof nodes === 'string' ? `canaries ${nodes}` : nodes === 1 ? '1 canary' : `${nodes} canaries`;
  return [
    ...(canary === undefined ? [] : [`${who} for ${formatDuration(soakMs)}`]),
    ...(controlPlane === 'with' ? [] : [`control plane ${controlPlane}`]),
    ...(groups.length === 0 ? [] : [`groups ${groups.join('; ')}`]),
    `at most ${maxUnavailable.join(' and ')} at once`,
    ...(order.done === 'proven' ? ['each proven'] : []),
    `each well for ${formatDuration(settleOf(order))}`,
    ...(forgeable.length === 0 ? [] : [`labels that a node can forge: ${forgeable.join(', ')}`]),
  ].join(', ');
}

export function windowReports({ windows }: Assessment): StatusReport['windows'] {
  return windows === undefined ? [] : windows.openings.map((opening) => windowReport(opening, windows));
}

function windowReport(opening: Opening, { timeZone }: NextWindows): StatusReport['windows'][number] {
  const { opensAt, closesAt } = opening;
  return defined({ opensAt: isoTime(opensAt), closesAt: isoTime(closesAt), text: openingText(opening, timeZone) });
}

type Bundles = readonly Pick<BundleAssessment, 'bundle' | 'phase' | 'isRequested'>[];

interface Subject extends Pick<HookRun, 'hook' | 'unit'> {
  readonly bundleId?: BundleId | undefined;
  readonly medium?: string | undefined;
}

function subjectOf(run: HookRun): Subject {
  const { hook, unit } = run;
  return { hook, unit, bundleId: releaseOfRun(run), medium: 'key' in run ? run.medium : undefined };
}

/** Empty while no hook runs and the last run of each succeeded. */
export function hookReports({ running, failed, ledger }: HookMemory, bundles: Bundles): StatusReport['hooks'] {
  const nameOf = (bundleId: BundleId) => {
    const found = bundles.find(({ bundle }) => bundle.bundleId === bundleId);
    return found === undefined ? bundleId : bundleName(found.bundle.payload);
  };
  const report = (
    { hook, unit, bundleId, medium }: Subject,
    state: 'running' | 'retrying' | 'failed',
    at: number,
    why?: HookFailure,
  ) => {
    const message = why && hookFailureText(unit, why);
    return defined({ hook, unit, bundle: bundleId && nameOf(bundleId), medium, state, at: isoTime(at), message });
  };
  return [
    ...running.map((run) => report(subjectOf(run), 'running', run.startedAt)),
    ...failed.map((run) => report(subjectOf(run), 'retrying', run.retryAt, run.why)),
    ...[...ledger].flatMap(([hook, { unit, failure }]) =>
      failure === undefined ? [] : [report({ hook, unit, ...failure }, 'failed', failure.at, failure.why)],
    ),
  ];
}

/** Returns sentences. `before-activate` of an awaited release is reported with that release. */
export function hookNotes(
  { running, failed, ledger }: HookMemory,
  bundles: Bundles,
  now: number,
): { readonly running: readonly string[]; readonly failed: string | undefined } {
  // Only a light waits for a hook of the node, so `running` omits it.
  const isReportedElsewhere = (run: HookRun) =>
    run.hook === 'before-activate' &&
    bundles.some((entry) => entry.bundle.bundleId === run.bundleId && isAwaited(entry));
  const titleOf = (bundleId: BundleId) => {
    const found = bundles.find(({ bundle }) => bundle.bundleId === bundleId);
    return found === undefined ? 'a release' : bundleTitle(found.bundle.payload);
  };
  const broken = [...ledger].filter(([, { failure }]) => failure !== undefined).map(([hook]) => hook);
  const retried = failed.filter((run) => !isReportedElsewhere(run)).map(({ hook }) => hook);
  const bad = [...new Set([...broken, ...retried])];
  return {
    running: running
      .filter((run) => 'bundleId' in run)
      .filter((run) => !isReportedElsewhere(run))
      .map(({ hook, unit, bundleId, startedAt }) => {
        const since = formatDuration(Math.max(0, now - startedAt));
        return `Waiting for hook ${hook} of ${titleOf(bundleId)} (${unit}), for ${since} now.`;
      }),
    failed: bad.length === 0 ? undefined : bad.join(', '),
  };
}

/** @param reason why the notice is not in force, if it is not */
export function noticeReport(bundle: StoredBundle, reason: ShownReason | undefined): NoticeReport {
  const { payload, signedBy, signerKeyIds, adoptedAt } = bundle;
  const advisories = payload.advisories ?? [];
  return defined({ ...identityOf(bundle), signedBy, signerKeyIds, adoptedAt: isoTime(adoptedAt), advisories, reason });
}

export function identityOf({ bundleId, payload: { name, version, sequence } }: VerifiedBundle) {
  return { bundleId, name, version, sequence };
}

export function milestonesOf({ adoptedAt, readyAt, activatedAt, cancelled }: StoredBundle) {
  return {
    adoptedAt: isoTime(adoptedAt),
    readyAt: isoTime(readyAt),
    activatedAt: isoTime(activatedAt),
    cancelled: cancelled && { at: isoTime(cancelled.at), media: cancelled.media },
  };
}

/** Returns the maker's statements about a bundle. */
export function termsOf(bundle: StoredBundle) {
  const { payload } = bundle;
  const all = <T>(lines: readonly T[]) => (lines.length > 0 ? lines : undefined);
  return {
    rules: all(shownRules(payload)),
    warnings: all(payload.warnings ?? []),
    verified: all(verifiedLines(payload)),
    ignored: all(ignoredMembers(bundle)),
  };
}

export function isoTime<T extends number | undefined>(time: T): T extends number ? string : undefined;
export function isoTime(time: number | undefined): string | undefined {
  return time === undefined ? undefined : new Date(time).toISOString();
}

/** The reason includes the person's own words. */
export function rejectedNameReport({ name, version, at, reason }: RejectedName): StatusReport['rejectedNames'][number] {
  const message = rejectedNameText({ name, version }, reason);
  return { name, version, since: isoTime(at), reason: { code: 'trust/rejected', message } };
}

/** Returns images and checked artifacts of all kept releases, or of one, as last checked. */
export function checkedImages(
  bundles: readonly StoredBundle[],
  results: ReadonlyMap<string, Pick<ContentResult, 'content'>>,
  damaged: readonly DamagedImage[],
  only?: BundleId,
): readonly CheckedImage[] {
  const kept = keptBundles(bundles);
  const chosen = kept.filter(({ bundleId }) => only === undefined || bundleId === only);
  const named = chosen.flatMap(({ contents: { images, artifacts = [] } }) => [
    ...images,
    ...artifacts.filter(({ reference }) => results.has(reference)),
  ]);
  return [...new Map(named.map((one) => [one.reference, one])).values()].map((one) => {
    const { reference } = one;
    const releases = kept.filter(({ contents }) => allIn(contents).some((other) => other.reference === reference));
    const content = results.get(reference)?.content ?? NOT_CHECKED;
    const damage = damaged.find(({ image }) => image.reference === reference);
    return {
      image: reference,
      releases: releases.map(({ payload }) => bundleName(payload)),
      ...shown(content),
      next: 'pin' in one ? nextOf(content, damage) : copyNext(content, releases[0]),
    };
  });
}

const NOT_CHECKED: ImageContent = {
  kind: 'unknown',
  reason: { code: 'engine/not-checked', message: 'it was pulled again after it was checked' },
};

function shown(content: ImageContent): Pick<CheckedImage, 'result' | 'found'> {
  switch (content.kind) {
    case 'whole':
      return { result: 'whole', found: content.by === 'bytes' ? 'every blob has its digest' : 'the records fit' };
    case 'broken':
      return { result: 'damaged', found: content.faults.map(contentFaultText).join('; ') };
    case 'absent': {
      const remains = content.faults.map(contentFaultText).join('; ');
      return {
        result: 'absent',
        found: remains === '' ? 'the runtime does not have it' : `of what is left of it: ${remains}`,
      };
    }
    case 'unknown':
      return { result: 'unknown', found: content.reason.message };
    default:
      return assertNever(content);
  }
}

function copyNext({ kind }: ImageContent, bundle: StoredBundle | undefined): string {
  return kind === 'whole' || bundle === undefined
    ? ''
    : `It is copied from a medium with ${bundleTitle(bundle.payload)}.`;
}

function nextOf(content: ImageContent, damage: DamagedImage | undefined): string {
  const [bundle] = damage?.bundles ?? [];
  if (damage === undefined || bundle === undefined) {
    if (content.kind === 'unknown') return 'Run it again.';
    const isPulledAgain = content.kind === 'broken' && content.faults.some(({ kind }) => kind === 'not-unpacked');
    return isPulledAgain ? "It is pulled again; if that fails, 'stickpin status' says why." : '';
  }
  if (!damage.isPresent && damage.next.kind === 'heal') return 'It is pulled again.';
  const about = { title: bundleTitle(bundle.payload), base: baseNeededBy(damage.image, bundle) };
  return damageNextText(damage.next.kind, about);
}
