import { assertNever } from '../../../platform/app-error.ts';
import { bundleName } from '../../model/bundle.ts';
import { shortDigest } from '../../model/digest.ts';
import type { AdoptionReason, ReleaseReason, TrustReason } from '../../model/reason.ts';
import type { Entries } from '../entries.ts';
import { activateCommand, type Names } from '../names.ts';

const SIGN_AGAIN = () => 'bring it signed again by a trusted key, or bring a newer release';
const BRING = 'Bring it signed again by a trusted key, or bring a newer release';
const NOT_LOADED = 'Nothing more of it is loaded, it is not activated, and its pins stay';
const NOBODY = 'nobody trusted';
const APPROVES = 'An administrator approves it';

/** Reasons why a bundle is not adopted or not trusted. */
export const REFUSAL_REASONS: Entries<AdoptionReason | TrustReason> = {
  'bundle/arch': {
    short: 'B-01',
    means: 'The bundle is made for another kind of machine',

    does: 'plug-in-other',
    says: ({ bundle, bundleArch, nodeArch }, { title }) => ({
      what: `${title(bundle)} is made for ${bundleArch}, and this node is ${nodeArch}`,
      next: `Bring the bundle made for ${nodeArch}`,
    }),
    remedy: () => 'bring the bundle that is made for this kind of machine',
    isFinal: true,
  },
  'bundle/sequence': {
    short: 'B-02',
    means: 'The bundle is not newer than what the node has had',

    says: (data, { title }) => {
      const { bundle, sequence } = data;
      const reset = `If this bundle is meant, run 'stickpin trust reset ${bundle.name}' and plug it in again`;
      switch (data.kind) {
        case 'below-floor':
          return {
            does: 'plug-in-other',
            what: `${title(bundle)} is older than the release activated on this node`,
            details: [`Its sequence is ${sequence}, and ${data.floor} was activated`],
            next: 'Bring a newer bundle',
            run: reset,
          };
        case 'step':
          return {
            what: `${title(bundle)} has sequence ${sequence}, more than ${data.step} (trust.max_sequence_step) above ${data.highest}`,
            details: [
              `${data.highest} was the highest one of ${bundle.name} when it was plugged in`,
              'Plug it in again once a release in between is activated',
            ],
            run: reset,
          };
        case 'same':
          return {
            what: `${title(bundle)} has the same sequence ${sequence} as ${title(data.known)}`,
            details: [`Their digests are ${shortDigest(data.bundleId)} and ${shortDigest(data.knownId)}`],
            next: 'Make it again with a higher --sequence',
          };
        default:
          return assertNever(data);
      }
    },
    remedy: () =>
      "bring a bundle with a higher sequence, or run 'stickpin trust reset' for its stream and plug it in again",
    isFinal: true,
  },
  'bundle/version': {
    short: 'B-03',
    means: 'The version has another form than those of its stream',

    says: ({ bundle, scheme }, { title }) => ({
      what: `${title(bundle)} does not fit the versions of its stream`,
      details: [`All versions of ${bundle.name} have the form of its first release on this node`],
      next: `Make it again with a ${scheme === 'semver' ? 'SemVer version without -rev<N>' : 'version of the form <app>[-rev<N>[-b<build>]]'}`,
    }),
    remedy: () => 'make the bundle again with a version of the form that the message names',
    isFinal: true,
  },
  'bundle/base': {
    short: 'B-04',
    means: 'The bundle builds on a bundle of another stream',

    says: ({ bundle, base }, { title, name }) => ({
      what: `${title(bundle)} builds on ${title(base)}, a bundle of another stream`,
      next: `Make it again with a base of stream ${name(bundle.name)}, or without one`,
    }),
    remedy: () => 'make the bundle again with a base of its own stream, or without one',
  },
  'bundle/expired': {
    short: 'B-05',
    means: 'The bundle has expired',

    does: 'plug-in-other',
    says: ({ bundle, expires }, { title }) => ({
      what: `${title(bundle)} expired on ${expires}`,
      next: 'Bring a newer one',
    }),
    remedy: () => 'bring a newer bundle',
    isFinal: true,
  },
  'bundle/from-the-future': {
    short: 'B-06',
    means: 'The bundle says that it was made tomorrow or later',

    says: ({ bundle, created }, { title }) => ({
      what: `${title(bundle)} says it was made on ${created}`,
      details: ["That is more than a day ahead of this node's synchronised clock"],
      next: 'Check the clock of the machine that made it',
    }),
    remedy: () => 'set the clock of the machine that made the bundle, and make it again',
  },
  'trust/approval': {
    short: 'K-15',
    means: 'A person must approve the bundle',
    event: 'approvalAwaited',

    does: 'wait',
    isForAdmin: true,
    says: (data, { title, medium, list }) => {
      const compare = `Compare its digest ${data.bundleId}, then`;
      switch (data.kind) {
        case 'found':
          return {
            what: `${title(data.bundle)} waits for approval`,
            next: APPROVES,
            details: [`It is on ${medium(data.medium)}, signed by ${list(data.signedBy, NOBODY)}`],
            run: `${compare} 'stickpin approve ${bundleName(data.bundle)}'`,
          };
        case 'found-unsigned':
          return {
            what: `A bundle on ${medium(data.medium)} waits for approval`,
            next: APPROVES,
            details: ['No trusted key signed it', `Its digest is ${data.bundleId}`],
            run: "Compare its digest, then run 'stickpin approve' with it",
          };
        case 'adopted':
          return {
            what: `${title(data.bundle)} waits for approval`,
            next: APPROVES,
            run: `${compare} 'stickpin approve ${bundleName(data.bundle)}'`,
          };
        default:
          return assertNever(data);
      }
    },
    remedy: () => "compare its digest with what its maker says, then run 'stickpin approve' with the digest",
  },
  'trust/rejected': {
    short: 'K-16',
    means: 'A person rejected the bundle on this node',
    event: 'trustWithdrawn',

    does: 'decided',
    says: ({ kind, bundle, bundleId, why }, { title }) => ({
      what: `${bundle === undefined ? `Bundle ${bundleId}` : title(bundle)} was rejected on this node`,
      details: [...(why === undefined ? [] : [`Reason: ${why}`]), ...(kind === 'adopted' ? [NOT_LOADED] : [])],
      run: `'stickpin approve${bundle === undefined ? "' with its digest" : ` ${bundleName(bundle)}'`} takes that back`,
    }),
    remedy: () => "remove its stick, or run 'stickpin approve' with its digest to accept it again",
  },
  'trust/blind': {
    short: 'K-17',
    means: 'The key of the release may be revoked, which can not be read',
    event: 'trustWithdrawn',

    says: ({ bundle, cause }, { title }) => ({
      what: `${title(bundle)} is not trusted while revocations can't be read: its key may be revoked`,
      details: cause === undefined ? [] : [`Cause: ${cause}`],
      run: "See 'stickpin doctor'",
    }),
    remedy: () => 'correct the file of revoked keys that the message names',
  },
  'trust/threshold': {
    short: 'K-18',
    means: 'More trusted keys are needed now than signed the release',
    event: 'trustWithdrawn',

    says: ({ bundle, signedBy, threshold }, { title, list }) => ({
      what: `${title(bundle)} needs ${threshold} distinct trusted keys now`,
      details: [`It was signed by ${list(signedBy, NOBODY)}`, 'Its pins stay'],
      next: 'Bring it signed again by more trusted keys, or bring a newer release',
    }),
    remedy: () => "bring it signed again by more trusted keys ('stickpin bundle sign'), or bring a newer release",
  },
  'trust/role': {
    short: 'K-19',
    means: 'The role that signed the release may not do so any more',
    event: 'trustWithdrawn',

    says: ({ bundle, signedBy, role, why }, { title, name, list }) => ({
      what: `${title(bundle)} is not trusted any more: role ${name(role)} ${lostRole(why, name)}`,
      details: [
        ...(why.kind === 'no-role' ? ["Its file in keys.d is gone or has a fault: see 'stickpin doctor'"] : []),
        `It was signed by ${list(signedBy, NOBODY)}`,
        NOT_LOADED,
      ],
      next: `Correct the role, or ${SIGN_AGAIN()}`,
      also: ['If another role has its keys now, plug in its stick again'],
    }),
    remedy: () => `correct the role, or ${SIGN_AGAIN()}; if another role has its keys now, plug in its stick again`,
  },
  'trust/key-revoked': {
    short: 'K-20',
    means: 'The key that signed the release was revoked',
    event: 'trustWithdrawn',

    says: ({ bundle, signedBy, keyIds }, { title, list }) => {
      const ids = keyIds.map((keyId) => `${keyId.slice(0, 12)}…`);
      const keys = ids.length === 1 ? `key ${ids[0]} is` : `keys ${list(ids, 'of it')} are`;
      return {
        what: `${title(bundle)} is not trusted any more: ${keys} revoked`,
        details: [`It was signed by ${list(signedBy, NOBODY)}`, NOT_LOADED],
        next: BRING,
      };
    },
    remedy: SIGN_AGAIN,
  },
};

/** Reasons about the fate of a release. */
export const RELEASE_REASONS: Entries<ReleaseReason> = {
  'engine/tag-contested': {
    short: 'R-19',
    means: 'Something takes a tag of the release away again and again',

    says: ({ bundle, tag, reference, names, times }, { title }) => ({
      what: `A tag of ${title(bundle)} was taken away again ${times} times within an hour, so it is left alone`,
      details: [`It is ${tag}: it names ${names ?? 'no image'} now and should name ${reference}`],
      next: 'Find out what moves it',
      run: `${activateCommand(bundle)} restores it`,
    }),
    remedy: (release) => `find out what moves the tag, then run 'stickpin activate ${release}'`,
  },
  'engine/rolled-back': {
    short: 'A-20',
    means: 'The release was rolled back',
    event: 'reported-elsewhere',

    says: ({ bundle, recorded, isByHand, to }, { title }) => ({
      ...(isByHand && { does: to === undefined ? 'decided' : 'wait' }),
      what:
        to === undefined
          ? recorded
          : `${title(bundle)} is being rolled back to ${title(to)}, which is not activated yet`,
      next: `${to === undefined ? 'It' : title(bundle)} is not activated again automatically`,
      run: `${activateCommand(bundle)} tries it once more`,
    }),
    remedy: (release) =>
      `see 'stickpin history ${release}' for the cause; then plug in a newer release, or run 'stickpin activate ${release}'`,
    isOwn: true,
  },
};

type RoleLoss = Extract<TrustReason, { code: 'trust/role' }>['data']['why'];

function lostRole(why: RoleLoss, name: Names['name']): string {
  switch (why.kind) {
    case 'no-role':
      return 'is not in force';
    case 'threshold':
      return `needs ${why.threshold} of its keys now, not ${why.left}`;
    case 'stream':
      return `may not sign for stream ${name(why.stream)} any more`;
    case 'repository':
      return `may not sign stream ${name(why.stream)} for repository ${name(why.repository)} any more`;
    default:
      return assertNever(why);
  }
}
