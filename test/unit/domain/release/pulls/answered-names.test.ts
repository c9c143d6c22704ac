import { expect, it } from 'vitest';
import { answeredNames } from '../../../../../src/domain/release/pulls.ts';

it.each([
  ['digests-and-tags', true, true],
  ['digests', false, true],
  ['off', false, false],
] as const)('serve.activated = "%s" answers by tag: %s, by digest: %s', (activated, tags, digests) => {
  const except = ['quay.io/coreos/etcd'];
  expect(answeredNames({ serve: { activated, except } })).toEqual({ tags, digests, except });
});
