import { assertNever } from '../../../platform/app-error.ts';
import { bundleTitle } from '../../model/bundle.ts';
import type { Event } from '../../model/condition.ts';
import { shortDigest } from '../../model/digest.ts';
import type { RebuiltRelease, RefusedRebuild } from '../../release/rebuild/rebuild.ts';
import { isProven, isRolledBack } from '../../release/recorded-phase.ts';
import type { StoredBundle } from '../../state/state.ts';
import type { RejectedName, Verdict } from '../../trust/approval.ts';
import { isRelease } from '../../trust/trust-in-force.ts';
import { reasonText } from '../reasons/reason-text.ts';

/** What was recorded of a release is known again: from what, and what is not. */
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

/** What was recorded of a release is lost, and its documents are not enough. */
export function refusedRebuildEvent({ bundleId, bundle, reason }: RefusedRebuild): Event {
  const title = bundle === undefined ? `bundle ${shortDigest(bundleId)}` : bundleTitle(bundle.payload);
  const message = `What was recorded of ${title} is lost and can't be rebuilt from this node's own documents: ${reasonText(reason)}. Its pins stay. Correct that, or plug in its stick`;
  return { kind: 'releaseNotRebuilt', level: 'warn', bundleId, message };
}

/** What was recorded last of a known release was lost, and is known from the pin ledger. */
export function timesRestoredEvent(bundle: StoredBundle): Event {
  const message = `What was recorded last of ${bundleTitle(bundle.payload)} was lost with the state database and is known again from pins.json: ${state(bundle)}`;
  return { kind: 'releaseRebuilt', level: 'warn', bundleId: bundle.bundleId, message };
}

function state(bundle: StoredBundle): string {
  if (bundle.activatedAt === undefined) return 'it was not activated';
  if (isRolledBack(bundle)) return 'it was rolled back';
  return isProven(bundle) ? 'it was proven' : 'it was activated';
}

/** As {@link verdictRestoredEvent}, for a name that was rejected. */
export function nameRestoredEvent(rejected: RejectedName): Event {
  const message = `That a person rejected ${bundleTitle(rejected)} was lost with the state database and is known again from pins.json`;
  return { kind: 'releaseRebuilt', level: 'warn', message };
}

/**
 * What a person said about a bundle was lost with the database and is known from the pin ledger.
 */
export function verdictRestoredEvent({ bundleId, verdict }: Verdict): Event {
  const message = `That a person ${verdict} bundle ${shortDigest(bundleId)} was lost with the state database and is known again from pins.json`;
  return { kind: 'releaseRebuilt', level: 'warn', bundleId, message };
}
