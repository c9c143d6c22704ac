import { describe, expect, it } from 'vitest';
import type { Image } from '../../../../src/domain/model/bundle.ts';
import { digestFromHex } from '../../../../src/domain/model/digest.ts';
import { deriveTags } from '../../../../src/factory/images/plan-images.ts';

const REPOSITORY = 'quay.io/acme/app';

function image(at: number, tags: readonly string[], repository = REPOSITORY): Image {
  const digest = digestFromHex(String(at).repeat(64));
  return {
    reference: `${repository}@${digest}`,
    digest,
    mediaType: 'application/vnd.oci.image.manifest.v1+json',
    tags: tags.map((tag) => `${repository}:${tag}`),
    pin: true,
    layers: [],
  };
}

function tagsOf(images: readonly Image[]): string[][] {
  return deriveTags(images).map(({ tags }) => tags.map((tag) => tag.replace(/^.*:/, '')));
}

describe('deriveTags', () => {
  it('completes long tags', () => {
    expect(tagsOf([image(1, ['2.6.2-rev1-b5.1']), image(2, ['3.0-rev1'])])).toEqual([
      ['2.6.2-rev1-b5.1', '2.6.2-rev1', '2.6.2'],
      ['3.0-rev1'],
    ]);
  });

  it('gives a tag that several imply to the highest, wherever it stands', () => {
    const [low, high] = [image(1, ['1-rev1-b5.1']), image(2, ['1-rev1-b10'])];
    expect(tagsOf([low, high])).toEqual([['1-rev1-b5.1'], ['1-rev1-b10', '1-rev1', '1']]);
    expect(tagsOf([high, low])).toEqual([['1-rev1-b10', '1-rev1', '1'], ['1-rev1-b5.1']]);
    expect(tagsOf([image(1, ['1-rev2-b1']), image(2, ['1-rev1-b9'])])).toEqual([
      ['1-rev2-b1', '1-rev2', '1'],
      ['1-rev1-b9', '1-rev1'],
    ]);
  });

  it('takes no tag away from an image that was asked for by it', () => {
    expect(tagsOf([image(1, ['1-rev1-b5']), image(2, ['1'])])).toEqual([['1-rev1-b5', '1-rev1'], ['1']]);
  });

  it('keeps repositories apart, and names with a port', () => {
    expect(tagsOf([image(1, ['1-rev1-b1']), image(2, ['1-rev1-b2'], '127.0.0.1:5000/app')])).toEqual([
      ['1-rev1-b1', '1-rev1', '1'],
      ['1-rev1-b2', '1-rev1', '1'],
    ]);
  });
});
