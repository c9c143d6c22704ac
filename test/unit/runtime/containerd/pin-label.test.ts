import { describe, expect, it } from 'vitest';
import {
  type ImageRecord,
  labelChanges,
  labelledPins,
  MARK_LABEL,
  PINNED_LABEL,
} from '../../../../src/runtime/containerd/images-client.ts';

const target = { mediaType: 'application/vnd.oci.image.manifest.v1+json', digest: `sha256:${'a'.repeat(64)}`, size: 1 };
const bare = { 'io.cri-containerd.image': 'managed' };
const pinnedByUs = { ...bare, [PINNED_LABEL]: 'pinned', [MARK_LABEL]: 'true' };
const pinnedByOthers = { ...bare, [PINNED_LABEL]: 'pinned' };
const kept = { ...bare, [PINNED_LABEL]: 'pinned', [MARK_LABEL]: 'kept' };

function changesOf(labels: ImageRecord['labels'], wanted: boolean) {
  return labelChanges([{ name: 'a', labels, target }], wanted ? ['a', 'absent'] : ['absent'])[0]?.labels;
}

describe('labelChanges', () => {
  it('pins what is wanted', () => {
    expect(changesOf(bare, true)).toStrictEqual({ [PINNED_LABEL]: 'pinned', [MARK_LABEL]: 'true' });
    expect(changesOf(pinnedByUs, true)).toBeUndefined();
    expect(changesOf(bare, false)).toBeUndefined();
  });

  it('unpins what we pinned, and nothing else', () => {
    expect(changesOf(pinnedByUs, false)).toStrictEqual({ [PINNED_LABEL]: undefined, [MARK_LABEL]: undefined });
    expect(changesOf(pinnedByOthers, false)).toBeUndefined();
  });

  it('remembers that an image was pinned before us', () => {
    expect(changesOf(pinnedByOthers, true)).toStrictEqual({ [MARK_LABEL]: 'kept' });
    expect(changesOf(kept, true)).toBeUndefined();
    expect(changesOf(kept, false)).toStrictEqual({ [MARK_LABEL]: undefined });
  });

  it('pins again what lost its label but not our mark', () => {
    expect(changesOf({ [MARK_LABEL]: 'kept' }, true)).toStrictEqual({ [PINNED_LABEL]: 'pinned', [MARK_LABEL]: 'kept' });
  });
});

describe('labelledPins', () => {
  it('names what is pinned and carries our mark', () => {
    const records = [
      { name: 'c', labels: kept, target },
      { name: 'b', labels: pinnedByUs, target },
      { name: 'others', labels: pinnedByOthers, target },
      { name: 'lost', labels: { [MARK_LABEL]: 'true' }, target },
    ];
    expect(labelledPins(records)).toStrictEqual(['b', 'c']);
  });
});
