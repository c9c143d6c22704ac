import { assertNever } from '../../../platform/app-error.ts';
import { bundleName } from '../../model/bundle.ts';
import { shortDigest } from '../../model/digest.ts';
import type { AdoptionReason } from '../../model/reason.ts';

/** Why a bundle is not adopted, and what to bring instead. */
export function adoptionText(reason: AdoptionReason): string {
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
