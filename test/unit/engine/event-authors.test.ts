import { afterEach, describe, expect, it } from 'vitest';
import { NOON, POLICY, verified } from '../../support/daemon/scenario.ts';
import { createFakeNode, type FakeNode } from '../../support/fake-ports.ts';

let node: FakeNode;
afterEach(async () => {
  await node.stop();
});

async function start(update: Partial<typeof POLICY.update> = {}) {
  node = createFakeNode([], { update: { ...POLICY.update, ...update } });
  await node.start();
}
async function plug(over: Parameters<typeof verified>[0] = {}) {
  node.plug('sdb1', verified(over));
  await node.clock.advance(0);
}
const authorOf = (kind: string) => node.store.rows.findLast((row) => row.kind === kind)?.by;

describe('who activated a release', () => {
  it('is its schedule where nothing else decided', async () => {
    await start();
    await plug();
    expect(authorOf('bundleActivated')).toBe('schedule');
  });

  it('is the window of the node', async () => {
    await start({ strategy: 'window', windows: [{ days: [1], startMinute: 12 * 60, lengthMinutes: 60 }] });
    await plug();
    expect(authorOf('bundleActivated')).toBe('window');
  });

  it('is the rollout of the release', async () => {
    await start();
    await plug({ update: { rollout: { start: new Date(NOON - 1).toISOString(), startPercentage: 1 } } });
    expect(authorOf('bundleActivated')).toBe('rollout');
  });

  it('is the person who asked for it', async () => {
    await start();
    await plug({ schedule: 'manual' });
    node.engine.commandsBy('uid 1000: activate').activate({ bundle: 'ocp@4.13.7' });
    await node.clock.advance(0);
    expect(authorOf('activation-requested')).toBe('uid 1000: activate');
    expect(authorOf('bundleActivated')).toBe('uid 1000: activate');
  });
});

it('a verdict is by the person who gave it', async () => {
  await start();
  await plug({ schedule: 'manual' });
  await node.engine.commandsBy('uid 0: reject').reject({ bundle: 'ocp@4.13.7' });
  expect(authorOf('bundleVetoed')).toBe('uid 0: reject');
});
