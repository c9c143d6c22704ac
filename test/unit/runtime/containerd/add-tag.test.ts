import { describe, expect, it } from 'vitest';
import type { RuntimeImage } from '../../../../src/domain/model/image.ts';
import { addTag, type ImageRecord } from '../../../../src/runtime/containerd/images-client.ts';
import { createVirtualClock } from '../../../support/fake-ports.ts';

const digest = `sha256:${'1'.repeat(64)}`;
const reference = `quay.io/app@${digest}`;
const target = { mediaType: 'application/vnd.oci.image.manifest.v1+json', digest, size: 7 };
const { signal } = new AbortController();

/** A containerd whose CRI lists a tag after so many looks. */
function createContainerd(listedAfter: number) {
  const clock = createVirtualClock();
  const pointed: ImageRecord[] = [];
  let looks = 0;
  const image: RuntimeImage = { imageId: 'id', repoTags: ['quay.io/app:1'], repoDigests: [reference], pinned: true };
  const result = addTag(
    {
      clock,
      images: {
        get: async () => undefined,
        withDigest: async () => ({ name: 'other', target, labels: { 'io.stickpin.pinned': 'true' } }),
        point: async (record) => void pointed.push(record),
      },
      cri: {
        imageStatus: async () => {
          looks += 1;
          return looks > listedAfter ? image : undefined;
        },
      },
    },
    'quay.io/app:1',
    reference,
    signal,
  );
  return { clock, pointed, result, looks: () => looks };
}

describe('addTag', () => {
  it('points the tag at the target of the image, without the labels of its other names', async () => {
    const { result, pointed, looks } = createContainerd(0);
    expect(await result).toBe(true);
    expect(pointed).toEqual([{ name: 'quay.io/app:1', target, labels: { 'io.cri-containerd.image': 'managed' } }]);
    expect(looks()).toBe(1);
  });

  it('waits until CRI lists it', async () => {
    const { result, clock, looks } = createContainerd(2);
    await clock.advance(10);
    expect(await result).toBe(true);
    expect(looks()).toBe(3);
  });

  it('fails when CRI never lists it', async () => {
    const { result, clock } = createContainerd(Number.POSITIVE_INFINITY);
    const failed = expect(result).rejects.toMatchObject({ code: 'runtime/pull-failed', disposition: 'retry' });
    await clock.advance(5_000);
    await failed;
  });
});
