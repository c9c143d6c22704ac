import { describe, expect, it } from 'vitest';
import { digestFromHex } from '../../../../src/domain/model/digest.ts';
import { manifestWarnings } from '../../../../src/factory/images/manifest-warnings.ts';

const digest = digestFromHex('5f'.repeat(32));
const other = digestFromHex('a1'.repeat(32));
const bundled = (repository: string, tags: readonly string[]) => ({
  reference: `${repository}@${digest}`,
  digest,
  mediaType: 'application/vnd.oci.image.manifest.v1+json',
  tags: tags.map((tag) => `${repository}:${tag}`),
  pin: true,
  layers: [],
});
const images = [
  bundled('quay.io/x/app', ['1', '2', '3', '4', '5', '6']),
  bundled('quay.io/x/bare', []),
  bundled('docker.io/library/nginx', ['1', 'latest']),
];
const used = (image: string, pullPolicy?: string, usedBy = 'Pod web, container app') => ({
  usedBy,
  image,
  file: 'web.yaml',
  ...(pullPolicy !== undefined && { pullPolicy }),
});

describe('manifestWarnings', () => {
  it.each([
    ['quay.io/x/app:1', undefined],
    ['quay.io/x/app:2', 'IfNotPresent'],
    [`quay.io/x/app@${digest}`, undefined],
    [`quay.io/x/app:gone@${digest}`, undefined],
    [`quay.io/x/bare@${digest}`, 'Never'],
    ['docker.io/nginx:1', undefined],
    ['docker.io/nginx', 'IfNotPresent'],
    ['docker.io/library/nginx:latest', 'Never'],
  ])('gives no warning for %s with the policy %s', (image, policy) => {
    expect(manifestWarnings([used(image, policy)], images)).toEqual([]);
  });

  it.each([
    ['quay.io/x/app:1', 'Always', ['imagePullPolicy of quay.io/x/app:1 is Always']],
    [`quay.io/x/app@${digest}`, 'Always', ['is Always']],
    ['docker.io/nginx:latest', undefined, ["has the tag 'latest', which means imagePullPolicy Always"]],
    ['docker.io/nginx', undefined, ['has no tag, which means imagePullPolicy Always']],
    ['quay.io/x/other:1', undefined, ['image quay.io/x/other:1 is not in the bundle']],
    ['Quay.IO/x/app:1', undefined, ['image Quay.IO/x/app:1 is not in the bundle']],
    ['quay.io/x/app:7', undefined, ['by that tag: the bundle has only the tags 1, 2, 3, 4, 5 … of its repository']],
    ['quay.io/x/bare:1', undefined, ['by that tag: the bundle has only images without a tag of its repository']],
    [`quay.io/x/app:1@${other}`, undefined, ['it carries another digest of quay.io/x/app']],
    ['quay.io/x/bare', undefined, ['has no tag', 'by that tag']],
    ['nginx:1', undefined, ['it has no full name']],
    ['nginx', undefined, ['has no tag', 'it has no full name']],
    // biome-ignore lint/suspicious/noTemplateCurlyInString: what an unrendered template holds
    ['${REGISTRY}/x:1', undefined, ['it has no full name']],
    ['', undefined, ['it names no image']],
  ])('warns of %s with the policy %s', (image, policy, expected) => {
    const warnings = manifestWarnings([used(image, policy)], images);
    expect(warnings).toEqual(expected.map((text) => expect.stringContaining(text)));
    for (const line of warnings) expect(line).toMatch(/^web\.yaml: Pod web, container app: /);
  });

  it('warns once about each item, with its first place', () => {
    const places = ['a', 'b', 'c'].map((name) => used('quay.io/x/other:1', undefined, `Pod ${name}`));
    expect(manifestWarnings(places, images)).toEqual([
      'web.yaml: Pod a and 2 more: image quay.io/x/other:1 is not in the bundle',
    ]);
  });

  it('writes one line for any manifest', () => {
    const [line] = manifestWarnings([used('a\nb', undefined, 'Pod \u001b[31mx')], images);
    expect(line).not.toMatch(/\p{Cc}/u);
  });
});
