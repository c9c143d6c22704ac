import { describe, expect, it } from 'vitest';
import type { Medium } from '../../../../src/domain/model/medium.ts';
import { shortCode } from '../../../../src/domain/report/codes.ts';
import { nodeEvents } from '../../../../src/domain/report/node-events.ts';
import { reportOf } from '../../../../src/domain/report/report.ts';
import type { StoredBundle } from '../../../../src/domain/state/state.ts';
import {
  allListed,
  found,
  judge,
  medium,
  observation,
  reachable,
  refused,
  type Scene,
  stored,
  verified,
} from '../../../support/daemon/scenario.ts';

const PROGRESS = { doneBytes: 0, totalBytes: 0, waitingTransfers: 0 };
function eventsOf(over: Partial<Scene>, bundles: readonly StoredBundle[] = []) {
  const observed = observation(over);
  const snapshot = { observed, memory: observed, assessment: judge(observed, bundles).assessment };
  return nodeEvents(snapshot, reportOf(snapshot, PROGRESS));
}
const lasting = (over: Partial<Scene>) =>
  [...eventsOf(over).values()].flat().map(({ hook, medium: label, code }) => [hook, label, code]);

describe('events of the node', () => {
  it('are not known before the media are read, and those of releases not while the runtime is away', () => {
    expect(eventsOf({ areMediaUnread: true })).toEqual(new Map());
    const runtime = { kind: 'unreachable', reason: 'no socket' } as const;
    expect([...eventsOf({ runtime }).keys()]).not.toContain('preloading');
    expect([...eventsOf({ runtime }).keys()]).toContain('plugged');
  });

  it('are about sticks, and not about the drop folder or other nodes', () => {
    const drop = { ...medium('/var/lib/stickpin/incoming', []), isDropFolder: true };
    const peer = { ...medium('worker-2', []), peer: { isReady: true } };
    expect(lasting({ media: [drop, peer] })).toEqual([['removed', undefined, undefined]]);
  });

  it('are one for each stick that brings nothing, with why', () => {
    const reason = { code: 'media/mount', message: 'bad superblock' };
    const media = [medium('sdb1', [refused(), refused()]), medium('sdc1', { kind: 'failed', reason })];
    expect(lasting({ media }).filter(([hook]) => hook === 'rejected')).toEqual([
      ['rejected', 'sdb1', shortCode('bundle/signature')],
      ['rejected', 'sdc1', shortCode('media/mount')],
    ]);
  });

  it('name each stick that may be removed, and none while one is needed', () => {
    const bundle = verified();
    const other = verified({ name: 'tools', images: { tools: ['tools'] } });
    const active = stored(bundle, { readyAt: 1, activatedAt: 1 });
    const failed = medium('sdd1', { kind: 'failed', reason: { code: 'media/mount', message: 'bad superblock' } });
    const removable = (...media: readonly Medium[]) =>
      [...eventsOf({ media, runtime: reachable({ images: allListed(bundle) }) }, [active]).values()]
        .flat()
        .flatMap(({ hook, medium: label }) => (hook === 'removable' ? [label] : []));
    expect(removable(medium('sdb1', [found(bundle)]), medium('sdc1', [found(bundle)]), failed)).toEqual([
      'sdb1',
      'sdc1',
    ]);
    expect(removable(medium('sdb1', [found(bundle)]), medium('sdc1', [found(other)]))).toEqual([]);
  });

  it('of a stick are others after a boot, where its number is the same', () => {
    const keysIn = (bootId: string) =>
      eventsOf({ media: [medium('sdb1', [])], boot: { bootId, uptimeMs: 1 } })
        .get('plugged')
        ?.map(({ key }) => key);
    expect(keysIn('one')).not.toEqual(keysIn('two'));
  });
});
