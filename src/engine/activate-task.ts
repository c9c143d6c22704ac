import { bundleTitle } from '../domain/bundle.ts';
import type { RuntimeImage } from '../domain/runtime-image.ts';
import type { StoredBundle } from '../domain/state.ts';
import { AppError } from '../platform/app-error.ts';
import type { RuntimePort } from './ports.ts';

/** A tag and the image that it is to name. */
interface TagGoal {
  readonly tag: string;
  readonly reference: string;
}

/**
 * Gives the tags of a release to its images: each tag that does not name its image yet is pulled from our registry, then all are compared
 * with what the runtime says. A tag that came out wrong is taken away again.
 *
 * @throws AppError `engine/tag-mismatch` (`retry`) when a tag names another image afterwards; what the pulls throw.
 */
export async function activateBundle(bundle: StoredBundle, runtime: RuntimePort, signal: AbortSignal): Promise<number> {
  const goals = bundle.contents.images.flatMap((image) =>
    image.tags.map((tag): TagGoal => ({ tag, reference: image.reference })),
  );
  const before = await imagesByName(runtime, signal);
  for (const goal of goals) if (!isMet(goal, before)) await runtime.pull(goal.tag, signal);
  const after = await imagesByName(runtime, signal);
  const wrong = goals.filter((goal) => !isMet(goal, after));
  for (const { tag } of wrong) if (after.has(tag)) await runtime.removeTag(tag, signal);
  const first = wrong[0];
  if (first === undefined) return goals.length;
  throw new AppError({
    code: 'engine/tag-mismatch',
    message: `${first.tag} does not name ${first.reference} after it was pulled for ${bundleTitle(bundle.payload)}; another source answers for this tag, see the runtime's registries configuration`,
    disposition: 'retry',
  });
}

async function imagesByName(runtime: RuntimePort, signal: AbortSignal): Promise<ReadonlyMap<string, RuntimeImage>> {
  const observation = await runtime.observe(signal);
  if (observation.kind === 'unreachable') {
    throw new AppError({ code: 'runtime/unreachable', message: observation.reason, disposition: 'retry' });
  }
  return new Map(
    observation.images.flatMap((image) =>
      [...image.repoDigests, ...image.repoTags].map((name) => [name, image] as const),
    ),
  );
}

function isMet({ tag, reference }: TagGoal, images: ReadonlyMap<string, RuntimeImage>): boolean {
  const tagged = images.get(tag);
  return tagged !== undefined && tagged.imageId === images.get(reference)?.imageId;
}
