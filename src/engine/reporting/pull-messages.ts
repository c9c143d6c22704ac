import { failedPulls } from '../../domain/decide/release-effects.ts';
import type { Event } from '../../domain/model/condition.ts';
import type { BundleId } from '../../domain/model/digest.ts';
import type { Fault } from '../../domain/model/reason.ts';
import { refusalReason, refusalsOf } from '../../domain/preload/supply.ts';
import { pullFailureKind } from '../../domain/report/events/image-events.ts';
import { reasonText } from '../../domain/report/reasons/reason-text.ts';
import type { Snapshot } from '../../domain/report/snapshot.ts';
import type { FailedBlob } from '../../domain/state/checks.ts';

/** What an event about one image is about. */
export type AboutImage = Pick<Event, 'bundleId' | 'digest' | 'medium'>;

/** How a pull failed. */
interface FailedPull {
  readonly reason: Fault;
  /** The blob that is to blame, if one is. */
  readonly blob?: FailedBlob;
  /** Number of this try, when it is tried again soon; undefined otherwise. */
  readonly triedAgain: number | undefined;
}

/**
 * The catalog entry of a damaged blob names every field, and journalctl prints the bare name of a
 * field that is absent.
 */
const NOT_KNOWN = 'not known';

/** A pull failed: of the blob that is to blame, with its file, or of the image. */
export function pullFailedEvent(
  { reason, blob, triedAgain }: FailedPull,
  about: AboutImage & Required<Pick<Event, 'image'>>,
): Event {
  const again = triedAgain === undefined ? '' : ` (try ${triedAgain}, retried automatically)`;
  const where = [
    ...(blob?.file === undefined ? [] : [`File on ${blob.medium}: ${blob.file}.`]),
    ...(blob === undefined ? [] : [`Image: ${about.image}.`]),
  ];
  return {
    ...about,
    kind: pullFailureKind(reason.code),
    code: reason.code,
    level: 'warn',
    message: [`${reason.message}${again}`, ...where].join(' '),
    ...(blob !== undefined && { digest: blob.digest, file: blob.file ?? NOT_KNOWN }),
    ...(blob?.medium !== undefined && { medium: blob.medium }),
  };
}

/**
 * An image was pulled from our registry, or from its own on purpose. A release has hundreds: the
 * journal has its story without them.
 */
export function pulledEvent(reference: string, about: AboutImage): Event {
  return { ...about, kind: 'imagePulled', level: 'debug', message: `Pulled ${reference}` };
}

/** An image was pulled, though not from our registry. */
export function pulledElsewhereEvent(reference: string, level: 'debug' | 'warn', about: AboutImage): Event {
  const message = `Pulled ${reference}, though not from stickpin's registry: the runtime did not use its mirror configuration yet, something in it goes before, or stickpin's registry had no manifest to send. It took the image from another source. It is the right one, since it goes by its digest`;
  return { ...about, kind: 'imagePulled', level, message };
}

/** The runtime has not taken up its mirrors in time, and is asked to pull all the same. */
export function mirrorsUnusedEvent(about: AboutImage): Event {
  const message =
    "The runtime has not asked stickpin's registry, although its mirrors are written. It is asked to pull anyway, and other registries may answer. With CRI-O, look for a reload that failed in its journal; with containerd, look whether its config_path names the folder of its `hosts.toml` files";
  return { ...about, kind: pullFailureKind('engine/mirror-unused'), level: 'warn', message };
}

/**
 * Groups the images that the node's policy.json refuses: it may refuse hundreds of them, again at
 * each try. The first refusal of a bundle is reported at once. When all images were tried, one more
 * event has their number. After that only another number is reported.
 */
export class Refusals {
  private readonly reported = new Map<BundleId, number>();

  /** The events to report after this round. */
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
