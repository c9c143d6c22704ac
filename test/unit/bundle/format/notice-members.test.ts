import { describe, expect, it } from 'vitest';
import { checkNotice, releaseMembers } from '../../../../src/bundle/format/schema.ts';
import type { Payload } from '../../../../src/domain/model/bundle.ts';
import { digestOf, verified } from '../../../support/daemon/scenario.ts';

const { payload, contents } = verified();
const reason = { reason: 'x' };
const NOTICE = { images: [] };

describe('a bundle without images', () => {
  it.each<[string, Partial<Payload>]>([
    ['schedule', { schedule: 'manual' }],
    ['keep', { keep: 'life' }],
    ['update.from', { update: { from: '>=4.12.0' } }],
    ['update.barrier', { update: { barrier: reason } }],
    ['update.deadend', { update: { deadend: reason } }],
    ['update.rollout', { update: { rollout: { startPercentage: 1 } } }],
    ['update.endOfLife', { update: { endOfLife: '2030-01-01T00:00:00Z' } }],
    ['update.base', { update: { base: digestOf('base') } }],
  ])('may not have %s, and a release may', (member, over) => {
    const said = { ...payload, ...over };
    expect(releaseMembers(said).map((one) => one.member)).toEqual([member]);
    expect(() => checkNotice(said, NOTICE)).toThrow(`payload: ${member}: a bundle without images has no release`);
    expect(() => checkNotice(said, contents)).not.toThrow();
  });

  it('may have advisories, keys, files, an end and the default schedule', () => {
    const said: Payload = {
      ...payload,
      schedule: 'immediate',
      expires: '2030-01-01T00:00:00Z',
      advisories: [{ version: '4.13.1', barrier: true, reason: 'x' }],
      update: {},
      attachments: [{ name: 'a', mediaType: 'a/b', digest: digestOf('a'), size: 1 }],
    };
    expect(() => checkNotice(said, NOTICE)).not.toThrow();
  });
});
