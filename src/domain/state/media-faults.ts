import type { Medium, MediumId } from '../model/medium.ts';

/**
 * Why each medium could not be read when it was tried last, carried over from round to round: until
 * it is read, unmounted or removed. So a try that fails for the same reason is no news. Nothing is
 * known after a restart.
 */
export type MediaFaults = ReadonlyMap<MediumId, string>;

/** What is known after a round that saw `media`. */
export function mediaFaultsIn(media: readonly Medium[], before: MediaFaults): MediaFaults {
  const known = media.flatMap(({ mediumId, state }) => {
    if (state.kind === 'failed') return [[mediumId, state.reason.message] as const];
    const last = before.get(mediumId);
    const isTried = state.kind === 'attached' || state.kind === 'mounted';
    return isTried && last !== undefined ? [[mediumId, last] as const] : [];
  });
  return new Map(known);
}
