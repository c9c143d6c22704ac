import { assertNever } from '../../platform/app-error.ts';
import { trustedReleases } from '../assess/assess-order.ts';
import type { ConditionStatus, ConditionVerdict, NodeConditionType } from '../model/condition.ts';
import { activationKey, pullToCheck, releasesInForce } from '../release/pulls.ts';
import type { PullCheckEnd } from '../state/checks.ts';
import { type Judgement, judgement } from './judge-conditions.ts';
import type { Snapshot } from './snapshot.ts';
import { elsewhereText, pullCheckText } from './texts/release-text.ts';
import { runtimeAway } from './texts/runtime-away.ts';

export type NodeVerdict = ConditionVerdict<NodeConditionType>;

/** In the order in which they are shown. */
export function judgeNodeConditions(snapshot: Snapshot): readonly NodeVerdict[] {
  return [
    { type: 'PullsAnswered', ...judgePullsAnswered(snapshot) },
    { type: 'PullsFromElsewhere', ...judgePullsFromElsewhere(snapshot) },
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
    case 'no-mirror': {
      const text = `the runtime has no mirror of ours for ${subject.reference}, so that it asks the image's own registry`;
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
    return judgement('Unknown', 'NotLookedAt', 'which images static pods and containers ask for was not looked at yet');
  }
  const faults = imageUses.faults.map(({ message }) => message).join('; ');
  if (elsewhere.length > 0) {
    const text = elsewhereText(elsewhere);
    return judgement('True', 'NamesNotProvided', faults === '' ? text : `${text}. Not looked at: ${faults}`);
  }
  if (faults !== '' || !imageUses.isComplete) {
    const text = faults === '' ? 'the containers could not be listed' : faults;
    return judgement('Unknown', 'NotAllLookedAt', text);
  }
  return judgement('False', 'AllProvided', 'static pods and containers ask only for images that releases provide');
}
