import type { PathRelease } from '../path/stream-path.ts';
import type { StoredBundle } from '../state/state.ts';
import { type GateVerdict, type Hold, PASS } from './gate.ts';

/**
 * Of several releases to which the node may go, the highest is activated: a lower one waits while
 * that one is loaded, and is passed over once it is activated. `next`: its version.
 *
 * @param next the release of the stream that is activated next; undefined when there is none.
 */
export function order(
  bundle: StoredBundle,
  next: PathRelease | undefined,
): GateVerdict<Hold<'engine/not-next', { readonly next: string }>> {
  if (next === undefined || next.id === bundle.bundleId) return PASS;
  return { kind: 'hold', hold: { code: 'engine/not-next', data: { next: next.version }, releasedBy: 'event' } };
}
