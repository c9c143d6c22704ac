import { describe, expect, it } from 'vitest';
import type { RuntimeContainer } from '../../../../src/domain/model/image.ts';
import { imageIds } from '../../../../src/domain/release/evidence.ts';
import { withoutUsed } from '../../../../src/domain/release/retention.ts';

const [DATA, APP] = ['1'.repeat(64), '2'.repeat(64)];
const DIGEST = `quay.io/data@sha256:${'3'.repeat(64)}`;
const ids = imageIds([
  { imageId: DATA, repoTags: ['quay.io/data:1'], repoDigests: [DIGEST], pinned: false },
  { imageId: APP, repoTags: [], repoDigests: [], pinned: false },
]);
const container = (over: Partial<RuntimeContainer>): RuntimeContainer => ({
  containerId: 'c1',
  key: 'p1/main',
  attempt: 0,
  imageNames: [APP],
  state: 'running',
  startedAt: 1,
  exitCode: 0,
  ...over,
});
const removable = (...containers: readonly RuntimeContainer[]) => withoutUsed([DATA], containers, ids);

describe('an image of a container that has ended', () => {
  it('is removed after the container, unless that one may be started again', () => {
    const ended = container({ imageNames: [DATA], state: 'exited' });
    expect(removable(ended)).toEqual([{ imageId: DATA, containerIds: ['c1'] }]);
    expect(removable({ ...ended, isStartable: true })).toEqual([]);
    expect(removable(ended, { ...ended, containerId: 'c2', isStartable: true })).toEqual([]);
  });
});

describe('an image that is used only as a volume', () => {
  it.each([`sha256:${DATA}`, DATA, DIGEST, 'quay.io/data:1'])('stays while a container mounts %s', (name) => {
    expect(removable(container({ volumeImages: [name] }))).toEqual([]);
    expect(removable(container({ volumeImages: [name], state: 'other' }))).toEqual([]);
  });

  it('is removed when nothing mounts it, after the exited containers that mounted it', () => {
    expect(removable(container({}))).toEqual([{ imageId: DATA, containerIds: [] }]);
    expect(removable(container({ volumeImages: [APP, 'quay.io/gone:1'] }))).toEqual([
      { imageId: DATA, containerIds: [] },
    ]);
    const ended = container({ volumeImages: [DATA], state: 'exited' });
    expect(removable(ended)).toEqual([{ imageId: DATA, containerIds: ['c1'] }]);
  });

  it('stays while the volumes of a container are not known', () => {
    expect(removable(container({ volumeImages: 'unknown', state: 'other' }))).toEqual([]);
  });
});
