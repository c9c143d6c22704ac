import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { ImageUse } from '../../../../../src/domain/model/image.ts';
import { type AnsweredNames, type ProvidedNames, pullsFromElsewhere } from '../../../../../src/domain/release/pulls.ts';
import { digestOf } from '../../../../support/daemon/scenario.ts';

const DIGEST = digestOf('etcd');
const OTHER = digestOf('another one');
const NAMES: ProvidedNames = {
  tags: new Set(['quay.io/coreos/etcd:v3.5', 'quay.io/coreos/etcd:latest', 'docker.io/library/nginx:1']),
  digests: new Set([`quay.io/coreos/etcd@${DIGEST}`]),
  later: new Map([['quay.io/coreos/etcd:v3.7', 'ocp@4.13.7']]),
};
const ALL: AnsweredNames = { tags: true, digests: true, except: [] };
const NONE: AnsweredNames = { tags: false, digests: false, except: [] };
const use = (image: string, pullPolicy?: string): ImageUse => ({
  usedBy: 'Pod a, container c',
  image,
  ...(pullPolicy !== undefined && { pullPolicy }),
});
const isElsewhere = (image: string, pullPolicy?: string, answered = ALL) =>
  pullsFromElsewhere([use(image, pullPolicy)], NAMES, answered).length === 1;

describe('pullsFromElsewhere', () => {
  it.each<[image: string, policy: string | undefined, expected: boolean]>([
    ['quay.io/coreos/etcd:v3.5', undefined, false],
    ['quay.io/coreos/etcd:v3.5', 'Always', false],
    ['QUAY.io/coreos/etcd:v3.5', undefined, false],
    ['quay.io/coreos/etcd', undefined, false],
    ['quay.io/coreos/etcd:v3.6', undefined, true],
    ['quay.io/coreos/etcd:v3.6', 'IfNotPresent', true],
    ['quay.io/coreos/etcd:v3.6', 'Never', false],
    ['quay.io/coreos/other:v3.5', undefined, true],
    [`quay.io/coreos/etcd@${DIGEST}`, 'Always', false],
    [`quay.io/coreos/etcd:v9@${DIGEST}`, 'Always', false],
    [`quay.io/coreos/etcd@${OTHER}`, undefined, false],
    [`quay.io/coreos/etcd@${OTHER}`, 'IfNotPresent', false],
    [`quay.io/coreos/etcd@${OTHER}`, 'Always', true],
    [`quay.io/coreos/other@${DIGEST}`, 'Always', true],
    [DIGEST, undefined, false],
    [DIGEST.slice('sha256:'.length), undefined, false],
    ['nginx:1', undefined, false],
    ['library/nginx:1', undefined, false],
    ['nginx:2', undefined, true],
    ['Not An Image', undefined, true],
  ])('counts %s with the policy %s as a pull from elsewhere: %s', (image, policy, expected) => {
    expect(isElsewhere(image, policy)).toBe(expected);
  });

  it('names the release that provides an image once it is activated', () => {
    const found = (image: string) => pullsFromElsewhere([use(image)], NAMES, ALL).map(({ release }) => release);
    expect(found('quay.io/coreos/etcd:v3.7')).toEqual(['ocp@4.13.7']);
    expect(found('quay.io/coreos/etcd:v3.6')).toEqual([undefined]);
  });

  it('counts an image that is pulled each time while our registry does not serve it', () => {
    expect(isElsewhere('quay.io/coreos/etcd:v3.5', undefined, NONE)).toBe(false);
    expect(isElsewhere('quay.io/coreos/etcd:v3.5', 'Always', NONE)).toBe(true);
    expect(isElsewhere('quay.io/coreos/etcd:latest', undefined, NONE)).toBe(true);
    expect(isElsewhere(`quay.io/coreos/etcd@${DIGEST}`, 'Always', NONE)).toBe(true);
    const digests: AnsweredNames = { tags: false, digests: true, except: [] };
    expect(isElsewhere(`quay.io/coreos/etcd@${DIGEST}`, 'Always', digests)).toBe(false);
    expect(isElsewhere('quay.io/coreos/etcd:v3.5', 'Always', digests)).toBe(true);
    const except: AnsweredNames = { tags: true, digests: true, except: ['quay.io/coreos/etcd'] };
    expect(isElsewhere('quay.io/coreos/etcd:v3.5', 'Always', except)).toBe(true);
    expect(isElsewhere('quay.io/coreos/etcd:v3.5', 'IfNotPresent', except)).toBe(false);
    expect(isElsewhere('nginx:1', 'Always', except)).toBe(false);
  });

  it('names each image once, with the first one that asks for it and how many others do', () => {
    const uses = ['Pod a, container c', 'Pod b, container c', 'Pod c, container c'].map((usedBy) => ({
      usedBy,
      image: 'quay.io/x/y:1',
    }));
    expect(pullsFromElsewhere([...uses, use('quay.io/x/z:1')], NAMES, ALL)).toEqual([
      { image: 'quay.io/x/y:1', usedBy: 'Pod a, container c', more: 2 },
      { image: 'quay.io/x/z:1', usedBy: 'Pod a, container c', more: 0 },
    ]);
  });

  it('names no more images when our registry serves more, and never throws', () => {
    const words = fc.array(
      fc.constantFrom('quay.io', '/', 'coreos', 'etcd', ':', 'v3.5', 'latest', '@', DIGEST, '.', ' '),
    );
    const uses = fc.array(
      fc.record(
        {
          usedBy: fc.string(),
          image: fc.oneof(
            words.map((parts) => parts.join('')),
            fc.string(),
          ),
          pullPolicy: fc.constantFrom('Always', 'Never', 'IfNotPresent'),
        },
        { requiredKeys: ['usedBy', 'image'] },
      ),
    );
    fc.assert(
      fc.property(uses, (all) => {
        const narrow = pullsFromElsewhere(all, NAMES, NONE).map(({ image }) => image);
        const wide = pullsFromElsewhere(all, NAMES, ALL).map(({ image }) => image);
        expect(narrow).toEqual(expect.arrayContaining(wide));
        expect(new Set(wide).size).toBe(wide.length);
        const nothing = pullsFromElsewhere(all, { tags: new Set(), digests: new Set(), later: new Map() }, ALL);
        expect(nothing.map(({ image }) => image)).toEqual(expect.arrayContaining(wide));
      }),
    );
  });
});
