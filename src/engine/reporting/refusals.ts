import { failedPulls } from '../../domain/decide/activation.ts';
import type { BundleId } from '../../domain/model/digest.ts';
import type { Event } from '../../domain/model/event.ts';
import { refusalReason, refusalsOf } from '../../domain/preload/refusal.ts';
import { reasonText } from '../../domain/report/reasons/reason-text.ts';
import type { Snapshot } from '../../domain/report/snapshot.ts';

/** Tells of images that the node's policy.json refuses. */
export interface Refusals {
  /** What is to be told after this round. */
  eventsOf(snapshot: Snapshot): Event[];
}

/**
 * A policy refuses images by the hundred, and does so again at each try. The first one of a bundle
 * is told at once, and when all were tried there is one more line with their number; from then on
 * only another number is news.
 */
export function createRefusals(): Refusals {
  const told = new Map<BundleId, number>();
  return {
    eventsOf: ({ observed, memory, assessment }) =>
      assessment.bundles.flatMap(({ bundle, pullableImages }): Event[] => {
        const { bundleId } = bundle;
        const refused = refusalsOf(bundle, memory.failures);
        const before = told.get(bundleId) ?? 0;
        const waiting = failedPulls(memory, observed.now);
        const isUnderWay =
          memory.running.some((task) => task.kind === 'pull' && task.bundleId === bundleId) ||
          pullableImages.some(({ reference }) => !waiting.has(reference));
        if (refused.length === before || (before > 0 && isUnderWay)) return [];
        told.set(bundleId, refused.length);
        const reason = refusalReason(bundle, refused);
        return reason === undefined
          ? []
          : [{ kind: 'policyRefused', level: 'warn', bundleId, message: reasonText(reason) }];
      }),
  };
}
