import { assertNever } from '../../platform/app-error.ts';
import { formatBytes, formatCount, formatDuration } from '../../platform/sizes.ts';
import type { Assessment } from '../assess/assess.ts';
import type { BundleAssessment } from '../assess/assess-bundle.ts';
import { trustedReleases } from '../assess/assess-order.ts';
import { bundleTitle } from '../model/bundle.ts';
import {
  type ConditionStatus,
  type ConditionType,
  type ConditionVerdict,
  type NodeConditionType,
  reasonWord,
} from '../model/condition.ts';
import type { Reason } from '../model/reason.ts';
import { spaceHold } from '../preload/space.ts';
import { lackingCount } from '../preload/supply.ts';
import { activationKey, pullToCheck, releasesInForce } from '../release/pulls.ts';
import { currentIds, isProven, isRetired, isRolledBack } from '../release/recorded-phase.ts';
import type { PullCheckEnd } from '../state/checks.ts';
import type { Memory } from '../state/memory.ts';
import { bundlesIn, type Observed, type StoredBundle } from '../state/state.ts';
import { heldReason } from './hold-text.ts';
import { withShortDigests } from './names.ts';
import { runtimeAway } from './reasons/node-lines.ts';
import { reasonText } from './reasons/reason-text.ts';
import type { Snapshot } from './snapshot.ts';
import { elsewhereText, pullCheckText } from './texts/release-text.ts';
import { trustedBy } from './texts/short-texts.ts';

export type Judgement = Omit<ConditionVerdict, 'type'>;

interface Subject {
  readonly entry: BundleAssessment;
  readonly observed: Observed;
  readonly memory: Memory;
  readonly life: Assessment['life'];
  /** The stream activated this release last. */
  readonly isCurrent: boolean;
}

const JUDGES: Readonly<Record<ConditionType, (subject: Subject) => Judgement>> = {
  Verified: judgeVerified,
  SpaceAvailable: judgeSpace,
  Preloaded: judgePreloaded,
  Pinned: judgePinned,
  Active: judgeActive,
  Proven: judgeProven,
  Degraded: judgeDegraded,
};

/**
 * Returns conditions by bundle (docs/architecture.md, "Conditions"). It uses the results of {@link
 * assess}, so that a release of 1,000 images costs two passes over them.
 */
export function judgeConditions(
  observed: Observed,
  memory: Memory,
  { bundles, life }: Assessment,
): ReadonlyMap<BundleAssessment, readonly ConditionVerdict[]> {
  const current = currentIds(bundlesIn(bundles));
  return new Map(
    bundles.map((entry) => {
      const subject = { entry, observed, memory, life, isCurrent: current.has(entry.bundle.bundleId) };
      const types = Object.entries(JUDGES) as [ConditionType, (subject: Subject) => Judgement][];
      return [entry, types.map(([type, judge]) => ({ type, ...judge(subject) }))];
    }),
  );
}

function judgement(status: ConditionStatus, reason: string, message: string): Judgement {
  return { status, reason, message };
}

/** @returns undefined while the images of the runtime are known */
function away({ observed: { runtime } }: Subject): Judgement | undefined {
  if (runtime.kind === 'reachable') return undefined;
  const { word, what } = runtimeAway(runtime);
  return judgement('Unknown', word, what);
}

function retired({ entry: { bundle } }: Subject, status: ConditionStatus): Judgement | undefined {
  return isRetired(bundle)
    ? judgement(status, 'Retired', `${bundleTitle(bundle.payload)} is retired: it is neither loaded nor pinned`)
    : undefined;
}

function judgeVerified({ entry: { bundle, withdrawn } }: Subject): Judgement {
  if (withdrawn !== undefined) return judgement('False', reasonWord(withdrawn.code), reasonText(withdrawn));
  const reason = bundle.signedBy.length === 0 ? 'ApprovedByDigest' : 'SignedByTrustedKeys';
  return judgement('True', reason, trustedBy(bundle));
}

function judgeSpace(subject: Subject): Judgement {
  const { entry, observed, memory } = subject;
  const early = retired(subject, 'True') ?? away(subject);
  if (early !== undefined) return early;
  if (lackingCount(entry) === 0) {
    const what = entry.bundle.contents.artifacts === undefined ? 'every image is' : 'all images and artifacts are';
    return judgement('True', 'NothingToLoad', `${what} present`);
  }
  const short = spaceHold(entry, memory, observed.now)?.reason;
  if (short !== undefined) return judgement('False', 'NotEnoughSpace', reasonText(short));
  if (entry.disk === undefined) {
    return judgement('Unknown', 'FilesystemUnknown', 'the runtime does not say where it stores images');
  }
  const { neededBytes, freeBytes, reservedBytes, path } = entry.disk;
  const free = `${formatBytes(freeBytes)} free of which ${formatBytes(reservedBytes)} are reserved`;
  return judgement('True', 'EnoughSpace', `about ${formatBytes(neededBytes)} still needed on ${path}, ${free}`);
}

function judgePreloaded(subject: Subject): Judgement {
  const { bundle, absentImages, absentArtifacts, hold, phase, reason } = subject.entry;
  const early = retired(subject, 'False') ?? away(subject);
  if (early !== undefined) return early;
  const total = bundle.contents.images.length;
  const artifacts = bundle.contents.artifacts?.length ?? 0;
  const beside =
    artifacts === 0 ? '' : ` and ${artifacts - absentArtifacts.length} of ${formatCount(artifacts, 'artifact')}`;
  const present = `${total - absentImages.length} of ${formatCount(total, 'image')}${beside} present`;
  if (lackingCount(subject.entry) === 0) return judgement('True', 'AllImagesPresent', present);
  const why =
    hold === undefined ? (phase === 'preloading' ? 'Preloading' : 'ImagesMissing') : reasonWord(`held-${hold}`);
  return judgement('False', why, withReason(present, reason));
}

function judgePinned(subject: Subject): Judgement {
  const { bundle, absentImages, unpinnedImages, reason } = subject.entry;
  const wanted = bundle.contents.images.filter((image) => image.pin).length;
  if (wanted === 0) return judgement('True', 'NothingToPin', 'no image is to be pinned');
  const early = retired(subject, 'False') ?? away(subject);
  if (early !== undefined) return early;
  const lacking = absentImages.filter((image) => image.pin).length + unpinnedImages.length;
  const pinned = `${wanted - lacking} of ${formatCount(wanted, 'image')} reported pinned`;
  if (lacking === 0) return judgement('True', 'AllPinned', pinned);
  if (reason?.code === 'runtime/version') return judgement('False', 'RuntimeVersion', withReason(pinned, reason));
  const isIgnored = reason?.code === 'runtime/pins-ignored';
  if (unpinnedImages.length === 0) return judgement('False', 'ImagesMissing', pinned);
  return judgement('False', isIgnored ? 'PinsIgnored' : 'PinsPending', isIgnored ? withReason(pinned, reason) : pinned);
}

function notRunning(subject: Subject): Judgement | undefined {
  const { entry, isCurrent } = subject;
  const { bundle } = entry;
  // A release that is activated again runs meanwhile.
  const held = isCurrent ? undefined : heldReason(entry);
  if (held !== undefined) return judgement('False', 'ActivationHeld', held.message);
  if (bundle.activatedAt === undefined) return judgement('False', 'NotActivated', 'it was not activated');
  const early = retired(subject, 'False');
  if (early !== undefined) return early;
  if (isRolledBack(bundle)) return judgement('False', 'RolledBack', rolledBackMessage(entry));
  return isCurrent ? undefined : judgement('False', 'OtherReleaseActivated', 'another release was activated after it');
}

function rolledBackMessage({ bundle, reason }: BundleAssessment): string {
  if (reason?.code === 'engine/rolled-back') return reasonText(reason);
  return bundle.rolledBackReason ?? 'it was rolled back';
}

/**
 * Whether containers run from it. A proven release only fails this if an older one runs instead.
 */
function judgeActive(subject: Subject): Judgement {
  const { bundle, phase } = subject.entry;
  const not = notRunning(subject);
  if (not !== undefined) return not;
  if (isProven(bundle)) {
    return judgement('True', 'Proven', `${proofOf(bundle).text}, and no older release was seen to run in its place`);
  }
  const unknown = away(subject);
  if (unknown !== undefined) return unknown;
  return phase === 'active'
    ? judgement('True', 'ContainersRun', 'containers run from the images that distinguish it')
    : judgement('False', 'NoContainers', 'no container runs from the images that distinguish it');
}

/** Whether it is a known good release, of the present activation or as the fallback. */
function judgeProven(subject: Subject): Judgement {
  const { bundle, phase } = subject.entry;
  const { word, text } = proofOf(bundle);
  if (phase === 'proven') return judgement('True', word, text);
  if (phase === 'superseded') return judgement('True', 'Superseded', 'an older proven release, kept as the fallback');
  const not = notRunning(subject);
  if (not !== undefined) return not;
  const soak = subject.life.soaks.get(bundle.bundleId);
  if (soak === undefined || soak.kind === 'none') return judgement('False', 'NoContainers', 'nothing of it runs yet');
  if (soak.kind === 'done') return judgement('False', 'Soaking', 'each component has run for the soak time');
  if (soak.lacking.length > 0)
    return judgement('False', 'ComponentsLacking', `waits for ${soak.lacking.join(', ')} to run`);
  if (soak.failing.length > 0) return judgement('False', 'ComponentsFailing', `${soak.failing.join(', ')} failed`);
  return judgement('False', 'Soaking', `proven in about ${formatDuration(soak.remainingMs ?? 0)}`);
}

const PROOFS = {
  hand: { word: 'ProvenByHand', text: 'a person said that it works' },
  'without-evidence': {
    word: 'WithoutEvidence',
    text: 'no container of it was seen for the time in lifecycle.without_evidence',
  },
  soak: { word: 'SoakDone', text: 'each component has run for the soak time' },
};

function proofOf({ soak }: StoredBundle): { readonly word: string; readonly text: string } {
  return PROOFS[soak?.proof ?? 'soak'];
}

/** Whether it has a fault that waiting alone does not repair. */
function judgeDegraded(subject: Subject): Judgement {
  const { bundle, degraded, reason } = subject.entry;
  if (isRetired(bundle)) return judgement('False', 'Retired', 'it is retired: nothing of it is needed');
  if (degraded?.code === 'engine/image-missing') return judgement('True', 'ImageMissing', reasonText(degraded));
  if (degraded !== undefined) return judgement('True', reasonWord(degraded.code), reasonText(degraded));
  const unknown = away(subject);
  if (unknown !== undefined) return unknown;
  if (reason?.code === 'runtime/version') return judgement('True', 'RuntimeVersion', reasonText(reason));
  if (reason?.code === 'runtime/pins-ignored') return judgement('True', 'PinsIgnored', reasonText(reason));
  const missing = lackingCount(subject.entry);
  if (bundle.readyAt !== undefined && missing > 0) {
    const { images, artifacts = [] } = bundle.contents;
    const all =
      formatCount(images.length, 'image') +
      (artifacts.length > 0 ? ` and ${formatCount(artifacts.length, 'artifact')}` : '');
    const count = `${missing} of ${all} missing`;
    return judgement('True', 'ImageMissing', withReason(count, reason));
  }
  return judgement('False', 'AsExpected', 'nothing is wrong with it');
}

function withReason(text: string, reason: Reason | undefined): string {
  return reason === undefined ? text : `${text}. ${reasonText(reason)}`;
}

export type NodeVerdict = ConditionVerdict<NodeConditionType>;

/** Returns conditions in the order of display. */
export function judgeNodeConditions(snapshot: Snapshot): readonly NodeVerdict[] {
  const verdict = (type: NodeConditionType, judged: Judgement): NodeVerdict => {
    return { type, ...judged, message: withShortDigests(judged.message) };
  };
  return [
    verdict('PullsAnswered', judgePullsAnswered(snapshot)),
    verdict('PullsFromElsewhere', judgePullsFromElsewhere(snapshot)),
  ];
}

const NOTHING_ACTIVATED = judgement('Unknown', 'NothingActivated', 'no release is activated');

/** Whether a forced pull of an image of an activated release succeeds with no medium. */
function judgePullsAnswered({ observed: { runtime }, memory, assessment }: Snapshot): Judgement {
  const bundles = trustedReleases(assessment);
  if (releasesInForce(bundles).length === 0) return NOTHING_ACTIVATED;
  if (runtime.kind !== 'reachable') {
    const { word, what } = runtimeAway(runtime);
    return judgement('Unknown', word, what);
  }
  if (!assessment.pulls.areServed) {
    const text = 'serve.activated or serve.except turns that off for all images of the activated releases';
    return judgement('Unknown', 'ServingIsOff', text);
  }
  const last = memory.pullChecks?.last;
  if (last?.activation === activationKey(bundles)) {
    return judgement(statusOf(last.end), wordOf(last.end), pullCheckText(last));
  }
  const subject = pullToCheck(bundles, runtime);
  switch (subject.kind) {
    case 'image':
      return judgement('Unknown', 'NotTestedYet', `the pull of ${subject.reference} is tested soon`);
    case 'nothing-activated':
      return NOTHING_ACTIVATED;
    case 'nothing-present':
      return judgement('Unknown', 'NothingPresent', 'no image of an activated release is present');
    case 'no-mirrors':
      return judgement(
        'Unknown',
        'NoMirrors',
        'the runtime pulls from the registry of an image itself, except for what stickpin loads',
      );
    case 'no-mirror': {
      const text = `the runtime has no mirror of ours for ${subject.reference}, so that it pulls from the image's own registry`;
      return judgement('False', 'NoMirror', text);
    }
    default:
      return assertNever(subject);
  }
}

function statusOf(end: PullCheckEnd): ConditionStatus {
  if (end.kind === 'answered') return 'True';
  return end.kind === 'runtime-away' || end.kind === 'image-gone' ? 'Unknown' : 'False';
}

function wordOf(end: PullCheckEnd): string {
  if (end.kind !== 'failed') return WORDS[end.kind];
  if (!end.isAsked) return WORDS['not-asked'];
  return end.isSent ? 'PullFailed' : WORDS['not-sent'];
}

const WORDS: Readonly<Record<Exclude<PullCheckEnd['kind'], 'failed'>, string>> = {
  answered: 'PullAnswered',
  'not-asked': 'RegistryNotAsked',
  'not-sent': 'ManifestNotSent',
  'timed-out': 'PullTimedOut',
  'runtime-away': 'RuntimeUnreachable',
  'image-gone': 'ImageGone',
};

/** Whether static pods or containers use images by names that no activated release provides. */
function judgePullsFromElsewhere({ observed: { imageUses }, assessment }: Snapshot): Judgement {
  const trusted = trustedReleases(assessment);
  if (releasesInForce(trusted).length === 0) return NOTHING_ACTIVATED;
  const { elsewhere } = assessment.pulls;
  if (imageUses === undefined || elsewhere === undefined) {
    return judgement('Unknown', 'NotLookedAt', 'which images static pods and containers use is not known yet');
  }
  const faults = imageUses.faults.map(({ message }) => message).join('; ');
  if (elsewhere.length > 0) {
    const text = elsewhereText(elsewhere);
    return judgement('True', 'NamesNotProvided', faults === '' ? text : `${text}. Not known: ${faults}`);
  }
  if (faults !== '' || !imageUses.isComplete) {
    const text = faults === '' ? 'the containers could not be listed' : faults;
    return judgement('Unknown', 'NotAllLookedAt', text);
  }
  return judgement('False', 'AllProvided', 'static pods and containers use only images that releases provide');
}
