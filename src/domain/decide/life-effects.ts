import { assertNever } from '../../platform/app-error.ts';
import type { LifeVerdict } from '../release/life-verdict.ts';
import type { Policy } from '../settings/settings.ts';
import type { Effect } from '../state/effect.ts';

/** What follows from a verdict about a release after its activation. */
export function lifeEffect(
  verdict: LifeVerdict,
  { remove_images: removeImages }: Pick<Policy['lifecycle'], 'remove_images'>,
): Effect {
  const { bundleId } = verdict;
  switch (verdict.kind) {
    case 'same-images':
      return { kind: 'take-over', bundleId, from: verdict.twin, retireFrom: !verdict.isTwinProtected };
    case 'clock-changed':
      return { kind: 'record-soak', bundleId, soak: verdict.soak };
    case 'runs':
      return { kind: 'record-active', bundleId };
    case 'soaked':
      return { kind: 'record-proven', bundleId };
    case 'unseen-for-long':
      return { kind: 'record-proven', bundleId, soak: verdict.soak };
    case 'went-back':
      return { kind: 'record-rolled-back', bundleId, to: verdict.to };
    case 'runs-unasked':
      return { kind: 'request-activation', bundleId, components: verdict.components };
    case 'spare': {
      const { roomFor } = verdict;
      return { kind: 'retire', bundleId, removeImages, ...(roomFor !== undefined && { roomFor }) };
    }
    case 'incomplete':
      return { kind: 'retire', bundleId, removeImages, isIncomplete: true };
    case 'removable':
      return { kind: 'remove-images', bundleId, images: verdict.images };
    default:
      return assertNever(verdict);
  }
}
