import type { Assessment } from '../../domain/assess/assess.ts';
import { bundleName, bundleTitle, type VerifiedBundle } from '../../domain/model/bundle.ts';
import { type BundleId, isDigest, shortDigest } from '../../domain/model/digest.ts';
import type { Policy } from '../../domain/state/state.ts';
import { type Approvals, isApproved } from '../../domain/trust/approval.ts';
import { AppError } from '../../platform/app-error.ts';
import type { Clock } from '../../platform/clock.ts';
import type { StateStore } from '../../ports/state.ts';
import type { EventRecorder } from '../reporting/event-recorder.ts';

/** What {@link createVerdicts} needs. */
export interface VerdictDependencies {
  readonly clock: Clock;
  readonly store: StateStore;
  readonly recorder: EventRecorder;
  readonly policy: Policy;
  /** The latest round's, if there was one. */
  readonly assessment: () => Assessment | undefined;
}

/** Approves and rejects bundles by their digest. Both give one sentence about what that does. */
export interface Verdicts {
  /** @throws AppError `engine/no-bundle`, `engine/ambiguous` (`reject`) when `bundle` is no digest and names nothing, or several bundles. */
  approve(bundle: string): string;
  /** As {@link Verdicts.approve}. A bundle that was taken up before is not loaded further and not activated; what is pinned stays. */
  reject(bundle: string): string;
}

interface Target {
  readonly bundleId: BundleId;
  /** Undefined for a digest that nothing here has. */
  readonly bundle: VerifiedBundle | undefined;
}

/** The verdicts of people on bundles, ahead of the stick or afterwards. The latest word counts. */
export function createVerdicts({ clock, store, recorder, policy, assessment }: VerdictDependencies): Verdicts {
  const approvals = (): Approvals => ({ policy: policy.trust, verdicts: store.load().verdicts });
  const say = (target: Target, verdict: 'approved' | 'rejected', message: string): string => {
    const { bundleId } = target;
    const kind = verdict === 'approved' ? 'bundleApproved' : 'bundleVetoed';
    const event = { kind, level: 'info', bundleId, message } as const;
    store.setVerdict({ bundleId, verdict, at: clock.now() }, recorder.row(event));
    recorder.log(event);
    return message;
  };
  const find = (name: string): Target => targetOf(name, store.load().bundles, assessment());
  return {
    approve: (name) => {
      const target = find(name);
      const { require } = policy.trust;
      const what = titleOf(target);
      if (isApproved(target.bundleId, approvals())) return `${what} is approved already.`;
      const then = {
        signature: 'this node asks for signatures only (trust.require = "signature"), so it makes no difference now',
        approval: 'it is taken up when a medium has it, whoever signed it',
        both: 'it is taken up when a medium has it and enough trusted keys signed it',
      }[require];
      return say(target, 'approved', `${what} is approved: ${then}.`);
    },
    reject: (name) => {
      const target = find(name);
      const what = titleOf(target);
      const isAdopted = store.load().bundles.some(({ bundleId }) => bundleId === target.bundleId);
      const then = isAdopted
        ? 'it was taken up before, so it is not loaded any further and not activated, and what is pinned stays'
        : 'it is not taken up';
      return say(target, 'rejected', `${what} is rejected: ${then}; 'stickpin approve' takes that back.`);
    },
  };
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
    throw new AppError({
      code: 'engine/ambiguous',
      message: `${name} names ${found.size} bundles: say which by its digest, ${[...found.keys()].join(' or ')}`,
      disposition: 'reject',
    });
  }
  const names = [...new Set(known.map(({ payload }) => bundleName(payload)))].join(', ');
  throw new AppError({
    code: 'engine/no-bundle',
    message: `no bundle ${name} is known or plugged in (${names || 'none is'}); ahead of its stick a bundle is named by its digest, sha256:<64 hex digits>`,
    disposition: 'reject',
  });
}

/** Bundles that are not adopted and whose signature is good, so that their name may be believed. */
function seenIn(assessment: Assessment | undefined): readonly VerifiedBundle[] {
  return [
    ...(assessment?.awaiting ?? []).flatMap(({ bundle }) => bundle ?? []),
    ...(assessment?.adoptions ?? []).map(({ found }) => found.bundle),
    ...(assessment?.rejections ?? []).flatMap(({ bundle }) => bundle ?? []),
  ];
}
