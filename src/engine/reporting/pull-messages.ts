import { failedPulls } from '../../domain/decide/release-effects.ts';
import type { Event } from '../../domain/model/condition.ts';
import type { BundleId } from '../../domain/model/digest.ts';
import type { Fault } from '../../domain/model/reason.ts';
import { refusalReason, refusalsOf } from '../../domain/preload/supply.ts';
import { pullFailureKind } from '../../domain/report/events/image-events.ts';
import { reasonText } from '../../domain/report/reasons/reason-text.ts';
import type { Snapshot } from '../../domain/report/snapshot.ts';
import type { FailedBlob } from '../../domain/state/checks.ts';
import { defined } from '../../platform/defined.ts';

export type AboutImage = Pick<Event, 'bundleId' | 'digest' | 'medium'>;

interface FailedPull {
  readonly reason: Fault;
  readonly blob?: FailedBlob;
  /** The number of this attempt, if the next one is soon. */
  readonly triedAgain: number | undefined;
}

/** journalctl prints the bare name of an absent field. */
const NOT_KNOWN = 'not known';

export function pullFailedEvent(
  { reason, blob, triedAgain }: FailedPull,
  about: AboutImage & Required<Pick<Event, 'image'>>,
): Event {
  const again = triedAgain === undefined ? '' : ` (try ${triedAgain}, retried automatically)`;
  const where = [
    ...(blob?.file === undefined ? [] : [`File on ${blob.medium}: ${blob.file}.`]),
    ...(blob === undefined ? [] : [`Image: ${about.image}.`]),
  ];
  const message = [`${reason.message}${again}`, ...where].join(' ');
  const event = { ...about, kind: pullFailureKind(reason.code), code: reason.code, level: 'warn', message } as const;
  if (blob === undefined) return event;
  const { digest, file = NOT_KNOWN, medium } = blob;
  return { ...event, ...defined({ digest, file, medium }) };
}

/** Not in the journal, since a release has hundreds. */
export function pulledEvent(reference: string, about: AboutImage): Event {
  return { ...about, kind: 'imagePulled', level: 'debug', message: `Pulled ${reference}` };
}

export function pulledElsewhereEvent(reference: string, level: 'debug' | 'warn', about: AboutImage): Event {
  const message = `Pulled ${reference}, though not from stickpin's registry: the runtime did not use its mirror configuration yet, something in it goes before, or stickpin's registry had no manifest to send. It took the image from another source. It is the right one, since it goes by its digest`;
  return { ...about, kind: 'imagePulled', level, message };
}

/** The runtime does not use its mirrors in time, and the pull starts all the same. */
export function mirrorsUnusedEvent(about: AboutImage): Event {
  const message =
    "The runtime has not asked stickpin's registry, although its mirrors are written. It is asked to pull anyway, and other registries may answer. With CRI-O, look for a reload that failed in its journal; with containerd, look whether its config_path names the folder of its `hosts.toml` files";
  return { ...about, kind: pullFailureKind('engine/mirror-unused'), level: 'warn', message };
}

/** Of the node's policy.json: the first of a bundle at once, then their number. */
export class Refusals {
  private readonly reported = new Map<BundleId, number>();

  eventsOf({ observed, memory, assessment }: Snapshot): Event[] {
    return assessment.bundles.flatMap(({ bundle, pullableImages }): Event[] => {
      const { bundleId } = bundle;
      const refused = refusalsOf(bundle, memory.failures);
      const before = this.reported.get(bundleId) ?? 0;
      const waiting = failedPulls(memory, observed.now);
      const isUnderWay =
        memory.running.some((task) => task.kind === 'pull' && task.bundleId === bundleId) ||
        pullableImages.some(({ reference }) => !waiting.has(reference));
      if (refused.length === before || (before > 0 && isUnderWay)) return [];
      this.reported.set(bundleId, refused.length);
      const reason = refusalReason(bundle, refused);
      return reason === undefined
        ? []
        : [{ kind: 'policyRefused', level: 'warn', bundleId, message: reasonText(reason) }];
    });
  }
}
