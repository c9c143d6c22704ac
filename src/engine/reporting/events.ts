import { judgeRules, type RuleQuestion } from '../../domain/activation/gates.ts';
import type { Adoption } from '../../domain/adoption/unknown-bundles.ts';
import { failedPulls } from '../../domain/decide/release-effects.ts';
import { bundleName, bundleTitle, ignoredMembers, type VerifiedBundle } from '../../domain/model/bundle.ts';
import type { Event } from '../../domain/model/condition.ts';
import { type BundleId, shortDigest } from '../../domain/model/digest.ts';
import type { Fault } from '../../domain/model/reason.ts';
import { refusalReason, refusalsOf } from '../../domain/preload/supply.ts';
import { commandName } from '../../domain/release/recorded-phase.ts';
import { pullFailureKind } from '../../domain/report/events/release-events.ts';
import { whyHeld } from '../../domain/report/hold-text.ts';
import { reasonText } from '../../domain/report/reasons/reason-text.ts';
import type { Snapshot } from '../../domain/report/snapshot.ts';
import { noticeEffect, noticeTitle, trustedBy } from '../../domain/report/texts/short-texts.ts';
import type { FailedBlob } from '../../domain/state/checks.ts';
import type { StoredBundle } from '../../domain/state/state.ts';
import { hasRotation, type KeyRotation, NO_ROTATION } from '../../domain/trust/approval.ts';
import { isRelease, noticeResult } from '../../domain/trust/trust-in-force.ts';
import { defined } from '../../platform/defined.ts';
import { clip } from '../../platform/plain-text.ts';
import { formatBytes, formatCount } from '../../platform/sizes.ts';

export function adoptedEvent(adoption: Adoption, rotation: KeyRotation): Event {
  const { bundleId } = adoption.found.bundle;
  return {
    kind: 'bundleVerified',
    level: 'info',
    bundleId,
    medium: adoption.label,
    message: `${adoptionMessage(adoption, rotation)}, bundle ${shortDigest(bundleId)}`,
  };
}

function adoptionMessage({ label, found: { bundle, missing } }: Adoption, rotation: KeyRotation): string {
  const { payload } = bundle;
  if (!isRelease(bundle)) {
    const effect = noticeEffect(noticeResult(bundle, rotation));
    return `${noticeTitle(payload)} on ${label} verified: ${trustedBy(bundle)}, ${effect}`;
  }
  const { blobs, images, sizeBytes } = payload.totals;
  const found = `${blobs - missing.length} of ${blobs} blobs found`;
  return `${bundleTitle(payload)} on ${label} verified: ${trustedBy(bundle)}, ${found}, ${formatCount(images, 'image')}, ${formatBytes(sizeBytes)}`;
}

/** What the maker of a bundle was warned of, and what of it is ignored here. */
export function warningEvents(bundle: VerifiedBundle): Event[] {
  const { bundleId, payload } = bundle;
  const { warnings = [] } = payload;
  const ignored = ignoredMembers(bundle);
  const title = bundleTitle(payload);
  const logged = warnings.slice(0, LOGGED_WARNINGS).map((warning) => `${title}: its maker was warned: ${warning}`);
  const count = warnings.length - logged.length;
  const more = `${title}: its maker had ${count} more warnings; 'stickpin show ${bundleName(payload)}' has all`;
  const newer = `${title} is made for a newer stickpin: this one does not know and ignores ${clip(ignored.join(', '), 200)}`;
  return [...logged, ...(count > 0 ? [more] : []), ...(ignored.length > 0 ? [newer] : [])].map((message) => ({
    kind: 'bundleWarned',
    level: 'warn',
    bundleId,
    message,
  }));
}

/** Lines for one bundle: the rest is shown elsewhere. */
const LOGGED_WARNINGS = 10;

export function signersEvent({ bundleId, payload }: StoredBundle, signedBy: readonly string[]): Event {
  const message = `${bundleTitle(payload)} is signed by ${signedBy.join(', ')}`;
  return { kind: 'bundleVerified', level: 'info', bundleId, message };
}

/** Says how a bundle that names keys changed the trusted keys, or why it did not. */
export function rotationEvents(bundle: VerifiedBundle, rotation: KeyRotation): Event[] {
  const { keys, revoked } = rotation;
  const { bundleId, payload } = bundle;
  if (!hasRotation(payload)) return [];
  const title = bundleTitle(payload);
  const where = payload.trust?.role === undefined ? '' : ` in role ${payload.trust.role}`;
  if (rotation === NO_ROTATION) {
    const message = `The keys that ${title} brings or revokes${where} are not taken: too few keys signed it that may do so`;
    return [{ kind: 'keysNotRotated', level: 'warn', bundleId, message }];
  }
  const list = (of: readonly { readonly keyId: string }[]) =>
    of.map(({ keyId }) => `${keyId.slice(0, 12)}…`).join(', ');
  const added = keys.length === 0 ? [] : [`trusts ${list(keys)}`];
  const removed = revoked.length === 0 ? [] : [`revokes ${list(revoked)}`];
  const done = keys.length + revoked.length === 0 ? ['changes no key'] : [...added, ...removed];
  const { trust } = payload;
  const count = (trust?.keys?.length ?? 0) + (trust?.revoked?.length ?? 0) - keys.length - revoked.length;
  const more = count === 0 ? '' : `. Left out: ${formatCount(count, 'key')} that the role does not know, or too many`;
  const message = `With ${title} this node ${done.join(' and ')}${where}${more}`;
  return [{ kind: 'keysRotated', level: 'info', bundleId, message }];
}

export function activeEvent({ bundleId, payload }: StoredBundle): Event {
  const message = `${bundleTitle(payload)} is active: containers run from its images`;
  return { kind: 'bundleActive', level: 'info', bundleId, message };
}

/** @param shared repositories that get no tag, since the release has several images in each */
export function provenEvent({ bundleId, payload, soak }: StoredBundle, shared: readonly string[] = []): Event {
  const isUnseen = soak?.proof === 'without-evidence';
  const although = isUnseen ? ', although no container of it was seen (lifecycle.without_evidence)' : '';
  const [first] = shared;
  const more = shared.length > 1 ? `, and ${shared.length - 1} more repositories,` : '';
  const without =
    first === undefined ? '' : `. ${first}${more} gets no tag of tag_after_proof, since it has several of its images`;
  const message = `${bundleTitle(payload)} is proven${although}: it is the last known good release now${without}`;
  return { kind: 'bundleProven', level: 'info', bundleId, message };
}

export function containerReplacedEvent({ bundleId, payload }: StoredBundle, name: string): Event {
  const message = `The stopped container ${name}, which was made from another image, was removed: the next one is made from ${bundleTitle(payload)}`;
  return { kind: 'containerReplaced', level: 'info', bundleId, message };
}

/** @param toTitle the release that runs again */
export function rolledBackText({ payload }: StoredBundle, toTitle: string): string {
  return `${bundleTitle(payload)} was rolled back: ${toTitle} runs again`;
}

export function rolledBackEvent(bundle: StoredBundle, toTitle: string, bundles: readonly StoredBundle[]): Event {
  const { bundleId } = bundle;
  const name = commandName(bundle, bundles);
  const what = rolledBackText(bundle, toTitle);
  const message = `${what}, and gets its tags back. It is not activated again automatically; 'stickpin activate ${name}' tries it once more, 'stickpin unpin ${name}' gives it up`;
  return { kind: 'bundleRolledBack', level: 'warn', bundleId, message };
}

/** Its rules don't hold its activation: the next pod would start the release of the tags. */
export function seenRunningEvent(bundle: StoredBundle, components: readonly string[], question: RuleQuestion): Event {
  const { bundleId, payload } = bundle;
  const { holds } = judgeRules(bundle, question);
  const although = holds.length === 0 ? '' : `, although ${whyHeld(holds)}`;
  const have = components.length === 1 ? 'has' : 'have';
  const message = `${bundleTitle(payload)} runs, though it was not activated here: ${components.join(', ')} ${have} containers of its images. It is activated, so that its tags name what runs${although}`;
  return { kind: 'bundleSeenRunning', level: 'info', bundleId, message };
}

export function takesOverEvent({ bundleId, payload }: StoredBundle, old: StoredBundle): Event {
  const message = `${bundleTitle(payload)} has the same images as ${bundleTitle(old.payload)} and takes its place`;
  return { kind: 'bundleTakesOver', level: 'info', bundleId, message };
}

export interface Retirement {
  readonly removeImages: boolean;
  /** Text after "is retired", maybe empty. */
  readonly why: string;
  /** Default `bundleRetired`. */
  readonly kind?: 'bundleRetired' | 'roomMade';
}

export function retiredEvent({ bundleId, payload }: StoredBundle, retirement: Retirement): Event {
  const { removeImages, why, kind = 'bundleRetired' } = retirement;
  const images = removeImages ? '; images that only it has are removed' : '';
  const message = `${bundleTitle(payload)} is retired${why}: it is no longer pinned${images}`;
  return { kind, level: 'info', bundleId, message };
}

/** The end of `TITLE is retired` for a release that never became complete. */
export function incompleteWhy(title: string): string {
  return `, since it was not complete for the time of retention.incomplete and no plugged medium has it ('stickpin activate' asks for ${title} again)`;
}

export function imagesRemovedEvent({ bundleId, payload }: StoredBundle, imageCount: number, tagCount: number): Event {
  const counts = [
    ...(imageCount > 0 ? [formatCount(imageCount, 'image')] : []),
    ...(tagCount > 0 ? [formatCount(tagCount, 'tag')] : []),
  ];
  const message = `Removed ${counts.join(' and ')} that only ${bundleTitle(payload)} had`;
  return { kind: 'imagesRemoved', level: 'info', bundleId, message };
}

/** `local_images = "retire"` */
export function nodeImagesRemovedEvent({ bundleId, payload }: StoredBundle, count: number): Event {
  const what = `${formatCount(count, 'image')} that this node came with`;
  const message = `Removed ${what}, since ${bundleTitle(payload)} is proven (streams.${payload.name}.local_images)`;
  return { kind: 'imagesRemoved', level: 'info', bundleId, message };
}

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

/** It is not in the journal, since a release has hundreds. */
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

/** Reports refusals by the node's policy.json: the first of a bundle at once, then their number. */
export class Refusals {
  private readonly reported = new Map<BundleId, number>();

  eventsOf({ observed, memory, assessment }: Snapshot): Event[] {
    return assessment.bundles.flatMap(({ bundle, pullableImages, artifactsToPull }): Event[] => {
      const { bundleId } = bundle;
      const refused = refusalsOf(bundle, memory.failures);
      const before = this.reported.get(bundleId) ?? 0;
      const waiting = failedPulls(memory, observed.now);
      const isUnderWay =
        memory.running.some((task) => task.kind === 'pull' && task.bundleId === bundleId) ||
        [...pullableImages, ...artifactsToPull].some(({ reference }) => !waiting.has(reference));
      if (refused.length === before || (before > 0 && isUnderWay)) return [];
      this.reported.set(bundleId, refused.length);
      const reason = refusalReason(bundle, refused);
      return reason === undefined
        ? []
        : [{ kind: 'policyRefused', level: 'warn', bundleId, message: reasonText(reason) }];
    });
  }
}
