import { defined } from '../../../platform/defined.ts';
import type { MessageKind } from '../../../platform/message-ids.ts';
import { capital } from '../../../platform/plain-text.ts';
import { formatCount, formatDuration } from '../../../platform/sizes.ts';
import type { Assessment } from '../../assess/assess.ts';
import type { BundleAssessment } from '../../assess/assess-bundle.ts';
import { baseNeededBy, bundleName, bundleTitle } from '../../model/bundle.ts';
import type { Event } from '../../model/condition.ts';
import { shortDigest } from '../../model/digest.ts';
import type { DamagedImage } from '../../release/damaged-images.ts';
import type { RebuiltRelease, RefusedRebuild } from '../../release/rebuild.ts';
import { contestReason, restoredReleases, type StrayTag } from '../../release/tags.ts';
import type { UnclaimedPins } from '../../release/unclaimed-pins.ts';
import type { CheckCause, ContentResult } from '../../state/checks.ts';
import type { Healing } from '../../state/effect.ts';
import { type HookFailure, type HookRun, releaseOfRun } from '../../state/hook.ts';
import type { StoredBundle } from '../../state/state.ts';
import { isRelease } from '../../trust/trust-in-force.ts';
import { judgeNodeConditions } from '../judge-conditions.ts';
import { reasonText } from '../reasons/reason-text.ts';
import type { Snapshot } from '../snapshot.ts';
import { CHECK_CAUSE, contentFaultText, damageNextText, hookFailureText } from '../texts/release-text.ts';

/** Reports new damage, and known damage with another outcome. */
export function damageEvents(before: Assessment | undefined, { damaged }: Assessment): Event[] {
  const known = new Map(before?.damaged.map(({ image, next }) => [image.reference, next.kind]));
  return damaged
    .filter(({ image, next, isPresent }) => isPresent && isNews(known.get(image.reference), next.kind))
    .map(damageEvent);
}

/** Knowledge of containers changes from round to round, so it is no news. */
function isNews(was: DamagedImage['next']['kind'] | undefined, is: DamagedImage['next']['kind']): boolean {
  return was !== is && is !== 'look' && !(was === 'look' && is === 'heal');
}

function damageEvent({ image, bundles, faults, next }: DamagedImage): Event {
  const [bundle] = bundles;
  const { reference } = image;
  const base = bundle && baseNeededBy(image, bundle);
  const title = bundle === undefined ? 'a release' : bundleTitle(bundle.payload);
  const names = bundles.map(({ payload }) => bundleName(payload)).join(', ');
  const what = faults.map(contentFaultText).join('; ');
  const message = `The image ${reference} of ${names} is damaged on this node: ${what}. ${damageNextText(next.kind, { title, base })}`;
  return defined({ kind: 'imageDamaged', level: 'warn', message, image: reference, bundleId: bundle?.bundleId });
}

export function healingEvent({ reference, bundleId, removal }: Healing, bundle: StoredBundle | undefined): Event {
  const title = bundle === undefined ? bundleId : bundleTitle(bundle.payload);
  const what = removal === undefined ? 'What is left of' : 'The damaged image';
  const message = `${what} ${reference} of ${title} was removed; it is pulled again from the blobs that are at hand`;
  return { kind: 'damagedImageRemoved', level: 'info', bundleId, image: reference, message };
}

export function checkedEvent(cause: CheckCause, results: readonly ContentResult[]): Event {
  const count = (kind: ContentResult['content']['kind']) =>
    results.filter(({ content }) => content.kind === kind).length;
  const parts = [
    `${count('whole')} whole`,
    ...(count('broken') > 0 ? [`${count('broken')} damaged`] : []),
    ...(count('absent') > 0 ? [`${count('absent')} absent`] : []),
    ...(count('unknown') > 0 ? [`${count('unknown')} not known ('stickpin verify-images' says why)`] : []),
  ];
  const message = `The content of ${formatCount(results.length, 'image')} was checked${cause === 'request' ? ", as 'stickpin verify-images' asked" : CHECK_CAUSE[cause]}: ${parts.join(', ')}`;
  return { kind: 'imagesChecked', level: 'info', message };
}

/** @param references at least one */
export function uncheckableEvent([first, ...more]: readonly string[]): Event {
  const others = more.length === 0 ? '' : ` and of ${formatCount(more.length, 'more image')}`;
  const message = `Three checks of ${first}${others} had no result ('stickpin verify-images' says why), so that no proof waits for one any longer. Nothing older is given up for it: 'stickpin unpin' does that. It is checked again after growing pauses`;
  return { kind: 'imagesChecked', level: 'warn', message };
}

/** Maps the code of the cause. The catalog entry of the kind has the remedy. */
export function pullFailureKind(code: string): MessageKind {
  return PULL_FAILURES.get(code) ?? 'pullFailed';
}

const PULL_FAILURES: ReadonlyMap<string, MessageKind> = new Map([
  ['media/blob-damaged', 'blobDamaged'],
  ['media/blob-unreadable', 'blobDamaged'],
  ['media/gone', 'preloadPaused'],
  ['bundle/blob-missing', 'blobMissing'],
  ['bundle/not-in-bundle', 'notInBundle'],
  ['runtime/unreachable', 'runtimeUnreachable'],
  ['runtime/no-space', 'diskFull'],
  ['runtime/read-only', 'diskFull'],
  ['runtime/policy', 'policyRefused'],
  ['engine/stalled', 'pullStalled'],
] as const);

export function nodePullEvents(before: Snapshot | undefined, after: Snapshot): Event[] {
  const was = before === undefined ? [] : judgeNodeConditions(before);
  return judgeNodeConditions(after).flatMap((verdict): Event[] => {
    const { type, status, reason } = verdict;
    const old = was.find((one) => one.type === type)?.status;
    if (status === old) return [];
    const message = capital(verdict.message);
    if (type === 'PullsFromElsewhere') {
      return status === 'True' ? [{ kind: 'pullsFromElsewhere', level: 'warn', message }] : [];
    }
    if (status === 'True' && old === 'False') return [{ kind: 'pullsAnswered', level: 'info', message }];
    // Mirrors change while they are written, and a failure of that is reported separately.
    const isBad = status === 'False' && reason !== 'NoMirror';
    return isBad ? [{ kind: 'pullsUnanswered', level: 'warn', message }] : [];
  });
}

/** Returns the releases of unclaimed pins: `ocp 4.13.7 and ocp 4.13.8`. Undefined when unknown. */
export function ownersOf(releases: readonly UnclaimedPins[]): string | undefined {
  const titles = releases.flatMap(({ name, version }) =>
    name === undefined || version === undefined ? [] : [bundleTitle({ name, version })],
  );
  return titles.length === 0 ? undefined : titles.join(' and ');
}

/** Returns two sentences. Undefined when no pin is unclaimed. */
function unclaimedMessage({ pins }: Assessment): string | undefined {
  const { unclaimed, unclaimedReleases } = pins;
  if (unclaimed.length === 0) return undefined;
  const owners = ownersOf(unclaimedReleases);
  const isOne = unclaimed.length === 1;
  const of = owners === undefined ? '' : `, but to ${owners} before`;
  const stick = owners === undefined ? 'the stick of their release' : `the stick of ${owners}`;
  return `${formatCount(unclaimed.length, 'pinned image')} ${isOne ? 'belongs' : 'belong'} to no release that is known here${of}. The pins stay: plug in ${stick} to claim them, or give them up with 'stickpin unpin --unclaimed'`;
}

/** @param before undefined in the first round, which reports all unclaimed pins */
export function unclaimedEvents(before: Assessment | undefined, after: Assessment): Event[] {
  const was = new Set(before?.pins.unclaimed);
  const message = unclaimedMessage(after);
  const isGrown = after.pins.unclaimed.some((reference) => !was.has(reference));
  const grown: Event[] = isGrown && message !== undefined ? [{ kind: 'pinsUnclaimed', level: 'warn', message }] : [];
  return [...grown, ...claimEvents(was, after)];
}

function claimEvents(was: ReadonlySet<string>, { bundles, pins }: Assessment): Event[] {
  const claimed = new Set(pins.claimed.filter((reference) => was.has(reference)));
  if (claimed.size === 0) return [];
  return bundles.flatMap(({ bundle, phase }): Event[] => {
    if (phase === 'retired') return [];
    const count = bundle.contents.images.filter(({ pin, reference }) => pin && claimed.delete(reference)).length;
    if (count === 0) return [];
    const remaining = pins.unclaimed.length === 0 ? '' : `; ${pins.unclaimed.length} more are unclaimed`;
    const message = `${bundleTitle(bundle.payload)} has claimed ${formatCount(count, 'pinned image')} again${remaining}`;
    return [{ kind: 'pinsClaimed', level: 'info', bundleId: bundle.bundleId, message }];
  });
}

export function contestEvents({ tags, bundles }: Assessment, reported: ReadonlySet<string>): Event[] {
  const releases = bundles.map(({ bundle }) => bundle);
  const restored = restoredReleases(releases);
  return tags.contested.flatMap((lost): Event[] => {
    const isHeld = (bundle: StoredBundle) => lost.provenAt !== undefined || restored.has(bundle);
    const holder = releases.find((bundle) => bundle.bundleId === lost.bundleId && isHeld(bundle));
    if (reported.has(lost.tag) || holder === undefined) return [];
    const message = reasonText(contestReason(lost, holder));
    return [{ kind: 'tagContested', level: 'warn', bundleId: lost.bundleId, message }];
  });
}

/** Names all tags in one line, and the image that the first of them named meanwhile. */
export function restoredMessage(lost: readonly StrayTag[], { payload }: StoredBundle, isOften = false): string {
  const [first] = lost;
  const verb = lost.length === 1 ? 'names its image' : 'name their images';
  const meanwhile = first?.names === undefined ? 'was gone' : `named ${first.names}`;
  const often = isOften
    ? '. This was the third time within an hour: find out what removes it. It is restored each time, and no longer reported'
    : '';
  return `${formatCount(lost.length, 'tag')} of ${bundleTitle(payload)} ${verb} again, first ${first?.tag}, which ${meanwhile} and names ${first?.reference} now${often}`;
}

export function givenAfterProofMessage(given: readonly StrayTag[], { payload }: StoredBundle): string {
  const [first] = given;
  const verb = given.length === 1 ? 'names its image' : 'name their images';
  const before = first?.names === undefined ? 'named nothing' : `named ${first.names}`;
  return `${bundleTitle(payload)} is the release that was proven last, so ${formatCount(given.length, 'tag')} ${verb} now, first ${first?.tag}, which ${before}`;
}

/** Arguments of a command are up to 8 KiB. A line of the history shows their beginning. */
const SHOWN_CHARACTERS = 200;

/**
 * Returns `root asked for: activate ocp@4.13.7`.
 *
 * @param args by their names. Empty and false ones are left out
 * @param uid user id of the caller
 */
export function askedEvent(command: string, args: object, uid: number): Event {
  const who = uid === 0 ? 'root' : `User ${uid}`;
  const words = Object.entries(args).flatMap(([name, value]: [string, unknown]) => wordsOf(name, value));
  const message = `${who} asked for: ${[command, ...words].join(' ')}`;
  return {
    kind: 'commandAsked',
    level: 'info',
    message: message.slice(0, SHOWN_CHARACTERS),
    by: callerText(command, uid),
  };
}

/** Returns the caller of a command for `EventRow.by`: `uid 1000: activate`. */
export function callerText(command: string, uid: number | undefined): string {
  return `${uid === undefined ? 'unknown user' : `uid ${uid}`}: ${command}`;
}

function wordsOf(name: string, value: unknown): readonly string[] {
  if (value === true) return [name];
  return value === false || value === '' ? [] : [String(value)];
}

/** A separate line reports these when they begin. */
const REPORTED_ELSEWHERE: ReadonlySet<string> = new Set([
  'runtime/policy',
  'runtime/no-space',
  'runtime/read-only',
  'store/no-space',
  'store/read-only',
  'store/damaged',
  'runtime/config',
  'media/blob-damaged',
  'bundle/blob-missing',
  'engine/image-missing',
  'engine/image-damaged',
  'engine/needs-copy',
  'engine/tag-contested',
  'engine/tags',
]);

/** A withdrawn trust is reported as the reason of the bundle. */
function isReportedElsewhere(code: string): boolean {
  return REPORTED_ELSEWHERE.has(code) || code.startsWith('trust/');
}

/** Reports it once, until the bundle is repaired. */
export function degradedEvents(was: BundleAssessment | undefined, { bundle, degraded }: BundleAssessment): Event[] {
  if (degraded === undefined || was?.degraded !== undefined || isReportedElsewhere(degraded.code)) return [];
  const next =
    degraded.code === 'runtime/mirrors-hidden'
      ? 'Until then its images are pulled from elsewhere, which fails without a network.'
      : 'The rest of it continues; it is retried every 5 minutes while there is a source for it.';
  const message = `${bundleTitle(bundle.payload)} is degraded: ${reasonText(degraded)}. ${next}`;
  return [{ kind: 'bundleDegraded', level: 'warn', bundleId: bundle.bundleId, message, code: degraded.code }];
}

/**
 * @param bundle the release of a hook of releases
 * @param why undefined when the hook succeeded
 * @param pauseMs until the retry. Undefined when there is none
 */
export function hookEvent(
  run: HookRun,
  bundle: StoredBundle | undefined,
  why: HookFailure | undefined,
  pauseMs: number | undefined,
): Event {
  const { hook, unit } = run;
  const bundleId = releaseOfRun(run);
  const about = `Hook ${hook}${bundle === undefined ? ofNode(run) : ` for ${bundleTitle(bundle.payload)}`}`;
  const of = bundleId === undefined ? {} : { bundleId };
  if (why === undefined) return { kind: 'hookDone', level: 'info', ...of, message: `${about}: ${unit} succeeded` };
  const again =
    pauseMs === undefined ? "'stickpin rescan' runs it again" : `It is retried in ${formatDuration(pauseMs)}`;
  const message = `${about} failed: ${hookFailureText(unit, why)}. ${again}`;
  return { kind: 'hookFailed', level: 'warn', ...of, message };
}

function ofNode(run: HookRun): string {
  if (!('key' in run)) return '';
  const { release, medium } = run;
  if (release !== undefined && release.name !== '') return ` for ${bundleTitle(release)}`;
  return medium === undefined ? '' : ` for ${medium}`;
}

export function rebuiltEvent({ bundle, evidence }: RebuiltRelease): Event {
  const title = bundleTitle(bundle.payload);
  const message = `What was recorded of ${title} was lost and is rebuilt from this node's own documents: ${known({ bundle, evidence })}`;
  return { kind: 'releaseRebuilt', level: 'warn', bundleId: bundle.bundleId, message };
}

function known({ bundle, evidence }: RebuiltRelease): string {
  if (!isRelease(bundle)) return 'it is in force again';
  return evidence === 'tags'
    ? 'its tags name its images, so it was activated. Whether it was proven is not known: it is proven again once its containers have run for lifecycle.soak'
    : 'what is present of its images is pinned. Whether it was activated is not known: see that the right release is activated, with stickpin activate if not';
}

export function refusedRebuildEvent({ bundleId, bundle, reason }: RefusedRebuild): Event {
  const title = bundle === undefined ? `bundle ${shortDigest(bundleId)}` : bundleTitle(bundle.payload);
  const message = `What was recorded of ${title} is lost and can't be rebuilt from this node's own documents: ${reasonText(reason)}. Its pins stay. Correct that, or plug in its stick`;
  return { kind: 'releaseNotRebuilt', level: 'warn', bundleId, message };
}
