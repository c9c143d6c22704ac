import { describe, expect, it } from 'vitest';
import type { MirrorEffect } from '../../../../src/domain/model/image.ts';
import { activateBundle } from '../../../../src/engine/effects/tag-effects.ts';
import { stored, verified } from '../../../support/daemon/scenario.ts';

/** Activates a release of so many images, and counts the calls to the runtime by their kind. */
async function callsOf(imageCount: number, takeEffect: MirrorEffect, canAddTags: boolean) {
  const images = Object.fromEntries(
    Array.from({ length: imageCount }, (_, index) => [`component-${index}`, [`layer-${index}`]]),
  );
  const bundle = stored(verified({ images }));
  const tags = new Map<string, string>();
  const references = new Map(bundle.contents.images.flatMap((one) => one.tags.map((tag) => [tag, one.reference])));
  const proven = new Set<string>();
  const calls = { observe: 0, pull: 0, image: 0, addTag: 0, removeTag: 0 };
  const listed = (reference: string) => ({ imageId: reference, repoTags: [], repoDigests: [reference], pinned: true });
  await activateBundle(
    bundle,
    [],
    {
      runtime: {
        observe: async () => {
          calls.observe += 1;
          return {
            kind: 'reachable',
            name: 'fake 1',
            images: bundle.contents.images.map(({ reference }) => listed(reference)),
            filesystem: undefined,
            mirrorsTakeEffect: takeEffect,
            renderedPins: [],
            renderedMirrors: bundle.contents.images.map(({ reference }) => reference.split('@')[0] ?? ''),
          };
        },
        pull: async (name) => {
          calls.pull += 1;
          tags.set(name, references.get(name) ?? name);
        },
        image: async (name) => {
          calls.image += 1;
          const reference = tags.get(name);
          return reference === undefined ? undefined : listed(reference);
        },
        addTag: async (tag, reference) => {
          calls.addTag += 1;
          if (canAddTags) tags.set(tag, reference);
          return canAddTags;
        },
        removeTag: async () => {
          calls.removeTag += 1;
        },
      },
      meter: { manifestRequests: () => calls.pull, manifestsSent: () => calls.pull },
      mirrorGate: {
        isProven: () => proven.size > 0,
        prove: (repository) => void proven.add(repository),
      },
      pullChecker: { answered: () => undefined },
      stalls: { guard: (_pull, signal, work) => work(signal) },
    },
    new AbortController().signal,
  );
  expect(tags.size).toBeGreaterThanOrEqual(imageCount);
  return calls;
}

describe.each([200, 2_000])('the calls of an activation of %i images', (count) => {
  it('are one pull, one lookup and one attempt to name it for each image, where the runtime must pull', async () => {
    const once = { observe: 1, pull: count + 1, image: count, addTag: count, removeTag: 0 };
    expect(await callsOf(count, 'late', false)).toEqual(once);
  });

  it('are one call for each image where the runtime can name images', async () => {
    const once = { observe: 1, pull: 0, image: 0, addTag: count, removeTag: 0 };
    expect(await callsOf(count, 'next-pull', true)).toEqual(once);
  });
});
