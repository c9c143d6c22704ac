import { assertNever } from '../../../platform/app-error.ts';
import { formatDuration } from '../../../platform/sizes.ts';
import type { BundleAssessment } from '../../assess/assess-bundle.ts';
import { bundleTitle } from '../../model/bundle.ts';
import type { Event } from '../../model/condition.ts';
import { shortDigest } from '../../model/digest.ts';
import type { RebuiltRelease, RefusedRebuild } from '../../release/rebuild.ts';
import { isProven, isRolledBack } from '../../release/recorded-phase.ts';
import type { HookFailure, HookRun } from '../../state/hook.ts';
import type { StoredBundle } from '../../state/state.ts';
import type { RejectedName, Verdict } from '../../trust/approval.ts';
import { isRelease } from '../../trust/trust-in-force.ts';
import { reasonText } from '../reasons/reason-text.ts';
import { hookFailureText } from '../texts/release-text.ts';

/** Arguments of a command are up to 8 KiB; a line of the history shows their beginning. */
const SHOWN_CHARACTERS = 200;

/**
 * `root asked for: activate ocp@4.13.7`.
 *
 * @param args by their names; those that are empty or false are left out
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

/** The caller of a command, as `EventRow.by` has it: `uid 1000: activate`. */
export function callerText(command: string, uid: number | undefined): string {
  return `${uid === undefined ? 'unknown user' : `uid ${uid}`}: ${command}`;
}

function wordsOf(name: string, value: unknown): readonly string[] {
  if (value === true) return [name];
  return value === false || value === '' ? [] : [String(value)];
}

/** Reported by a line of their own when they come. */
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

/** Reported once, until the bundle is repaired. */
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
 * @param why undefined when the hook succeeded
 * @param pauseMs until it is retried; undefined when it is not
 */
export function hookEvent(
  { hook, unit, bundleId }: HookRun,
  { payload }: Pick<StoredBundle, 'payload'>,
  why: HookFailure | undefined,
  pauseMs: number | undefined,
): Event {
  const about = `Hook ${hook} for ${bundleTitle(payload)}`;
  if (why === undefined) return { kind: 'hookDone', level: 'info', bundleId, message: `${about}: ${unit} succeeded` };
  const again = pauseMs === undefined ? 'It is not run again for this' : `It is retried in ${formatDuration(pauseMs)}`;
  const message = `${about} failed: ${hookFailureText(unit, why)}. ${again}`;
  return { kind: 'hookFailed', level: 'warn', bundleId, message };
}

export function rebuiltEvent({ bundle, evidence }: RebuiltRelease): Event {
  const title = bundleTitle(bundle.payload);
  const message = `What was recorded of ${title} was lost and is rebuilt from this node's own documents: ${known({ bundle, evidence })}`;
  return { kind: 'releaseRebuilt', level: 'warn', bundleId: bundle.bundleId, message };
}

function known({ bundle, evidence }: RebuiltRelease): string {
  const { activatedAt, provenAt } = bundle;
  switch (evidence) {
    case 'records':
      if (!isRelease(bundle)) return 'it is in force again';
      if (provenAt !== undefined) return 'it was proven';
      return activatedAt === undefined ? 'it was not activated' : 'it was activated';
    case 'tags':
      return 'its tags name its images, so it was activated. Whether it was proven is not known: it is proven again once its containers have run for lifecycle.soak';
    case 'pins':
      return 'what is present of its images is pinned. Whether it was activated is not known: see that the right release is activated, with stickpin activate if not';
    default:
      return assertNever(evidence);
  }
}

export function refusedRebuildEvent({ bundleId, bundle, reason }: RefusedRebuild): Event {
  const title = bundle === undefined ? `bundle ${shortDigest(bundleId)}` : bundleTitle(bundle.payload);
  const message = `What was recorded of ${title} is lost and can't be rebuilt from this node's own documents: ${reasonText(reason)}. Its pins stay. Correct that, or plug in its stick`;
  return { kind: 'releaseNotRebuilt', level: 'warn', bundleId, message };
}

export function timesRestoredEvent(bundle: StoredBundle): Event {
  const message = `What was recorded last of ${bundleTitle(bundle.payload)} ${RESTORED}: ${state(bundle)}`;
  return { kind: 'releaseRebuilt', level: 'warn', bundleId: bundle.bundleId, message };
}

const RESTORED = 'was lost with the state database and is known again from pins.json';

function state(bundle: StoredBundle): string {
  if (bundle.activatedAt === undefined) return 'it was not activated';
  if (isRolledBack(bundle)) return 'it was rolled back';
  return isProven(bundle) ? 'it was proven' : 'it was activated';
}

export function nameRestoredEvent(rejected: RejectedName): Event {
  const message = `That a person rejected ${bundleTitle(rejected)} ${RESTORED}`;
  return { kind: 'releaseRebuilt', level: 'warn', message };
}

export function verdictRestoredEvent({ bundleId, verdict }: Verdict): Event {
  const message = `That a person ${verdict} bundle ${shortDigest(bundleId)} ${RESTORED}`;
  return { kind: 'releaseRebuilt', level: 'warn', bundleId, message };
}
