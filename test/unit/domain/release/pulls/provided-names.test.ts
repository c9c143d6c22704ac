import { describe, expect, it } from 'vitest';
import { namesOnceActivated, providedNames } from '../../../../../src/domain/release/pulls.ts';
import { POLICY, referenceOf, stored, verified } from '../../../../support/daemon/scenario.ts';

const older = stored(verified({ version: '4.13.6', sequence: 6, images: { etcd: ['base'] } }), { activatedAt: 1 });
const newer = stored(verified({ version: '4.13.7', sequence: 7, images: { etcd: ['base'], api: ['api'] } }));
const tag = (name: string, version: string) => `quay.example.com/ocp/${name}:${version}`;

describe('providedNames', () => {
  it('has the tags and the digests of all activated releases', () => {
    const { tags, digests } = providedNames([older, { ...newer, activatedAt: 2 }]);
    expect([...tags].sort()).toEqual([tag('api', '4.13.7'), tag('etcd', '4.13.6'), tag('etcd', '4.13.7')]);
    expect([...digests].sort()).toEqual([referenceOf('api'), referenceOf('etcd')].sort());
  });

  const nothing = { tags: new Set(), digests: new Set(), later: new Map() };

  it('has nothing of a release that is retired or not trusted any more, and no contested tag', () => {
    expect(providedNames([{ ...older, retiredAt: 2 }])).toEqual(nothing);
    expect(providedNames([older], { withdrawn: new Set([older]) })).toEqual(nothing);
    expect(providedNames([older], { skipped: new Set([tag('etcd', '4.13.6')]) }).tags).toEqual(new Set());
  });

  it('has the tags of a release that was not activated only while they are set, and names it before', () => {
    const later = new Map([tag('api', '4.13.7'), tag('etcd', '4.13.7')].map((name) => [name, 'ocp@4.13.7']));
    expect(providedNames([newer])).toEqual({ ...nothing, later });
    const inWork = [tag('api', '4.13.7')];
    expect(providedNames([newer], { inWork })).toMatchObject({ tags: new Set(inWork) });
  });
});

describe('namesOnceActivated', () => {
  it('has the tags of a release before it is activated', () => {
    const { tags, digests } = namesOnceActivated(newer, [older, newer], POLICY);
    expect([...tags].sort()).toEqual([tag('api', '4.13.7'), tag('etcd', '4.13.6'), tag('etcd', '4.13.7')]);
    expect(digests.has(referenceOf('etcd'))).toBe(true);
  });

  it('counts a release that was rolled back or retired as if it had not been', () => {
    const back = { ...newer, activatedAt: 2, rolledBackAt: 3, rolledBackReason: 'it went back', retiredAt: 4 };
    expect(namesOnceActivated(back, [older, back], POLICY).tags.has(tag('api', '4.13.7'))).toBe(true);
  });
});
