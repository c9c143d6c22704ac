import type { Assessment } from '../../domain/assess/assess.ts';
import { bundleName, bundleTitle, type VerifiedBundle } from '../../domain/model/bundle.ts';
import { type BundleId, isDigest, shortDigest } from '../../domain/model/digest.ts';
import type { Policy } from '../../domain/settings/settings.ts';
import { type Approvals, isApproved } from '../../domain/trust/approval.ts';
import type { Clock } from '../../platform/clock.ts';
import { oneLine } from '../../platform/plain-text.ts';
import type { StateReader, VerdictStore } from '../../ports/state.ts';
import type { EventRecorder } from '../reporting/event-recorder.ts';
import { refuse } from './find-bundle.ts';

/** The adapters of the commands on verdicts. */
export interface VerdictContext {
  readonly clock: Clock;
  readonly store: StateReader & VerdictStore;
  readonly recorder: Pick<EventRecorder, 'row' | 'log'>;
  readonly policy: Pick<Policy, 'trust'>;
  /** The assessment of the last round. Undefined before the first. */
  readonly assessment: () => Assessment | undefined;
}

/**
 * Approve or reject a bundle, before or after its medium is plugged in. The latest verdict counts.
 */
export const verdictCommands = { approve, reject, rejectWithReason };

/** Names a bundle by its digest, or by `name@version` if it is known. */
interface VerdictArgs {
  readonly bundle: string;
}

interface Target {
  readonly bundleId: BundleId;
  /** Undefined when no known bundle has this digest. */
  readonly bundle: VerifiedBundle | undefined;
}

/**
 * Approves a bundle.
 *
 * @returns a sentence that states the effect
 * @throws AppError `engine/no-bundle`, `engine/ambiguous` (`reject`) when `bundle` is no digest and
 *   names nothing, or several bundles
 */
function approve(context: VerdictContext, { bundle: name }: VerdictArgs): string {
  const { store, policy, assessment } = context;
  const { bundles, verdicts } = store.load();
  const target = targetOf(name, bundles, assessment());
  const what = titleOf(target);
  const approvals: Approvals = { policy: policy.trust, verdicts };
  if (isApproved(target.bundleId, approvals)) return `${what} is approved already.`;
  const then = {
    signature: 'this node asks for signatures only (trust.require = "signature"), so it makes no difference now',
    approval: 'it is adopted when a medium has it, whoever signed it',
    both: 'it is adopted when a medium has it and enough trusted keys signed it',
  }[policy.trust.require];
  return record(context, target, 'approved', `${what} is approved: ${then}.`);
}

/**
 * Rejects a bundle; arguments and errors as {@link approve}. A rejected bundle that was adopted
 * before is not loaded further and not activated. Its pins stay.
 */
function reject(context: VerdictContext, { bundle }: VerdictArgs): string {
  return rejectBundle(context, bundle);
}

/** It is shown in STATUS, beside what to do. */
const MAX_REASON_LENGTH = 200;

function rejectBundle(context: VerdictContext, name: string, reason?: string): string {
  const { store, assessment } = context;
  const { bundles } = store.load();
  const target = targetOf(name, bundles, assessment());
  const isAdopted = bundles.some(({ bundleId }) => bundleId === target.bundleId);
  const then = isAdopted
    ? 'it was adopted before, so it is not loaded any further and not activated, and what is pinned stays'
    : 'it is not adopted';
  return record(
    context,
    target,
    'rejected',
    `${titleOf(target)} is rejected${reason === undefined ? '' : ` (${reason})`}: ${then}; 'stickpin approve' takes that back.`,
    reason,
  );
}

/**
 * As {@link reject}, with the reason that is shown from then on.
 *
 * @throws AppError `engine/reason` (`reject`) when it is empty or longer than 200 characters
 */
function rejectWithReason(
  context: VerdictContext,
  { bundle, reason }: VerdictArgs & { readonly reason: string },
): string {
  const why = oneLine(reason).trim();
  if (why === '' || why.length > MAX_REASON_LENGTH) {
    throw refuse('engine/reason', `a reason has 1 to ${MAX_REASON_LENGTH} characters, and this one has ${why.length}`);
  }
  return rejectBundle(context, bundle, why);
}

function record(
  { store, recorder, clock }: VerdictContext,
  { bundleId }: Target,
  verdict: 'approved' | 'rejected',
  message: string,
  reason?: string,
): string {
  const kind = verdict === 'approved' ? 'bundleApproved' : 'bundleVetoed';
  const event = { kind, level: 'info', bundleId, message } as const;
  const said = { bundleId, verdict, at: clock.now(), ...(reason !== undefined && { reason }) };
  store.setVerdict(said, recorder.row(event));
  recorder.log(event);
  return message;
}

function titleOf({ bundleId, bundle }: Target): string {
  return bundle === undefined ? bundleId : `${bundleTitle(bundle.payload)} (${shortDigest(bundleId)})`;
}

function targetOf(name: string, adopted: readonly VerifiedBundle[], assessment: Assessment | undefined): Target {
  const known = [...adopted, ...seenIn(assessment)];
  if (isDigest(name)) return { bundleId: name, bundle: known.find(({ bundleId }) => bundleId === name) };
  const found = new Map(
    known.filter(({ payload }) => bundleName(payload) === name).map((bundle) => [bundle.bundleId, bundle] as const),
  );
  const [first, second] = found.values();
  if (first !== undefined && second === undefined) return { bundleId: first.bundleId, bundle: first };
  if (first !== undefined) {
    const ids = [...found.keys()].join(' or ');
    throw refuse('engine/ambiguous', `${name} names ${found.size} bundles: say which by its digest, ${ids}`);
  }
  const names = [...new Set(known.map(({ payload }) => bundleName(payload)))].join(', ');
  throw refuse(
    'engine/no-bundle',
    `no bundle ${name} is known or plugged in (${names || 'none is'}); ahead of its stick a bundle is named by its digest, sha256:<64 hex digits>`,
  );
}

/** Bundles that are not adopted but have a valid signature, so that their names can be trusted. */
function seenIn(assessment: Assessment | undefined): readonly VerifiedBundle[] {
  return [
    ...(assessment?.awaiting ?? []).flatMap(({ bundle }) => bundle ?? []),
    ...(assessment?.adoptions ?? []).map(({ found }) => found.bundle),
    ...(assessment?.rejections ?? []).flatMap(({ bundle }) => bundle ?? []),
  ];
}
