import { type GateContext, type GateVerdict, type Hold, PASS } from '../gate.ts';

/**
 * One release is activated at a time: while the tags of another one are being moved, this one
 * waits. `bundleId`: the other one.
 */
export function tagsInMotion({
  bundle,
  running,
}: Pick<GateContext, 'bundle' | 'running'>): GateVerdict<Hold<'engine/tags-in-motion', { readonly bundleId: string }>> {
  const other = running.find((task) => task.kind === 'activate' && task.bundleId !== bundle.bundleId);
  if (other === undefined) return PASS;
  const data = { bundleId: other.bundleId };
  return { kind: 'hold', hold: { code: 'engine/tags-in-motion', data, releasedBy: 'event', keepsDue: true } };
}
