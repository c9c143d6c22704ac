import { afterEach, describe, expect, it } from 'vitest';
import type { VerifiedBundle } from '../../../src/domain/model/bundle.ts';
import { ownFolderOf } from '../../../src/domain/release/hooks.ts';
import type { Policy } from '../../../src/domain/settings/settings.ts';
import type { HookFailure } from '../../../src/domain/state/hook.ts';
import { digestOf, found, POLICY, referenceOf, verified } from '../../support/daemon/scenario.ts';
import { createFakeNode, type FakeNode } from '../../support/fake-ports.ts';

const MINUTE = 60_000;
const FAILED: HookFailure = { kind: 'ended', job: 'failed', result: 'exit-code', status: 3 };
const release = (sequence: number, over: Parameters<typeof verified>[0] = {}) =>
  verified({ sequence, version: `4.13.${sequence}`, images: { [`etcd-${sequence}`]: [`e${sequence}`] }, ...over });
const [A, B] = [release(1), release(2)];
const notes = Buffer.from('notes');
const withFiles: VerifiedBundle = {
  ...release(3),
  payload: {
    ...release(3).payload,
    attachments: [{ name: 'notes', mediaType: 'text/plain', digest: digestOf(notes), size: notes.length }],
  },
};

let node: FakeNode;
afterEach(() => node.stop());

type Hooks = Partial<Policy['hooks']>;
async function start(hooks: Hooks, before?: FakeNode) {
  node = createFakeNode([], { hooks: { ...POLICY.hooks, ...hooks } }, before?.store);
  if (before !== undefined) {
    for (const [name, imageId] of before.runtime.images) node.runtime.images.set(name, imageId);
    for (const [digest, bytes] of before.documents) node.documents.set(digest, bytes);
  }
}
/** Ends the daemon, and starts it with what it recorded. */
async function restart(hooks: Hooks) {
  const before = node;
  await before.stop();
  await start(hooks, before);
  await node.start();
  await node.clock.advance(MINUTE);
}
async function plug(bundle: VerifiedBundle) {
  node.plug('sdb1', bundle);
  await node.clock.advance(0);
  node.media.unplug('sdb1');
  await node.clock.advance(0);
}
const tags = () => [...node.runtime.images.keys()].filter((name) => !name.includes('@'));
const units = () => node.hooks.runs.map(({ unit }) => unit);
const phases = () => Object.fromEntries(node.engine.report()?.bundles.map((one) => [one.version, one.phase]) ?? []);
const holds = (version = '4.13.1') =>
  node.engine.report()?.bundles.find((one) => one.version === version)?.activationHolds ?? [];
const told = (kind: string) => node.store.rows.filter((row) => row.kind === kind).map(({ message }) => message);
/** A hook that ends when it is told to. */
function pending() {
  let end: (failure?: HookFailure) => void = () => undefined;
  node.hooks.run = (_unit, signal) =>
    new Promise((resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason));
      end = resolve;
    });
  return { end: (failure?: HookFailure) => end(failure) };
}

describe('before-activate', () => {
  it('must succeed before tags move, and gets its environment', async () => {
    await start({ 'before-activate': 'before.service' });
    await node.start();
    const hook = pending();
    await plug(A);
    await node.clock.advance(MINUTE);
    expect([phases(), tags()]).toEqual([{ '4.13.1': 'ready' }, []]);
    expect(holds()).toMatchObject([{ gate: 'hook', code: 'hook', releasedBy: 'event' }]);
    expect(node.statuses.at(-1)).toBe(
      'WAIT (H-01): ocp 4.13.1 is loaded, not activated: hook before-activate (before.service) runs and must succeed first. 1 image present and pinned.',
    );
    expect(node.hooks.runs).toEqual([{ unit: 'before.service', environment: expect.stringContaining('STICKPIN_') }]);
    hook.end();
    await node.clock.advance(0);
    expect([phases(), units()]).toEqual([{ '4.13.1': 'activated' }, ['before.service']]);
    expect(told('hookDone')).toEqual(['Hook before-activate for ocp 4.13.1: before.service succeeded']);
  });

  it('is not started without the lock for reboots', async () => {
    const update = { ...POLICY.update, fleet_lock: 'https://locks.example.com' };
    const fleet = { ...POLICY.fleet, enabled: true, activate: 'each' as const };
    const hooks = { ...POLICY.hooks, 'before-activate': 'before.service' };
    const why = 'all slots are locked (full)';
    node = createFakeNode([], { hooks, update, fleet });
    node.fleet = { self: 'worker-1', nodes: [], peers: [], lock: { isHeld: false, why } };
    await node.start();
    await plug(A);
    await node.clock.advance(MINUTE);
    expect([phases(), units()]).toEqual([{ '4.13.1': 'ready' }, []]);
    expect(node.statuses.at(-1)).toMatch(
      /^WAIT \(F-35\): ocp 4\.13\.1 is loaded, not activated: it waits for the lock of locks\.example\.com/,
    );
    expect(node.engine.report()?.bundles[0]).toMatchObject({
      rollOut: { begun: true },
      reason: { code: 'fleet/lock', message: expect.stringContaining(why) },
    });
    node.fleet = { ...node.fleet, lock: { isHeld: true } };
    await node.clock.advance(MINUTE);
    expect([phases(), units()]).toEqual([{ '4.13.1': 'activated' }, ['before.service']]);
  });

  it('holds the activation with the result of its unit, and is tried again with growing pauses', async () => {
    await start({ 'before-activate': 'before.service' });
    await node.start();
    node.hooks.run = async () => FAILED;
    await plug(A);
    expect(units()).toHaveLength(1);
    expect(holds()).toMatchObject([
      {
        code: 'hook',
        releasedBy: 'time',
        message:
          "hook before-activate failed once. before.service failed: exit-code, status 3; see 'journalctl -u before.service'",
      },
    ]);
    const counts: number[] = [];
    for (const seconds of [9, 2, 18, 3, 36, 4]) {
      await node.clock.advance(seconds * 1_000);
      counts.push(units().length);
    }
    expect(counts).toEqual([1, 2, 2, 3, 3, 4]);
    expect(told('hookFailed')).toHaveLength(1);
    expect(phases()).toEqual({ '4.13.1': 'ready' });
    node.hooks.run = async () => undefined;
    await node.clock.advance(6 * MINUTE);
    expect(phases()).toEqual({ '4.13.1': 'activated' });
  });

  it('runs again after a restart only if it had not succeeded', async () => {
    await start({ 'before-activate': 'before.service' });
    await node.start();
    const { onPull } = node.runtime;
    node.runtime.onPull = async (reference, signal) => {
      if (!reference.includes('@')) throw new Error('no tag today');
      await onPull(reference, signal);
    };
    await plug(A);
    await node.clock.advance(MINUTE);
    expect([units(), phases()]).toEqual([['before.service'], { '4.13.1': 'ready' }]);
    await restart({ 'before-activate': 'before.service' });
    expect([units(), phases()]).toEqual([[], { '4.13.1': 'activated' }]);
  });

  it('is run again for another activation of the same release, and by another unit', async () => {
    await start({ 'before-activate': 'before.service' });
    await node.start();
    await plug(A);
    await plug(B);
    expect(units()).toHaveLength(2);
    node.engine.commands.activate({ bundle: 'ocp@4.13.1' });
    await node.clock.advance(0);
    expect(units()).toHaveLength(3);
    expect(node.hooks.runs.at(-1)?.environment).toContain('STICKPIN_VERSION="4.13.1"');
    expect(node.engine.report()?.bundles.find(({ current }) => current)?.version).toBe('4.13.1');
  });

  it('is told in STATUS and with the release while a rollback waits for it, and nothing as done', async () => {
    await start({ 'before-activate': 'before.service' });
    await node.start();
    await plug(A);
    node.engine.commands.prove({ bundle: 'ocp@4.13.1' });
    await plug(B);
    const hook = pending();
    node.engine.commands.rollback({ stream: 'ocp' });
    await node.clock.advance(MINUTE);
    const [older, newer] = node.engine.report()?.bundles ?? [];
    const current = () => node.engine.report()?.bundles.find((one) => one.current)?.version;
    expect(current()).toBe('4.13.2');
    expect(node.statuses.at(-1)).toBe(
      'WAIT (H-01): ocp 4.13.1 is loaded, not activated again: hook before-activate (before.service) runs and must succeed first. 1 image present and pinned.',
    );
    expect(older).toMatchObject({ phase: 'proven', reason: { code: 'hook' }, activationHolds: [{ code: 'hook' }] });
    expect(older?.reason?.message).toMatch(/^It is not activated again yet: hook before-activate/);
    expect(newer?.reason).toMatchObject({
      code: 'engine/rolled-back',
      message: expect.stringMatching(
        /^ocp 4\.13\.2 is being rolled back to ocp 4\.13\.1, which is not activated yet\./,
      ),
    });
    expect(newer?.conditions?.find(({ type }) => type === 'Active')?.message).toContain('is being rolled back');
    expect(told('bundleRolledBack')).toEqual([
      expect.stringMatching(/^ocp 4\.13\.2 is given up by hand, to go back to ocp 4\.13\.1\./),
    ]);
    hook.end(FAILED);
    await node.clock.advance(0);
    expect(node.statuses.at(-1)).toMatch(
      /: ocp 4\.13\.1 is loaded, not activated again: hook before-activate failed once\. before\.service /,
    );
    node.hooks.run = async () => undefined;
    await node.clock.advance(MINUTE);
    expect(current()).toBe('4.13.1');
    expect(node.engine.report()?.bundles[1]?.reason?.message).toMatch(
      /^ocp 4\.13\.2 was rolled back to ocp 4\.13\.1 by hand\./,
    );
    expect(node.engine.report()?.bundles[0]?.reason).toBeUndefined();
  });

  it('of the current release, asked for again, says so and takes nothing away from it', async () => {
    await start({ 'before-activate': 'before.service' });
    await node.start();
    await plug(A);
    node.engine.commands.prove({ bundle: 'ocp@4.13.1' });
    node.hooks.run = async () => FAILED;
    node.engine.commands.activate({ bundle: 'ocp@4.13.1' });
    await node.clock.advance(0);
    const [only] = node.engine.report()?.bundles ?? [];
    expect(only).toMatchObject({ phase: 'proven', reason: { code: 'hook' } });
    expect(only?.conditions?.find(({ type }) => type === 'Active')?.status).toBe('True');
    expect(node.statuses.at(-1)).toMatch(
      /: ocp 4\.13\.1 is loaded, not activated again: hook before-activate failed once\. before\.service /,
    );
  });

  it('that never ends delays nothing else', async () => {
    await start({ 'before-activate': 'before.service' });
    await node.start();
    pending();
    await plug(A);
    await plug(B);
    await node.clock.advance(60 * MINUTE);
    expect(phases()).toEqual({ '4.13.1': 'ready', '4.13.2': 'ready' });
    expect(units()).toEqual(['before.service']);
  });

  it('finds the attached files of its release', async () => {
    await start({ 'before-activate': 'before.service' });
    node.blobs.set(digestOf(notes), notes);
    await node.start();
    await plug(withFiles);
    await node.clock.advance(MINUTE);
    expect(node.hooks.runs.map(({ environment }) => environment)).toEqual([
      expect.stringContaining('STICKPIN_ATTACHMENTS="/var/lib/stickpin/releases/ocp/4.13.3"\n'),
    ]);
    expect(phases()).toEqual({ '4.13.3': 'activated' });
  });

  it('waits for attached files that no medium has', async () => {
    await start({ 'before-activate': 'before.service' });
    await node.start();
    const [attached] = withFiles.payload.attachments ?? [];
    const digest = attached?.digest ?? expect.unreachable();
    node.media.plug('sdb1', [found(withFiles, [{ digest, why: 'absent' }])]);
    await node.clock.advance(10 * MINUTE);
    expect([units(), phases()]).toEqual([[], { '4.13.3': 'ready' }]);
    expect(holds('4.13.3')).toMatchObject([{ message: expect.stringContaining('waits for the attached files') }]);
  });
});

describe('two releases with the same name and version', () => {
  const withNotes = (text: string, over: Parameters<typeof verified>[0]) => {
    const bytes = Buffer.from(text);
    node.blobs.set(digestOf(bytes), bytes);
    const file = { name: 'notes', mediaType: 'text/plain', digest: digestOf(bytes), size: bytes.length };
    return release(1, { ...over, attachments: [file] });
  };
  const twins = () => ({
    first: withNotes('one', { schedule: 'manual' }),
    second: withNotes('two', { schedule: 'manual', sequence: 2, images: { 'etcd-2': ['e2'] } }),
  });
  const folderOf = (bundle: VerifiedBundle) => `/var/lib/stickpin/releases/${ownFolderOf(bundle)}"`;
  const current = () => node.engine.report()?.bundles.find((one) => one.current)?.bundleId;

  it('find their own files in before-activate, also on the way back', async () => {
    await start({ 'before-activate': 'before.service' });
    await node.start();
    const { first, second } = twins();
    await plug(first);
    node.engine.commands.activate({ bundle: first.bundleId });
    await node.clock.advance(0);
    node.engine.commands.prove({ bundle: first.bundleId });
    await plug(second);
    await node.clock.advance(MINUTE);
    node.engine.commands.activate({ bundle: second.bundleId });
    await node.clock.advance(MINUTE);
    expect(current()).toBe(second.bundleId);
    node.engine.commands.rollback({ stream: 'ocp' });
    await node.clock.advance(MINUTE);
    expect(current()).toBe(first.bundleId);
    expect(node.hooks.runs.slice(1).map(({ environment }) => environment)).toEqual([
      expect.stringContaining(folderOf(second)),
      expect.stringContaining(folderOf(first)),
    ]);
  });

  it('both have the hooks that tell of them', async () => {
    await start({ ready: 'ready.service', proven: 'proven.service' });
    await node.start();
    const { first, second } = twins();
    await plug(first);
    node.engine.commands.activate({ bundle: first.bundleId });
    await plug(second);
    node.engine.commands.prove({ bundle: first.bundleId });
    await node.clock.advance(MINUTE);
    expect(units()).toEqual(['ready.service', 'ready.service', 'proven.service']);
    expect(node.hooks.runs[1]?.environment).toContain(folderOf(second));
    expect(node.hooks.runs[2]?.environment).toContain(folderOf(first));
  });
});

describe('hooks that tell of an event', () => {
  const HOOKS: Hooks = { ready: 'ready.service', activated: 'activated.service', proven: 'proven.service' };

  it('run once for each, with the name of the hook', async () => {
    await start(HOOKS);
    await node.start();
    await plug(A);
    await node.clock.advance(MINUTE);
    expect(units().sort()).toEqual(['activated.service', 'ready.service']);
    node.runtime.startContainer('pod/etcd', referenceOf('etcd-1'));
    await node.clock.advance(30 * MINUTE);
    expect(units()).toHaveLength(3);
    expect(node.hooks.runs.at(-1)).toEqual({
      unit: 'proven.service',
      environment: expect.stringContaining('STICKPIN_HOOK="proven"\n'),
    });
  });

  it('hold nothing when they fail, are reported once, and are shown until they succeed', async () => {
    await start(HOOKS);
    await node.start();
    node.hooks.run = async (unit) => (unit === 'ready.service' ? { kind: 'absent' } : undefined);
    await plug(A);
    await node.clock.advance(60 * MINUTE);
    expect(phases()).toEqual({ '4.13.1': 'activated' });
    expect(told('hookFailed')).toEqual([
      "Hook ready for ocp 4.13.1 failed: there is no unit ready.service: install it, or correct the settings in [hooks]. 'stickpin rescan' runs it again",
    ]);
    expect(node.engine.report()?.hooks).toMatchObject([
      { hook: 'ready', unit: 'ready.service', state: 'failed', bundle: 'ocp@4.13.1' },
    ]);
    expect(node.statuses.at(-1)).toContain("The hook ready failed: see 'stickpin status'.");
    node.hooks.run = async () => undefined;
    await plug(B);
    expect(node.engine.report()?.hooks).toEqual([]);
  });

  it('that failed run once more when a person asks for it, and not again once they succeed', async () => {
    await start(HOOKS);
    await node.start();
    node.hooks.run = async (unit) => (unit === 'activated.service' ? FAILED : undefined);
    await plug(A);
    await node.clock.advance(60 * MINUTE);
    const count = () => units().filter((unit) => unit === 'activated.service').length;
    const others = units().length - 1;
    expect(count()).toBe(1);
    node.engine.commands.resume();
    await node.clock.advance(60 * MINUTE);
    expect(count()).toBe(2);
    expect(node.engine.report()?.hooks).toMatchObject([{ unit: 'activated.service', state: 'failed' }]);
    node.hooks.run = async () => undefined;
    node.engine.commands.resume();
    await node.clock.advance(MINUTE);
    expect(count()).toBe(3);
    expect(node.engine.report()?.hooks).toEqual([]);
    node.engine.commands.resume();
    await node.clock.advance(MINUTE);
    expect(units()).toHaveLength(others + 3);
  });

  it('that never end hold nothing, and are shown as running', async () => {
    await start({ ready: 'ready.service' });
    await node.start();
    pending();
    await plug(A);
    await node.clock.advance(5 * MINUTE);
    expect(phases()).toEqual({ '4.13.1': 'activated' });
    expect(node.engine.report()?.hooks).toMatchObject([{ hook: 'ready', state: 'running' }]);
    expect(node.statuses.at(-1)).toContain('Waiting for hook ready of ocp 4.13.1 (ready.service), for ');
  });

  it('do not run for events before they were set, and not again after a restart', async () => {
    await start({});
    await node.start();
    await plug(A);
    await restart(HOOKS);
    expect(units()).toEqual([]);
    await plug(B);
    await node.clock.advance(MINUTE);
    expect(units().sort()).toEqual(['activated.service', 'ready.service']);
    await restart(HOOKS);
    expect(units()).toEqual([]);
  });

  it('are run after a restart when the daemon was stopped while they ran', async () => {
    await start({ ready: 'ready.service' });
    await node.start();
    pending();
    await plug(A);
    await restart({ ready: 'ready.service' });
    expect(units()).toEqual(['ready.service']);
  });

  it('are not run again when their unit ended while the daemon stopped', async () => {
    await start({ ready: 'ready.service' });
    await node.start();
    node.hooks.run = (_unit, signal) =>
      new Promise((resolve) => signal.addEventListener('abort', () => resolve(undefined)));
    await plug(A);
    await restart({ ready: 'ready.service' });
    expect(units()).toEqual([]);
  });
});
