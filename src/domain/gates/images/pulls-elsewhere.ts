import { answeredNames } from '../../release/pulls/answered-names.ts';
import { namesOnceActivated } from '../../release/pulls/provided-names.ts';
import { pullsFromElsewhere } from '../../release/pulls/pulls-from-elsewhere.ts';
import { type GateContext, type GateVerdict, type Hold, PASS } from '../gate.ts';

/** `image` and `usedBy`: the first one; `more`: how many other images there are. */
type ElsewhereHold = Hold<
  'engine/pulls-from-elsewhere',
  | { readonly kind: 'found'; readonly image: string; readonly usedBy: string; readonly more: number }
  /** The containers or a folder of manifests can't be listed. */
  | { readonly kind: 'unknown' }
>;

/**
 * Setting `update.pulls_from_elsewhere = "hold"`: a release is not activated while a static pod or
 * a running container asks for an image by a name that no release provides after the activation.
 * Without a network such a pull would fail.
 */
export function pullsElsewhere({
  bundle,
  bundles,
  policy,
  imageUses,
}: Pick<GateContext, 'bundle' | 'bundles' | 'policy' | 'imageUses'>): GateVerdict<ElsewhereHold> {
  if (policy.update.pulls_from_elsewhere !== 'hold') return PASS;
  if (imageUses === undefined) return held({ kind: 'unknown' });
  const names = namesOnceActivated(bundle, bundles);
  const [first, ...others] = pullsFromElsewhere(imageUses.uses, names, answeredNames(policy));
  if (first !== undefined) {
    return held({ kind: 'found', image: first.image, usedBy: first.usedBy, more: others.length });
  }
  return imageUses.isComplete ? PASS : held({ kind: 'unknown' });
}

function held(data: ElsewhereHold['data']): GateVerdict<ElsewhereHold> {
  return { kind: 'hold', hold: { code: 'engine/pulls-from-elsewhere', data, releasedBy: 'event' } };
}
