import { assertNever } from '../../../platform/app-error.ts';
import { bundleName, bundleTitle } from '../../model/bundle.ts';
import { shortDigest } from '../../model/digest.ts';
import type { AdoptionReason, BundleLabel, Reason, ReleaseReason, TrustReason } from '../../model/reason.ts';
import { imageText, mediaText, runtimeText } from './media-text.ts';

/** A reason as people and programs get it. `message`: a full sentence, mostly without full stop. */
export interface ShownReason {
  readonly code: string;
  readonly message: string;
}

/** Reasons of adapters have a sentence of their own. */
export function reasonText(reason: Reason): string {
  if ('message' in reason) return reason.message;
  switch (reason.code) {
    case 'bundle/arch':
    case 'bundle/sequence':
    case 'bundle/version':
    case 'bundle/base':
    case 'bundle/expired':
    case 'bundle/from-the-future':
      return adoptionText(reason);
    case 'trust/approval':
    case 'trust/rejected':
    case 'trust/blind':
    case 'trust/threshold':
    case 'trust/key-revoked':
    case 'trust/role':
      return trustText(reason);
    case 'engine/no-base':
    case 'engine/cancelled':
    case 'engine/offline':
    case 'bundle/blob-missing':
    case 'engine/needs-copy':
    case 'engine/no-source':
    case 'media/looking':
    case 'media/reading':
    case 'media/peer-waited-for':
      return mediaText(reason);
    case 'engine/image-missing':
    case 'engine/image-damaged':
    case 'engine/documents-missing':
    case 'runtime/pins-pending':
    case 'runtime/pins-ignored':
      return imageText(reason);
    case 'engine/no-space':
    case 'runtime/policy':
    case 'runtime/version':
      return runtimeText(reason);
    case 'engine/tag-contested':
    case 'engine/rolled-back':
      return releaseText(reason);
    default:
      return assertNever(reason);
  }
}

export function shownReason(reason: Reason): ShownReason {
  return { code: reason.code, message: reasonText(reason) };
}

function adoptionText(reason: AdoptionReason): string {
  switch (reason.code) {
    case 'bundle/arch': {
      const { bundle, bundleArch, nodeArch } = reason.data;
      return `${bundleName(bundle)} is made for ${bundleArch}, this node is ${nodeArch}; bring the bundle made for ${nodeArch}`;
    }
    case 'bundle/sequence':
      return sequenceText(reason.data);
    case 'bundle/version': {
      const { bundle, scheme } = reason.data;
      const form = scheme === 'semver' ? 'SemVer without a suffix -rev<N>' : '<app>[-rev<N>[-b<build>]]';
      return `${bundleName(bundle)} does not fit its stream: versions of ${bundle.name} are ${form} on this node, since its first release was; make the bundle with such a version`;
    }
    case 'bundle/base': {
      const { bundle, base } = reason.data;
      return `${bundleName(bundle)} builds on ${bundleName(base)}, a bundle of another stream; make it again with a base of stream ${bundle.name}, or without one`;
    }
    case 'bundle/expired':
      return `${bundleName(reason.data.bundle)} expired on ${reason.data.expires}; bring a newer one`;
    case 'bundle/from-the-future': {
      const { bundle, created } = reason.data;
      return `${bundleName(bundle)} says it was made on ${created}, more than a day ahead of this node's synchronised clock; check the clock of the machine that made it`;
    }
    default:
      return assertNever(reason);
  }
}

function sequenceText(data: Extract<AdoptionReason, { code: 'bundle/sequence' }>['data']): string {
  switch (data.kind) {
    case 'below-floor': {
      const { bundle, sequence, floor } = data;
      return `${bundleName(bundle)} is older than the release activated here: its sequence is ${sequence}, and ${floor} was activated. Bring a newer bundle, or run 'stickpin trust reset ${bundle.name}' and plug it in again`;
    }
    case 'step': {
      const { bundle, sequence, highest, step } = data;
      return `${bundleName(bundle)} has sequence ${sequence}, more than ${step} (trust.max_sequence_step) above ${highest}, where ${bundle.name} was when it was plugged in. Plug it in again once a release in between is activated. If it is meant, run 'stickpin trust reset ${bundle.name}' and plug it in again`;
    }
    case 'same': {
      const { bundle, bundleId, sequence, known, knownId } = data;
      return `${bundleName(bundle)} (${shortDigest(bundleId)}) has the same sequence ${sequence} as ${bundleName(known)} (${shortDigest(knownId)}), which is known here; make it again with a higher --sequence`;
    }
    default:
      return assertNever(data);
  }
}

function trustText(reason: TrustReason): string {
  switch (reason.code) {
    case 'trust/approval':
      return approvalText(reason.data);
    case 'trust/rejected':
      return rejectedText(reason.data);
    case 'trust/blind': {
      const { bundle, cause } = reason.data;
      return `${bundleTitle(bundle)} is not trusted while revocations can't be read, since its key may be revoked: ${cause ?? "see 'stickpin doctor'"}`;
    }
    case 'trust/threshold': {
      const { bundle, signedBy, threshold } = reason.data;
      return `${bundleTitle(bundle)} was signed by ${signers(signedBy)}, and ${threshold} distinct trusted keys are required now; ${SIGN_AGAIN}`;
    }
    case 'trust/key-revoked': {
      const { bundle, signedBy, keyIds } = reason.data;
      const ids = keyIds.map((keyId) => `${keyId.slice(0, 12)}…`).join(', ');
      return `${bundleTitle(bundle)} is not trusted any more: it was signed by ${signers(signedBy)}, and key ${ids} is revoked. ${NOT_LOADED}; ${SIGN_AGAIN}`;
    }
    case 'trust/role': {
      const { bundle, signedBy, role, why } = reason.data;
      return `${bundleTitle(bundle)} is not trusted any more: it was signed by ${signers(signedBy)}, and ${lostRoleText(role, why)}. ${NOT_LOADED}; ${ROLE_AGAIN}`;
    }
    default:
      return assertNever(reason);
  }
}

function lostRoleText(role: string, why: Extract<TrustReason, { code: 'trust/role' }>['data']['why']): string {
  switch (why.kind) {
    case 'no-role':
      return `role ${role} is not in force: its file in keys.d is gone or has a fault, see 'stickpin doctor'`;
    case 'threshold':
      return `role ${role} asks for ${why.threshold} of its keys now, not ${why.left}`;
    case 'stream':
      return `role ${role} may not sign for stream ${why.stream} any more`;
    case 'repository':
      return `role ${role} may not sign stream ${why.stream} for repository ${why.repository} any more`;
    default:
      return assertNever(why);
  }
}

const NOT_LOADED = 'Nothing more of it is loaded, and it is not activated';
const ROLE_AGAIN =
  'its pins stay. Put the role right; or, if another role has its keys now, plug in its stick again; or bring it signed again by a key that is still trusted, or a newer release';
const SIGN_AGAIN = 'its pins stay. Bring it signed again by a key that is still trusted, or a newer release';

function approvalText(data: Extract<TrustReason, { code: 'trust/approval' }>['data']): string {
  const next = `compare its digest with what its maker says, then 'stickpin approve ${data.bundleId}'`;
  switch (data.kind) {
    case 'found':
      return `${bundleTitle(data.bundle)} on ${data.medium}, signed by ${signers(data.signedBy)}, waits for approval: ${next}`;
    case 'found-unsigned':
      return `A bundle on ${data.medium} that no trusted key signed, waits for approval: ${next}`;
    case 'adopted':
      return `${bundleTitle(data.bundle)} waits for approval: ${next}`;
    default:
      return assertNever(data);
  }
}

function rejectedText(data: Extract<TrustReason, { code: 'trust/rejected' }>['data']): string {
  const next = `'stickpin approve ${data.bundleId}' takes that back`;
  const why = data.why === undefined ? '' : ` (${data.why})`;
  switch (data.kind) {
    case 'found': {
      const what = data.bundle === undefined ? 'it' : bundleName(data.bundle);
      return `${what} (${shortDigest(data.bundleId)}) was rejected on this node${why}; ${next}`;
    }
    case 'adopted':
      return `${bundleTitle(data.bundle)} was rejected on this node after it was adopted${why}. ${NOT_LOADED}; its pins stay. ${next}`;
    default:
      return assertNever(data);
  }
}

/** `why`: in the words of the person. */
export function rejectedNameText(release: BundleLabel, why: string | undefined): string {
  const said = why === undefined ? '' : ` (${why})`;
  return `${bundleName(release)} was rejected on this node${said}, also for sticks that come later; 'stickpin approve ${bundleName(release)}' takes that back`;
}

function signers(names: readonly string[]): string {
  return names.join(', ') || 'nobody trusted';
}

function releaseText(reason: ReleaseReason): string {
  switch (reason.code) {
    case 'engine/tag-contested': {
      const { bundle, tag, reference, names, times } = reason.data;
      return `${tag} of ${bundleTitle(bundle)} was taken away again after it was given back ${times} times within an hour, so it is left alone: it names ${names ?? 'no image'} now and should name ${reference}. Find out what moves it; 'stickpin activate ${bundleName(bundle)}' gives it again`;
    }
    case 'engine/rolled-back':
      return reason.data.open === undefined ? reason.data.recorded : goingBackText(reason.data.open);
    default:
      return assertNever(reason);
  }
}

function goingBackText({ from, to }: { readonly from: BundleLabel; readonly to: BundleLabel }): string {
  const title = bundleTitle(from);
  return `${title} is being rolled back to ${bundleTitle(to)}, which is not activated yet. ${title} is not activated again automatically; 'stickpin activate ${bundleName(from)}' tries it once more`;
}
