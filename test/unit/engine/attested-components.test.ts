import { afterEach, describe, expect, it } from 'vitest';
import { POLICY, referenceOf, verified } from '../../support/daemon/scenario.ts';
import { createFakeNode, type FakeNode } from '../../support/fake-ports.ts';

const MINUTE = 60_000;
/** With a host image, that no container runs. */
const release = (sequence: number) =>
  verified({
    sequence,
    version: `4.13.${sequence}`,
    images: { [`etcd-${sequence}`]: [`e${sequence}`], [`os-${sequence}`]: [`o${sequence}`] },
    imageOver: { [`etcd-${sequence}`]: { component: 'etcd' }, [`os-${sequence}`]: { component: 'os' } },
  });
const [A, B] = [release(1), release(2)];

let node: FakeNode;
let bootId = 'boot-1';
afterEach(() => node.stop());

async function start(require: readonly string[] = ['os']) {
  node = createFakeNode([], { lifecycle: { ...POLICY.lifecycle, require } });
  const { clock } = node;
  node.boot = () => ({ bootId, uptimeMs: clock.monotonic() });
  await node.start();
}
const phases = () => Object.fromEntries(node.engine.report()?.bundles.map((one) => [one.version, one.phase]) ?? []);
async function activate(bundle: typeof A) {
  node.plug('sdb1', bundle);
  await node.clock.advance(0);
  node.media.unplug('sdb1');
  await node.clock.advance(0);
}
const run = (sequence: number) => node.runtime.startContainer('pod/etcd', referenceOf(`etcd-${sequence}`));
const proveOs = (sequence: number) => node.engine.commands.prove({ bundle: `ocp@4.13.${sequence}`, component: 'os' });
async function proven(bundle: typeof A) {
  await activate(bundle);
  run(bundle.payload.sequence);
  proveOs(bundle.payload.sequence);
  await node.clock.advance(11 * MINUTE);
  expect(phases()[bundle.payload.version]).toBe('proven');
}

describe('a component that runs on the word of a caller', () => {
  it('is waited for, and soaks as the containers do', async () => {
    await start();
    await activate(A);
    run(1);
    await node.clock.advance(60 * MINUTE);
    expect(node.statuses.at(-1)).toContain('waits for os to run.');
    expect(proveOs(1)).toMatch(/^os of ocp 4\.13\.1 runs, on your word, until the next boot\./);
    await node.clock.advance(5 * MINUTE);
    proveOs(1);
    await node.clock.advance(4 * MINUTE);
    expect(phases()).toEqual({ '4.13.1': 'active' });
    await node.clock.advance(MINUTE);
    expect(phases()).toEqual({ '4.13.1': 'proven' });
    expect(proveOs(1)).toBe('ocp 4.13.1 is proven already.');
  });

  it('proves a release without containers', async () => {
    await start([]);
    await activate(A);
    proveOs(1);
    await node.clock.advance(11 * MINUTE);
    expect(phases()).toEqual({ '4.13.1': 'proven' });
  });

  it('does not shorten the soak of a container', async () => {
    await start();
    await activate(A);
    proveOs(1);
    await node.clock.advance(8 * MINUTE);
    run(1);
    await node.clock.advance(9 * MINUTE);
    expect(phases()).toEqual({ '4.13.1': 'active' });
    await node.clock.advance(2 * MINUTE);
    expect(phases()).toEqual({ '4.13.1': 'proven' });
  });

  it('no longer runs after the next boot, or after another activation', async () => {
    await start();
    await activate(A);
    run(1);
    proveOs(1);
    await node.clock.advance(MINUTE);
    bootId = 'boot-2';
    await node.clock.advance(30 * MINUTE);
    expect(phases()).toEqual({ '4.13.1': 'active' });
    proveOs(1);
    await node.clock.advance(MINUTE);
    node.engine.commands.activate({ bundle: 'ocp@4.13.1' });
    await node.clock.advance(30 * MINUTE);
    expect(node.statuses.at(-1)).toContain('waits for os to run.');
  });

  it.each(['unproven', 'proven'])(
    'does not hide that the containers of the older release are back (%s)',
    async (it) => {
      await start();
      await proven(A);
      if (it === 'proven') await proven(B);
      else {
        await activate(B);
        run(2);
        proveOs(2);
        await node.clock.advance(MINUTE);
      }
      run(1);
      await node.clock.advance(20 * MINUTE);
      expect(node.store.rows.map(({ kind }) => kind)).toContain('bundleRolledBack');
    },
  );

  it('is refused for what the release has not, and where nothing can be proven', async () => {
    await start();
    await proven(A);
    expect(() => node.engine.commands.prove({ bundle: 'ocp@4.13.1', component: `k3s\n${'x'.repeat(99)}` })).toThrow(
      /^ocp 4\.13\.1 has no component k3s x{75}…$/,
    );
    await activate(B);
    node.engine.commands.rollback({ stream: 'ocp' });
    await node.clock.advance(0);
    expect(() => proveOs(2)).toThrow(/not the current release|rolled back/);
  });
});
