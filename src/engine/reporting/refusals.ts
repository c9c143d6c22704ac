import { failedPulls } from '../../domain/decide/release-effects.ts';
import type { Event } from '../../domain/model/condition.ts';
import type { BundleId } from '../../domain/model/digest.ts';
import { refusalReason, refusalsOf } from '../../domain/preload/supply.ts';
import { reasonText } from '../../domain/report/reasons/reason-text.ts';
import type { Snapshot } from '../../domain/report/snapshot.ts';

/** Reports images that the node's policy.json refuses. */
export interface Refusals {
  /** The events to report after this round. */
  eventsOf(snapshot: Snapshot): Event[];
}

/**
 * Groups refusals, because a policy may refuse hundreds of images, again at each try. The first
 * refusal of a bundle is reported at once. When all images were tried, one more event has their
 * number. After that only another number is reported.
 */
export function createRefusals(): Refusals {
  const reported = new Map<BundleId, number>();
  return {
    eventsOf: ({ observed, memory, assessment }) =>
      assessment.bundles.flatMap(({ bundle, pullableImages }): Event[] => {
        const { bundleId } = bundle;
        const refused = refusalsOf(bundle, memory.failures);
        const before = reported.get(bundleId) ?? 0;
        const waiting = failedPulls(memory, observed.now);
        const isUnderWay =
          memory.running.some((task) => task.kind === 'pull' && task.bundleId === bundleId) ||
          pullableImages.some(({ reference }) => !waiting.has(reference));
        if (refused.length === before || (before > 0 && isUnderWay)) return [];
        reported.set(bundleId, refused.length);
        const reason = refusalReason(bundle, refused);
        return reason === undefined
          ? []
          : [{ kind: 'policyRefused', level: 'warn', bundleId, message: reasonText(reason) }];
      }),
  };
}
