import { assertNever } from '../../platform/app-error.ts';
import type { LifecycleFinding } from '../release/lifecycle-finding.ts';
import type { Policy } from '../settings/settings.ts';
import type { Effect } from '../state/effect.ts';

/** What follows from a finding about a release after its activation. */
export function lifecycleEffect(
  finding: LifecycleFinding,
  { remove_images: removeImages }: Pick<Policy['lifecycle'], 'remove_images'>,
): Effect {
  const { bundleId } = finding;
  switch (finding.kind) {
    case 'same-images':
      return { kind: 'take-over', bundleId, from: finding.twin, retireFrom: !finding.isTwinProtected };
    case 'clock-changed':
      return { kind: 'record-soak', bundleId, soak: finding.soak };
    case 'runs':
      return { kind: 'record-active', bundleId };
    case 'soaked':
      return { kind: 'record-proven', bundleId };
    case 'unseen-for-long':
      return { kind: 'record-proven', bundleId, soak: finding.soak };
    case 'went-back':
      return { kind: 'record-rolled-back', bundleId, to: finding.to };
    case 'runs-unasked':
      return { kind: 'request-activation', bundleId, components: finding.components };
    case 'spare': {
      const { roomFor } = finding;
      return { kind: 'retire', bundleId, removeImages, ...(roomFor !== undefined && { roomFor }) };
    }
    case 'incomplete':
      return { kind: 'retire', bundleId, removeImages, isIncomplete: true };
    case 'removable': {
      const { images, tags } = finding;
      return { kind: 'remove-images', bundleId, images, ...(tags !== undefined && { tags }) };
    }
    default:
      return assertNever(finding);
  }
}
