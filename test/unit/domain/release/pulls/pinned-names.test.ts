import { describe, expect, it } from 'vitest';
import { pinnedNames } from '../../../../../src/domain/release/pulls.ts';
import { digestOf, NOON, reachable, stored, verified } from '../../../../support/daemon/scenario.ts';

const images = { etcd: ['base'], tools: ['tools'] };
const release = stored(verified({ images, imageOver: { tools: { pin: false } } }));
const losing = reachable({ arePinsLostByPulls: true });
const ETCD = [`quay.example.com/ocp/etcd@${digestOf('image etcd')}`, 'quay.example.com/ocp/etcd:4.13.7'];

describe('pinnedNames', () => {
  it('has digest and tags of each image that is pinned, and nothing of one that is not', () => {
    expect([...pinnedNames(losing, [release])]).toEqual(ETCD);
  });

  it('has nothing of a release that is retired', () => {
    expect([...pinnedNames(losing, [{ ...release, retiredAt: NOON }])]).toEqual([]);
  });

  it('is empty for a runtime that keeps pins, or does not answer', () => {
    expect([...pinnedNames(reachable(), [release])]).toEqual([]);
    expect([...pinnedNames({ kind: 'unreachable', reason: 'down' }, [release])]).toEqual([]);
  });
});
