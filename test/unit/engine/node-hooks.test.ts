import { afterEach, describe, expect, it } from 'vitest';
import { NODE_HOOKS } from '../../../src/domain/settings/hook-units.ts';
import type { Policy } from '../../../src/domain/settings/settings.ts';
import type { HookFailure } from '../../../src/domain/state/hook.ts';
import { POLICY, refused, verified } from '../../support/daemon/scenario.ts';
import { createFakeNode, type FakeNode } from '../../support/fake-ports.ts';

const MINUTE = 60_000;
const UNIT = 'lights.service';
const ALL: Partial<Policy['hooks']> = Object.fromEntries(NODE_HOOKS.map((hook) => [hook, UNIT]));

let node: FakeNode;
afterEach(() => node.stop());

async function start(hooks: Partial<Policy['hooks']> = ALL) {
  node = createFakeNode([], { hooks: { ...POLICY.hooks, ...hooks } });
  await node.start();
  await node.clock.advance(MINUTE);
}
const variablesOf = (environment: string) =>
  Object.fromEntries([...environment.matchAll(/^STICKPIN_([A-Z]+)="(.*)"$/gm)].map(([, name, value]) => [name, value]));
const runs = () => node.hooks.runs.map(({ environment }) => variablesOf(environment));
const names = () => runs().map(({ HOOK }) => HOOK);
const settle = () => node.clock.advance(MINUTE);

describe('hooks of the node', () => {
  it('run once for each event, one after the other, with what it is about', async () => {
    await start();
    expect(names()).toEqual([]);
    node.plug('sdb1', verified());
    await settle();
    node.media.unplug('sdb1');
    await settle();
    expect(names()).toEqual(['plugged', 'preloading', 'removable', 'removed']);
    expect(runs()[2]).toMatchObject({ MEDIUM: 'sdb1', NAME: '', CODE: '' });
    expect(runs()[0]).toMatchObject({ MEDIUM: 'sdb1', NAME: '', BUNDLE: '', CODE: '' });
    expect(runs()[1]).toMatchObject({ MEDIUM: 'sdb1', NAME: 'ocp', BUNDLE: 'ocp@4.13.7', VERSION: '4.13.7' });
    node.media.plug('sdb1', []);
    await settle();
    expect(names().slice(4, 5)).toEqual(['plugged']);
  });

  it('run for a release that goes on after its stick was pulled, and for why it waited', async () => {
    await start();
    let proceed: () => void = () => undefined;
    node.runtime.onPull = (_reference, signal) =>
      new Promise((resolve, reject) => {
        proceed = () => resolve();
        signal.addEventListener('abort', () => reject(signal.reason));
      });
    node.plug('sdb1', verified());
    await settle();
    proceed();
    node.media.unplug('sdb1');
    await node.clock.advance(10 * MINUTE);
    node.plug('sdb1', verified());
    await settle();
    const ofRelease = runs().filter(({ HOOK }) => HOOK === 'preloading' || HOOK === 'held');
    expect(ofRelease.map(({ HOOK, CODE }) => [HOOK, CODE === ''])).toEqual([
      ['preloading', true],
      ['held', false],
      ['preloading', true],
    ]);
  });

  it('run once for a stick with rejected bundles', async () => {
    await start({ rejected: UNIT });
    node.media.plug('sdb1', [refused(), refused()]);
    await settle();
    expect(runs()).toMatchObject([{ HOOK: 'rejected', MEDIUM: 'sdb1', NAME: '', BUNDLE: '' }]);
  });

  it('do not run again after a restart, nor for what was there before they were set', async () => {
    await start({});
    node.plug('sdb1', verified());
    await settle();
    for (const _ of ['set', 'restarted']) {
      const before = node;
      await before.stop();
      node = createFakeNode([], { hooks: { ...POLICY.hooks, ...ALL } }, before.store);
      for (const [name, imageId] of before.runtime.images) node.runtime.images.set(name, imageId);
      node.plug('sdb1', verified());
      await node.start();
      await settle();
      expect(names()).toEqual([]);
    }
    node.media.unplug('sdb1');
    await settle();
    expect(names()).toEqual(['removed']);
  });

  it('that fail hold nothing, are shown until they succeed, and leave STATUS to what happens', async () => {
    await start({ plugged: UNIT });
    const why: HookFailure = { kind: 'absent' };
    node.hooks.run = async () => why;
    node.plug('sdb1', verified());
    await node.clock.advance(60 * MINUTE);
    expect(node.phase('4.13.7')).toBe('activated');
    expect(node.hooks.runs).toHaveLength(1);
    expect(node.engine.report()?.hooks).toMatchObject([{ hook: 'plugged', medium: 'sdb1', state: 'failed' }]);
    expect(node.store.rows.filter(({ kind }) => kind === 'hookFailed').map(({ message }) => message)).toEqual([
      "Hook plugged for sdb1 failed: there is no unit lights.service: install it, or correct the settings in [hooks]. 'stickpin rescan' runs it again",
    ]);
    node.engine.commands.resume();
    await settle();
    expect(node.hooks.runs).toHaveLength(2);
    expect(node.engine.report()?.hooks).toHaveLength(1);
    node.hooks.run = async () => undefined;
    node.media.unplug('sdb1');
    await settle();
    node.plug('sdc1', verified());
    await settle();
    expect(node.engine.report()?.hooks).toEqual([]);
  });

  it('whose unit never ends are left out when what they are about is over', async () => {
    await start();
    let end: () => void = () => undefined;
    node.hooks.run = () =>
      new Promise((resolve) => {
        end = () => resolve(undefined);
      });
    node.media.plug('sdb1', [refused()]);
    await settle();
    expect(names()).toEqual(['plugged']);
    expect(node.statuses.at(-1)).not.toContain('Waiting for hook');
    node.media.unplug('sdb1');
    await settle();
    end();
    node.hooks.run = async () => undefined;
    await settle();
    expect(names()).toEqual(['plugged', 'removed']);
  });
});
