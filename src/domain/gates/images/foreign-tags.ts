import { commandName } from '../../release/recorded-phase.ts';
import { type GateContext, type GateVerdict, type Hold, PASS } from '../gate.ts';

type ForeignTagHold = Hold<
  'engine/tag-of-other-stream',
  { readonly tag: string; readonly stream: string; readonly other: string; readonly holder: string }
>;

/**
 * A release never takes a tag that a release of another stream holds for another image. Nobody can
 * confirm that: the other release has to be given up first. `other`: its stream; `holder`: the
 * release, as `ocp@4.13.7`.
 */
export function foreignTags({
  bundle,
  bundles,
  foreignTag,
}: Pick<GateContext, 'bundle' | 'bundles' | 'foreignTag'>): GateVerdict<ForeignTagHold> {
  if (foreignTag === undefined) return PASS;
  const { tag, holder } = foreignTag;
  const data = { tag, stream: bundle.payload.name, other: holder.payload.name, holder: commandName(holder, bundles) };
  return { kind: 'hold', hold: { code: 'engine/tag-of-other-stream', data, releasedBy: 'person' } };
}
