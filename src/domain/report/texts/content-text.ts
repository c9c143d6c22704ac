import { assertNever } from '../../../platform/app-error.ts';
import { formatBytes } from '../../../platform/sizes.ts';
import { shortDigest } from '../../model/digest.ts';
import type { ContentFault, DamageOutcome } from '../../model/reason.ts';
import type { CheckCause, RunningCheck } from '../../state/checks.ts';

/** What is wrong with an image: a clause about it. */
export function contentFaultText(fault: ContentFault): string {
  switch (fault.kind) {
    case 'blob':
      return `${shortDigest(fault.digest)} is ${WHY[fault.why]}`;
    case 'document-absent':
      return `its manifest or config ${shortDigest(fault.digest)} is gone`;
    case 'layer-absent':
      return `its layer ${shortDigest(fault.digest)} is neither unpacked nor there as a blob`;
    case 'records':
      return fault.what;
    default:
      return assertNever(fault);
  }
}

const WHY = {
  lost: 'gone, though the runtime has a record of it',
  truncated: 'truncated',
  altered: 'altered',
  unreadable: 'unreadable',
} as const;

/**
 * What becomes of a damaged image and what to do: a sentence. `title`: of a release that has it.
 * `base`: what has the layers of the image that this release left out.
 */
export function damageNextText(next: DamageOutcome, title: string, base?: string): string {
  switch (next) {
    case 'heal':
      return 'It is removed and pulled again.';
    case 'plug-in':
      return `It stays until its blobs are at hand: plug in the stick of ${title}${base === undefined ? '' : `, and that of its base ${base}`}.`;
    case 'cancelled':
      return `It stays, since the preload of ${title} was cancelled: run 'stickpin rescan'.`;
    case 'in-use':
      return 'It stays while a container uses it: stop its pod, and it is removed and pulled again.';
    case 'shared':
      return "It can't be repaired yet: another damaged image, still in use, shares its data.";
    case 'look':
      return 'It stays until the containers of the node are known.';
    case 'give-up':
      return "It was pulled again twice and is damaged still: check the disk, then run 'stickpin verify-images'.";
    default:
      return assertNever(next);
  }
}

/** The STATUS line while images are checked. */
export function checkLine({ cause, done, total, readBytes }: RunningCheck): string {
  const read = readBytes === 0 ? '' : `, ${formatBytes(readBytes)} read`;
  return `Checking the content of images${CAUSE[cause]}: ${done}/${total}${read}`;
}

const CAUSE: Readonly<Record<CheckCause, string>> = {
  'unclean-boot': ', since the node was not shut down before it was booted',
  request: '',
  again: ' again',
};
