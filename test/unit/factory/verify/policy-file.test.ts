import { expect, it } from 'vitest';
import { parseReference } from '../../../../src/domain/model/reference.ts';
import { ruleFor } from '../../../../src/factory/verify/policy-file.ts';
import { digestOf } from '../../../../src/platform/digest.ts';

const digest = digestOf('image');
const policyWith = (...scopes: readonly string[]) => ({
  path: 'policy.json',
  fallback: [],
  scopes: new Map(scopes.map((scope) => [scope, []])),
});

// As containers/image does: a name without a namespace is below `library`.
it.each([
  ['docker.io/library/nginx', 'docker.io/nginx:1', 'docker.io/library/nginx'],
  ['docker.io/library', 'docker.io/nginx:1', 'docker.io/library'],
  ['docker.io/nginx', 'docker.io/nginx:1', 'default'],
  ['docker.io/nginx', 'docker.io/nginx/nginx-ingress:1', 'docker.io/nginx'],
])('the scope %s decides about %s by the rule of %s', (scope, image, expected) => {
  expect(ruleFor(policyWith(scope), parseReference(image), digest).scope).toBe(expected);
});
