import { assertNever } from '../../platform/app-error.ts';
import { defined } from '../../platform/defined.ts';
import type { LoadingNodes } from '../fleet/turn.ts';
import { bundleName, type VerifiedBundle } from '../model/bundle.ts';
import type { BundleId } from '../model/digest.ts';
import type { FoundBundle, Medium, MediumId } from '../model/medium.ts';
import type { Reason } from '../model/reason.ts';
import type { Policy } from '../settings/settings.ts';
import type { Memory } from '../state/memory.ts';
import { approvalsIn, type Observed, type Stored } from '../state/state.ts';
import { admit, admitUnapproved, isClaim, sequencesOf } from './adoption.ts';
import { KnownBundles } from './floors.ts';

export interface FoundOn {
  readonly medium: Medium;
  readonly found: FoundBundle;
}

export interface Awaiting {
  readonly mediumId: MediumId;
  readonly label: string;
  readonly path: string;
  readonly bundleId: BundleId;
  /** Undefined when no trusted key signed the bundle: only its envelope was read. */
  readonly bundle: VerifiedBundle | undefined;
  readonly reason: Reason;
}

export interface Rejection {
  readonly mediumId: MediumId;
  readonly label: string;
  readonly path: string;
  /** `ocp@4.13.7`, if a trusted key signed that name. */
  readonly name: string | undefined;
  readonly bundleId: BundleId | undefined;
  /** Set once the signature was found good. */
  readonly bundle?: VerifiedBundle;
  readonly reason: Reason;
  /** Other nodes load the bundle from this stick. */
  readonly neededBy?: LoadingNodes | 'unknown';
}

export interface Adoption {
  readonly mediumId: MediumId;
  readonly label: string;
  readonly found: Extract<FoundBundle, { kind: 'verified' }>;
  readonly isClaim: boolean;
}

export interface UnknownBundles {
  readonly arrivals: Memory['arrivals'];
  readonly awaiting: readonly Awaiting[];
  readonly rejections: readonly Rejection[];
  readonly adoptions: readonly Adoption[];
}

/**
 * Sorts the bundles on plugged media that are not adopted yet.
 *
 * INVARIANT: a bundle that is adopted in this round counts for the bundles after it, so that no two
 * with the same sequence are adopted together.
 */
export function sortUnknown(
  found: readonly FoundOn[],
  known: ReadonlySet<BundleId>,
  observed: Observed,
  { floors, arrivals: before }: Memory,
  stored: Stored,
  policy: Policy,
  unclaimed: ReadonlySet<string>,
): UnknownBundles {
  const rejections: Rejection[] = [];
  const adoptions: Adoption[] = [];
  const awaiting: Awaiting[] = [];
  const approvals = approvalsIn(stored, policy);
  const counted = new KnownBundles(stored.bundles, floors);
  const past = new Set(stored.past?.map(({ bundleId }) => bundleId));
  const arrivals = arrivalsOf(observed, before, sequencesOf(stored.bundles, floors));
  for (const { medium, found: bundle } of found) {
    const where = { mediumId: medium.mediumId, label: medium.label };
    if (bundle.kind === 'rejected') {
      rejections.push({ ...where, path: bundle.path, name: undefined, bundleId: undefined, reason: bundle.reason });
      continue;
    }
    const { path } = bundle;
    if (bundle.kind === 'unapproved') {
      const { bundleId } = bundle;
      if (known.has(bundleId)) continue;
      const admission = admitUnapproved(bundleId, approvals, medium.label);
      const { reason } = admission;
      if (admission.kind === 'refuse') rejections.push({ ...where, path, name: undefined, bundleId, reason });
      else awaiting.push({ ...where, path, bundleId, bundle: undefined, reason });
      continue;
    }
    const { bundleId, payload } = bundle.bundle;
    if (known.has(bundleId) || counted.get(bundleId) !== undefined) continue;
    const context = defined({
      ...observed,
      stepFrom: arrivals.get(medium.mediumId)?.sequences,
      maxSequenceStep: policy.trust.max_sequence_step,
      known: counted,
      allowDowngrade: policy.update.allow_downgrade,
      unclaimed,
      wasAdopted: past.has(bundleId),
    });
    const admission = admit(bundle.bundle, context, approvals, medium.label);
    switch (admission.kind) {
      case 'adopt':
        counted.add(bundle.bundle);
        adoptions.push({ ...where, found: bundle, isClaim: isClaim(bundle.bundle, unclaimed) });
        break;
      case 'refuse':
        rejections.push({
          ...where,
          path,
          name: bundleName(payload),
          bundleId,
          bundle: bundle.bundle,
          reason: admission.reason,
        });
        break;
      case 'await-approval':
        awaiting.push({ ...where, path, bundleId, bundle: bundle.bundle, reason: admission.reason });
        break;
      default:
        assertNever(admission);
    }
  }
  return { rejections, adoptions, awaiting, arrivals };
}

/** Returns the sequences when each stick was plugged in, without streams that were reset since. */
function arrivalsOf(
  { media, now }: Observed,
  before: Memory['arrivals'],
  known: ReadonlyMap<string, number>,
): Memory['arrivals'] {
  const sticks = media.filter(
    ({ mediumId, isDropFolder, peer }) => !isDropFolder && peer === undefined && !mediumId.startsWith('load:'),
  );
  return new Map(
    sticks.map(({ mediumId }) => [
      mediumId,
      {
        at: before.get(mediumId)?.at ?? now,
        sequences: new Map([...(before.get(mediumId)?.sequences ?? known)].filter(([name]) => known.has(name))),
      },
    ]),
  );
}
