import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Artifact } from '../../../../src/domain/model/bundle.ts';
import { digestFromHex } from '../../../../src/domain/model/digest.ts';
import {
  coversRepository,
  coversStream,
  isRoleName,
  matchesGlob,
  outsideScope,
  type Role,
} from '../../../../src/domain/trust/role.ts';

const HEX = 'ab'.repeat(32);
const role: Role = {
  name: 'customer',
  threshold: 1,
  streams: ['customer-*'],
  repositories: ['registry.example.com/cust', 'localhost:5000'],
  mayRotate: false,
  mayKeepForLife: false,
};
const bundle = (stream: string, reference: string, tags: readonly string[] = []) => ({
  payload: { name: stream },
  contents: {
    images: [
      {
        reference: `${reference}@sha256:${HEX}`,
        digest: digestFromHex(HEX),
        mediaType: '',
        pin: true,
        tags,
        layers: [],
      },
    ],
  },
});

describe('matchesGlob', () => {
  it.each([
    ['customer-*', 'customer-a', true],
    ['customer-*', 'customer-', true],
    ['customer-*', 'customer', false],
    ['customer-*', 'xcustomer-a', false],
    ['*', 'ocp', true],
    ['ocp', 'ocp', true],
    ['ocp', 'ocp4', false],
    ['ocp', 'oc', false],
    ['oc?', 'ocp', true],
    ['oc?', 'oc', false],
    ['a*b*c', 'a-b-b-c', true],
    ['a*b*c', 'a-c-b', false],
    ['**', 'ocp', true],
    ['*-*', 'a-b', true],
    ['', '', true],
    ['', 'a', false],
    ['*', '', true],
  ])('%s on %s: %s', (pattern, text, isMatch) => {
    expect(matchesGlob(pattern, text)).toBe(isMatch);
  });

  it('gives the same result as a regular expression', () => {
    const pattern = fc.string({ unit: fc.constantFrom('a', 'b', '*', '?'), maxLength: 8 });
    const text = fc.string({ unit: fc.constantFrom('a', 'b'), maxLength: 10 });
    fc.assert(
      fc.property(pattern, text, (glob, name) => {
        const expression = new RegExp(`^${glob.replaceAll('*', '.*').replaceAll('?', '.')}$`);
        return matchesGlob(glob, name) === expression.test(name);
      }),
      { numRuns: 2_000 },
    );
  });

  it('takes no time that grows with the number of wildcards', () => {
    expect(matchesGlob(`${'*a'.repeat(31)}b`, 'a'.repeat(63))).toBe(false);
  });
});

describe('the scope of a role', () => {
  it.each([
    ['registry.example.com/cust', true],
    ['registry.example.com/cust/app', true],
    ['registry.example.com/cust/app/deep', true],
    ['registry.example.com/customer', false],
    ['registry.example.com/cust-2/app', false],
    ['registry.example.com/platform/cust', false],
    ['registry.example.com', false],
    ['evil.example.com/registry.example.com/cust', false],
    ['registry.example.com:443/cust/app', false],
    ['localhost:5000/any/thing', true],
    ['localhost:50001/any', false],
  ])('repository %s: %s', (repository, isCovered) => {
    expect(coversRepository(role, repository)).toBe(isCovered);
  });

  it('covers what is below a repository, and nothing whose name only begins the same', () => {
    const part = fc.stringMatching(/^[a-z0-9]{1,6}$/);
    const path = fc.array(part, { minLength: 1, maxLength: 4 });
    fc.assert(
      fc.property(path, path, part, (prefix, below, more) => {
        const scope = { repositories: [`r.example.com/${prefix.join('/')}`] };
        const own = scope.repositories[0] ?? '';
        expect(coversRepository(scope, own)).toBe(true);
        expect(coversRepository(scope, `${own}/${below.join('/')}`)).toBe(true);
        expect(coversRepository(scope, `${own}${more}`)).toBe(false);
        expect(coversRepository(scope, `${own}${more}/${below.join('/')}`)).toBe(false);
      }),
    );
  });

  it('names the stream or the repository that is outside', () => {
    expect(coversStream(role, 'ocp')).toBe(false);
    expect(outsideScope(role, bundle('customer-a', 'registry.example.com/cust/app'))).toBeUndefined();
    expect(outsideScope(role, bundle('ocp', 'registry.example.com/cust/app'))).toEqual({
      kind: 'stream',
      stream: 'ocp',
    });
    expect(outsideScope(role, bundle('customer-a', 'registry.example.com/platform/app'))).toEqual({
      kind: 'repository',
      stream: 'customer-a',
      repository: 'registry.example.com/platform/app',
    });
    const tagged = bundle('customer-a', 'registry.example.com/cust/app', ['registry.example.com/platform/app:1']);
    expect(outsideScope(role, tagged)).toMatchObject({ repository: 'registry.example.com/platform/app' });
    const own = bundle('customer-a', 'registry.example.com/cust/app');
    const { images } = bundle('customer-a', 'registry.example.com/platform/model').contents;
    const beside = { ...own, contents: { ...own.contents, artifacts: images as unknown as readonly Artifact[] } };
    expect(outsideScope(role, beside)).toMatchObject({ repository: 'registry.example.com/platform/model' });
  });

  it('without repositories covers bundles without images only', () => {
    const notices = { ...role, repositories: [] };
    expect(outsideScope(notices, { payload: { name: 'customer-a' }, contents: { images: [] } })).toBeUndefined();
    expect(outsideScope(notices, bundle('customer-a', 'registry.example.com/cust'))).toMatchObject({
      kind: 'repository',
    });
  });

  it('has a name without special characters', () => {
    expect(['customer', 'a', '1-b'].every(isRoleName)).toBe(true);
    expect(['', '-a', 'Customer', 'a.b', 'a/b', '../a', 'a'.repeat(64), 'a b'].some(isRoleName)).toBe(false);
  });
});
