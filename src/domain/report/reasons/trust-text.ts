import { assertNever } from '../../../platform/app-error.ts';
import { bundleName, bundleTitle } from '../../model/bundle.ts';
import { shortDigest } from '../../model/digest.ts';
import type { BundleLabel, TrustReason } from '../../model/reason.ts';

/** Why a bundle is not trusted, or not yet, and what to do. */
export function trustText(reason: TrustReason): string {
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

/**
 * That a release was rejected by its name, ahead of its stick. `why`: in the words of the person.
 */
export function rejectedNameText(release: BundleLabel, why: string | undefined): string {
  const said = why === undefined ? '' : ` (${why})`;
  return `${bundleName(release)} was rejected on this node${said}, also for sticks that come later; 'stickpin approve ${bundleName(release)}' takes that back`;
}

function signers(names: readonly string[]): string {
  return names.join(', ') || 'nobody trusted';
}
