import { assertNever } from '../../../platform/app-error.ts';
import { oneLine, sentence } from '../../../platform/plain-text.ts';
import { shortDigest } from '../../model/digest.ts';
import type { AdoptionReason, TrustReason } from '../../model/reason.ts';
import { briefName, briefNames, briefTitle } from './brief-name.ts';
import { SEE_LIST, sentencesOf } from './fitted.ts';

/** As `briefReason`, for a bundle that is not adopted or not trusted. */
export function briefRefusal(reason: AdoptionReason | TrustReason): readonly string[] {
  switch (reason.code) {
    case 'bundle/arch': {
      const { bundle, bundleArch, nodeArch } = reason.data;
      return [`${briefTitle(bundle)} is made for ${bundleArch}.`, `Bring the bundle made for ${nodeArch}.`];
    }
    case 'bundle/sequence':
      return briefSequence(reason.data);
    case 'bundle/version':
      return [`${briefTitle(reason.data.bundle)} does not fit the versions of its stream.`, SEE_LIST];
    case 'bundle/base': {
      const { bundle, base } = reason.data;
      const next = `Make it again with a base of stream ${briefName(bundle.name)}, or without one.`;
      return [`${briefTitle(bundle)} builds on a bundle of another stream.`, next, `That is ${briefTitle(base)}.`];
    }
    case 'bundle/expired':
      return [`${briefTitle(reason.data.bundle)} expired on ${reason.data.expires}.`, 'Bring a newer one.'];
    case 'bundle/from-the-future': {
      const { bundle, created } = reason.data;
      const next = 'Check the clock of the machine that made it.';
      return [`${briefTitle(bundle)} was made in the future.`, next, `It says it was made on ${created}.`];
    }
    default:
      return briefTrust(reason);
  }
}

function briefSequence(data: Extract<AdoptionReason, { code: 'bundle/sequence' }>['data']): readonly string[] {
  const title = briefTitle(data.bundle);
  switch (data.kind) {
    case 'below-floor':
      return [
        `${title} is older than the release activated here.`,
        `Bring a newer bundle, or run 'stickpin trust reset ${data.bundle.name}' and plug it in again.`,
        `Its sequence is ${data.sequence}, that of the other one ${data.floor}.`,
        SEE_LIST,
      ];
    case 'step': {
      const stream = data.bundle.name;
      const next = `If it is meant, run 'stickpin trust reset ${stream}' and plug it in again.`;
      const what = `${title}: sequence ${data.sequence} is more than ${data.step} above ${data.highest}.`;
      return [what, next, SEE_LIST];
    }
    case 'same':
      return [
        `${title} has the same sequence ${data.sequence} as ${briefTitle(data.known)}.`,
        'Make it again with a higher --sequence.',
        `Their digests: ${shortDigest(data.bundleId)} and ${shortDigest(data.knownId)}.`,
      ];
    default:
      return assertNever(data);
  }
}

function briefTrust(reason: TrustReason): readonly string[] {
  switch (reason.code) {
    case 'trust/approval':
      return briefApproval(reason.data);
    case 'trust/rejected': {
      const { bundle, bundleId, why } = reason.data;
      const title = bundle === undefined ? `Bundle ${shortDigest(bundleId)}` : briefTitle(bundle);
      const next = `'stickpin approve ${bundleId}' takes that back.`;
      return [
        `${title} was rejected on this node.`,
        next,
        why === undefined ? '' : sentence(`Reason: ${oneLine(why)}`),
      ];
    }
    case 'trust/blind': {
      const { bundle, cause = "see 'stickpin doctor'" } = reason.data;
      const why = sentencesOf(sentence(`Cause: ${oneLine(cause)}`));
      return [
        `${briefTitle(bundle)} is not trusted while revocations can't be read.`,
        "See 'stickpin doctor'.",
        ...why,
      ];
    }
    case 'trust/threshold': {
      const { bundle, signedBy, threshold } = reason.data;
      const what = `${briefTitle(bundle)} needs ${threshold} distinct keys now.`;
      return [what, BRING, `It was signed by ${briefNames(signedBy, NOBODY)}.`, STAYS];
    }
    case 'trust/key-revoked':
      return [`${briefTitle(reason.data.bundle)} is not trusted any more: its key is revoked.`, BRING, STAYS, SEE_LIST];
    case 'trust/role': {
      const { bundle, role } = reason.data;
      const what = `${briefTitle(bundle)} is not trusted any more.`;
      return [what, `Role ${briefName(role)} does not count for it now: see 'stickpin list'.`, BRING, STAYS];
    }
    default:
      return assertNever(reason);
  }
}

const NOBODY = 'nobody trusted';
const BRING = 'Bring it signed again by a trusted key, or a newer release.';
const STAYS = 'Its pins stay.';

function briefApproval(data: Extract<TrustReason, { code: 'trust/approval' }>['data']): readonly string[] {
  const next = `Compare its digest, then 'stickpin approve ${data.bundleId}'.`;
  switch (data.kind) {
    case 'found':
      return [
        `${briefTitle(data.bundle)} waits for approval.`,
        next,
        `It is on ${briefName(data.medium)}.`,
        `It was signed by ${briefNames(data.signedBy, NOBODY)}.`,
      ];
    case 'found-unsigned':
      return [`A bundle on ${briefName(data.medium)} waits for approval.`, next, 'No trusted key signed it.'];
    case 'adopted':
      return [`${briefTitle(data.bundle)} waits for approval.`, next];
    default:
      return assertNever(data);
  }
}
