import type { Phase } from '../../model/phase.ts';

/** What each phase means. The table in docs/architecture.md is made from it. */
export const PHASE_MEANINGS: Readonly<Record<Phase, string>> = {
  detected: 'seen on a medium, not judged or not adopted yet',
  rejected: 'may not be trusted or is malformed; the reason names the file, the field, the digest',
  held: 'the preload must wait: approval, base, space, media, runtime or runtime-version, or was cancelled',
  preloading: 'images are being pulled',
  ready: 'every image is present by digest and reported pinned by the runtime',
  activated: 'its tags name its images; no evidence of running containers, or it was rolled back',
  active: 'containers run from the images that distinguish it',
  proven: 'it has been active for the soak time: the last known good release',
  superseded: 'an older proven release, kept as the fallback',
  retired: 'unpinned, its own images removed unless that is switched off',
};
