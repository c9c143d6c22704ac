import { pauseAfter } from '../../platform/backoff.ts';
import { defined } from '../../platform/defined.ts';
import type { Assessment } from '../assess/assess.ts';
import type { BundleAssessment } from '../assess/assess-bundle.ts';
import { activationTarget, trustedReleases } from '../assess/assess-order.ts';
import { unsupportedReason } from '../assess/derive-phase.ts';
import type { PullQueue } from '../preload/pull-schedule.ts';
import { diskFull } from '../preload/space.ts';
import { type DocumentCheckDue, type DocumentCheckPlan, documentCheckDue } from '../release/damaged-images.ts';
import { type PullCheckDue, type PullTest, pullCheckDue } from '../release/pulls.ts';
import type { Policy } from '../settings/settings.ts';
import type { Effect } from '../state/effect.ts';
import { isKept, type Memory } from '../state/memory.ts';
import type { Observed } from '../state/state.ts';
import { planPulls } from './pull-plan.ts';
import {
  type CheckDue,
  cancelledPulls,
  contentPlan,
  hookEffects,
  lifecycleEffect,
  mediaLeft,
  resumptions,
} from './release-effects.ts';
import { mirroredIn, mirrorsWanted } from './wanted-files.ts';

/** The first pause between requests for pins that the runtime does not report. */
const PIN_PAUSES = { firstMs: 1_000, longestMs: 60_000 };
const RUNTIME_RETRY_MS = 3_000;

/**
 * Returns the effects that follow from an observation, in the order of execution. Pure.
 *
 * INVARIANTS: no image is pulled before its pin is rendered and its mirror is in place, while it is
 * present, or while the disk of the runtime is full, which also cancels running pulls. Mirrors
 * exist only for images to pull, and for releases that are ready, activated, or fallbacks. A
 * runtime that is too old only loses stickpin's mirrors.
 */
export function decide(observed: Observed, memory: Memory, assessment: Assessment, policy: Policy): Decision {
  const decision = decideAll(observed, memory, assessment, policy);
  return observed.facts.keepsOnly === true ? keeping(decision, observed) : decision;
}

/** Keeps pins and mirrors only: both may be added, and no mirror is removed. */
function keeping({ effects, pullTest, wakeAt }: Decision, { runtime }: Observed): Decision {
  const rendered = runtime.kind === 'reachable' ? runtime.renderedMirrors : [];
  const kept = effects.flatMap((effect): Effect[] => {
    if (effect.kind === 'apply-pins') return [effect];
    if (effect.kind !== 'apply-mirrors') return [];
    const repositories = uniqueSorted([...mirroredIn(rendered), ...effect.repositories]);
    return repositories.length === 0 || isSame(rendered, repositories) ? [] : [{ ...effect, repositories }];
  });
  return { effects: kept, ...defined({ pullTest }), wakeAt };
}

function decideAll(observed: Observed, memory: Memory, assessment: Assessment, policy: Policy): Decision {
  const media = mediaEffects(observed);
  const adoptions = adoptionEffects(observed, memory, assessment);
  const records = recordEffects(observed, memory, assessment);
  const canActivate = observed.runtime.kind === 'reachable' && unsupportedReason(observed.runtime) === undefined;
  const hooks = hookEffects(memory, assessment, policy, { now: observed.now, canActivate });
  if (observed.runtime.kind !== 'reachable') {
    return { effects: [...media, ...adoptions, ...records, ...hooks], wakeAt: observed.now + RUNTIME_RETRY_MS };
  }
  if (unsupportedReason(observed.runtime) !== undefined) {
    return {
      effects: [...withdrawal(observed, memory), ...media, ...adoptions, ...records, ...hooks],
      wakeAt: undefined,
    };
  }
  const pins = pinEffects(observed, memory, assessment);
  const mirrors = mirrorEffects(observed, memory, assessment, policy);
  const isConfigured = !assessment.pins.isUncertain && pins.effects.length === 0 && mirrors.length === 0;
  const planned = planPulls(observed, memory, assessment, policy);
  const pulls = isConfigured ? planned : undefined;
  const starts = pulls
    ? [
        ...pulls.starts.map((task): Effect => ({ kind: 'start', task })),
        ...activations(memory, assessment),
        ...tagRestorations(memory, assessment),
      ]
    : [];
  const isAtRest = pulls !== undefined && starts.length === 0 && memory.running.length === 0;
  const content = contentPlan(memory, assessment, { now: observed.now, isAtRest });
  const documents = isAtRest ? documentCheck(observed, memory, assessment) : undefined;
  const test = isAtRest ? pullTest(observed, memory, assessment, documents) : undefined;
  return {
    effects: [
      ...cancellations(observed, memory, assessment),
      ...resumptions(observed, assessment),
      ...media,
      ...adoptions,
      ...records,
      ...(mirrors.length === 0 ? pins.effects : pins.effects.map(beforeMirrors)),
      ...mirrors,
      ...starts,
      ...content.effects,
      ...readyEffects(assessment),
      ...hooks,
      ...assessment.life.findings.map((finding) => lifecycleEffect(finding, policy.lifecycle)),
    ],
    ...defined({
      pullQueue: pulls?.pullQueue,
      pullTest: test?.kind === 'now' ? test.test : undefined,
      contentCheck: content.check,
      documentCheck: documents?.kind === 'now' ? documents.plan : undefined,
      pullsFollow: pulls === undefined && planned.starts.length > 0 ? (true as const) : undefined,
    }),
    wakeAt: earliest([pins.wakeAt, atOf(test), atOf(documents), ...timesOf(memory, assessment)], observed.now),
  };
}

function timesOf({ failures, hooks }: Memory, { life, tags, bundles }: Assessment) {
  return [
    life.wakeAt,
    tags.wakeAt,
    ...bundles.map(({ checkAgainAt }) => checkAgainAt),
    ...[...failures, ...hooks.failed].map(({ retryAt }) => retryAt),
  ];
}

function atOf(due: PullCheckDue | DocumentCheckDue | undefined): number | undefined {
  return due?.kind === 'later' ? due.at : undefined;
}

/** These effects need no runtime. */
function recordEffects(observed: Observed, memory: Memory, assessment: Assessment): Effect[] {
  const mediaEffects = mediaLeft(observed, memory, assessment);
  return [...signerEffects(assessment), ...badBlobEffects(assessment), ...mediaEffects];
}

function documentCheck(
  observed: Observed,
  { documentChecks, pullChecks }: Memory,
  assessment: Assessment,
): DocumentCheckDue | undefined {
  if (documentChecks === undefined) return undefined;
  return documentCheckDue(trustedReleases(assessment), observed, documentChecks, pullChecks);
}

/** A pull test waits for a check of the documents, which may restore lost ones. */
function pullTest(
  { runtime, now }: Observed,
  { pullChecks, documentChecks }: Memory,
  assessment: Assessment,
  documents: DocumentCheckDue | undefined,
): PullCheckDue | undefined {
  if (documents?.kind === 'now' || documentChecks?.isRunning === true) return undefined;
  if (runtime.kind !== 'reachable' || pullChecks === undefined || !assessment.pulls.areServed) return undefined;
  return pullCheckDue(trustedReleases(assessment), runtime, pullChecks, now);
}

/** A bundle is judged again once its documents are kept: trust may be withdrawn meanwhile. */
function adoptionEffects({ media }: Observed, { keeping }: Memory, { adoptions }: Assessment): Effect[] {
  const busy = new Set(media.flatMap(({ mediumId, isBusy }) => (isBusy ? [mediumId] : [])));
  return adoptions.flatMap(({ mediumId, found }): Effect[] => {
    const about = { bundleId: found.bundle.bundleId, mediumId };
    if (isKept(keeping.get(about.bundleId))) return [{ kind: 'adopt-bundle', ...about }];
    return busy.has(mediumId) ? [] : [{ kind: 'keep-documents', ...about }];
  });
}

function signerEffects({ bundles, notices }: Assessment): Effect[] {
  return [...bundles, ...notices].flatMap(({ bundle, newSigners }): Effect[] =>
    newSigners === undefined ? [] : [{ kind: 'record-signers', bundleId: bundle.bundleId, ...newSigners }],
  );
}

function badBlobEffects({ bundles }: Assessment): Effect[] {
  return bundles.flatMap(({ bundle, badBlobs }): Effect[] =>
    JSON.stringify(bundle.badBlobs ?? []) === JSON.stringify(badBlobs)
      ? []
      : [{ kind: 'record-bad-blobs', bundleId: bundle.bundleId, badBlobs }],
  );
}

function mediaEffects({ media, trustRevision }: Observed): Effect[] {
  return media.flatMap(({ mediumId, state, isBusy }): Effect[] => {
    if (isBusy) return [];
    if (state.kind === 'attached') return [{ kind: 'mount-medium', mediumId }];
    if (state.kind === 'mounted') return [{ kind: 'read-medium', mediumId }];
    const isOld = state.kind === 'read' && (state.isStale === true || state.trustRevision !== trustRevision);
    return isOld ? [{ kind: 'read-medium', mediumId }] : [];
  });
}

function pinEffects(
  observed: Observed,
  { pinsRequested: last }: Memory,
  { bundles, pins }: Assessment,
): { effects: Effect[]; wakeAt: number | undefined } {
  if (pins.isUncertain) return { effects: [], wakeAt: undefined };
  const references = uniqueSorted([...pins.claimed, ...pins.unclaimed]);
  const rendered = new Set(observed.runtime.kind === 'reachable' ? observed.runtime.renderedPins : []);
  const unpinned = uniqueSorted([
    ...bundles.flatMap((entry) => notHolding(entry, observed, rendered)),
    ...unclaimedNotHolding(pins.unclaimed, observed),
  ]).join('\n');
  const ask = (force: boolean): Effect => ({ kind: 'apply-pins', references, unpinned, force });
  if (last === undefined || !isSame(last.references, references)) return { effects: [ask(false)], wakeAt: undefined };
  if (unpinned === '') return { effects: [], wakeAt: undefined };
  if (unpinned !== last.unpinned) return { effects: [ask(false)], wakeAt: undefined };
  const due = last.at + pauseAfter(Math.max(1, last.attempts), PIN_PAUSES);
  // The time is in the future when the wall clock was set back.
  const isDue = observed.now >= due || observed.now < last.at;
  return isDue ? { effects: [ask(true)], wakeAt: undefined } : { effects: [], wakeAt: due };
}

function beforeMirrors(effect: Effect): Effect {
  return effect.kind === 'apply-pins' ? { ...effect, mirrorsFollow: true } : effect;
}

/** Returns present images whose pin does not hold, or would not after the runtime restarts. */
function notHolding(
  { bundle, phase, absentImages, unpinnedImages }: BundleAssessment,
  { runtime }: Observed,
  rendered: ReadonlySet<string>,
): string[] {
  if (runtime.kind !== 'reachable' || phase === 'retired') return [];
  const absent = new Set(absentImages);
  const unpinned = new Set(unpinnedImages);
  return bundle.contents.images
    .filter((image) => image.pin && !absent.has(image))
    .filter((image) => unpinned.has(image) || !rendered.has(image.reference))
    .map((image) => image.reference);
}

/** A runtime that is too old gets nothing from stickpin, and keeps its pins. */
function withdrawal({ runtime }: Observed, { running }: Memory): Effect[] {
  const hasMirrors = runtime.kind === 'reachable' && runtime.renderedMirrors.length > 0;
  return [
    ...running.map((task): Effect => ({ kind: 'cancel', task })),
    ...(hasMirrors ? [{ kind: 'apply-mirrors', repositories: [] } as const] : []),
  ];
}

function unclaimedNotHolding(unclaimed: readonly string[], { runtime }: Observed): readonly string[] {
  if (runtime.kind !== 'reachable' || unclaimed.length === 0) return [];
  const rendered = new Set(runtime.renderedPins);
  const wanted = new Set(unclaimed);
  return runtime.images.flatMap(({ pinned, repoDigests }) =>
    repoDigests.filter((name) => wanted.has(name) && !(pinned && rendered.has(name))),
  );
}

function mirrorEffects(observed: Observed, memory: Memory, assessment: Assessment, policy: Policy): Effect[] {
  if (observed.runtime.kind !== 'reachable') return [];
  const { renderedMirrors } = observed.runtime;
  const repositories = mirrorsWanted(renderedMirrors, memory, assessment, policy);
  return isSame(renderedMirrors, repositories) ? [] : [{ kind: 'apply-mirrors', repositories }];
}

/** A full disk stops all pulls. A cancellation or lost trust stops the pulls of one bundle. */
function cancellations({ now }: Observed, memory: Memory, assessment: Assessment): Effect[] {
  const withdrawn = new Set(assessment.bundles.flatMap(({ bundle, withdrawn: why }) => (why ? [bundle.bundleId] : [])));
  const lost = memory.running.filter((task) => withdrawn.has(task.bundleId));
  const running = memory.running.filter((task) => !withdrawn.has(task.bundleId));
  const stopped =
    diskFull(memory, now) === undefined
      ? cancelledPulls({ running }, assessment)
      : running.filter((task) => task.kind === 'pull').map((task): Effect => ({ kind: 'cancel', task }));
  return [...lost.map((task): Effect => ({ kind: 'cancel', task })), ...stopped];
}

function activations(memory: Memory, assessment: Assessment): Effect[] {
  if (memory.running.some((task) => task.kind === 'activate')) return [];
  const next = activationTarget(memory, assessment);
  return next === undefined ? [] : [{ kind: 'start', task: { kind: 'activate', bundleId: next.bundle.bundleId } }];
}

function tagRestorations(memory: Memory, assessment: Assessment): Effect[] {
  const { due } = assessment.tags;
  const [first] = due;
  if (first === undefined || activationTarget(memory, assessment) !== undefined) return [];
  const task = { kind: 'restore-tags', bundleId: first.bundleId, tags: due.map(({ tag }) => tag) } as const;
  return [{ kind: 'start', task }];
}

function readyEffects({ bundles }: Assessment): Effect[] {
  return bundles
    .filter((entry) => entry.phase === 'ready' && entry.reason === undefined && entry.bundle.readyAt === undefined)
    .map((entry) => ({ kind: 'record-ready', bundleId: entry.bundle.bundleId }));
}

function uniqueSorted(values: readonly string[]): string[] {
  return [...new Set(values)].sort();
}

function isSame(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((value, index) => value === b[index]);
}

function earliest(times: readonly (number | undefined)[], now: number): number | undefined {
  const ahead = times.filter((time): time is number => time !== undefined && time > now);
  return ahead.length === 0 ? undefined : Math.min(...ahead);
}

export interface Decision {
  readonly effects: readonly Effect[];
  readonly pullQueue?: PullQueue;
  /** The test starts when all effects are done. */
  readonly pullTest?: PullTest;
  readonly contentCheck?: CheckDue;
  readonly documentCheck?: DocumentCheckPlan;
  readonly pullsFollow?: true;
  /** When the next round is due at the latest, in milliseconds since the epoch. */
  readonly wakeAt: number | undefined;
}
