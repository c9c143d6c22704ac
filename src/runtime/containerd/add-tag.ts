import { parseReference } from '../../domain/model/reference.ts';
import { AppError } from '../../platform/app-error.ts';
import type { Clock } from '../../platform/clock.ts';
import type { CriClient } from '../cri/cri-client.ts';
import type { ImagesClient } from './images-client.ts';

/** The clients of {@link addTag}. */
export interface AddTagDependencies {
  readonly cri: Pick<CriClient, 'imageStatus'>;
  readonly images: Pick<ImagesClient, 'withDigest' | 'point'>;
  readonly clock: Pick<Clock, 'sleep'>;
}

/** By this label the CRI plugin knows its images (containerd, internal/cri/labels). */
const MANAGED = { 'io.cri-containerd.image': 'managed' };
/** Pauses until the CRI plugin has seen the event of a name. It mostly takes a few milliseconds. */
const PAUSES_MS = [2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000];

/**
 * Makes `tag` name the image `reference` by containerd's own API, then waits until CRI lists it.
 * Nothing is asked of a registry.
 *
 * @returns false when containerd has no record of the image
 * @throws AppError `runtime/pull-failed` when CRI does not list the tag in time
 */
export async function addTag(
  { cri, images, clock }: AddTagDependencies,
  tag: string,
  reference: string,
  signal: AbortSignal,
): Promise<boolean> {
  const { digest } = parseReference(reference);
  const record = digest && (await images.withDigest(digest, signal));
  if (record === undefined) return false;
  await images.point({ name: tag, target: record.target, labels: MANAGED }, signal);
  for (const pauseMs of PAUSES_MS) {
    const named = await cri.imageStatus(tag, signal);
    if (named?.repoTags.includes(tag) && named.repoDigests.includes(reference)) return true;
    await clock.sleep(pauseMs, signal);
  }
  const message = `${tag} names ${reference} in containerd, but CRI does not list it; see the journal of containerd`;
  throw new AppError({ code: 'runtime/pull-failed', message, disposition: 'retry' });
}
