import type { Phase } from '../model/phase.ts';
import type { ReleaseStatus } from './node-status.ts';

/** Phases that a release reaches with all of its images. */
const LOADED: ReadonlySet<Phase> = new Set(['ready', 'activated', 'active', 'proven', 'superseded']);

/**
 * Whether a node has all images of a release, and they are pinned. Not `retired`: a release that
 * never became complete is retired too.
 */
export function isLoaded({ phase, incomplete }: Pick<ReleaseStatus, 'phase' | 'incomplete'>): boolean {
  return LOADED.has(phase) && incomplete !== true;
}
