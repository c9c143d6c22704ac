import { afterEach, describe, expect, it } from 'vitest';
import type { Policy } from '../../../src/domain/settings/settings.ts';
import { POLICY, referenceOf, verified } from '../../support/daemon/scenario.ts';
import { createFakeNode, type FakeNode } from '../../support/fake-ports.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const release = (sequence: number) =>
  verified({
    sequence,
    version: `4.13.${sequence}`,
    images: { [`etcd-${sequence}`]: [`e${sequence}`] },
    imageOver: { [`etcd-${sequence}`]: { component: 'etcd' } },
  });
const [A, B] = [release(1), release(2)];

let node: FakeNode;
afterEach(() => node.stop());

async function start(lifecycle: Partial<Policy['lifecycle']>) {
  node = createFakeNode([], { lifecycle: { ...POLICY.lifecycle, ...lifecycle } });
  await node.start();
}
const phases = () => Object.fromEntries(node.engine.report()?.bundles.map((one) => [one.version, one.phase]) ?? []);
const proofs = () => node.store.rows.filter(({ kind }) => kind === 'bundleProven').map(({ message }) => message);
const condition = (version: string) =>
  node.engine
    .report()
    ?.bundles.find((one) => one.version === version)
    ?.conditions?.find(({ type }) => type === 'Proven');
async function activate(bundle: typeof A) {
  node.plug('sdb1', bundle);
  await node.clock.advance(0);
  node.media.unplug('sdb1');
  await node.clock.advance(0);
}
const run = (sequence: number) => node.runtime.startContainer('pod/etcd', referenceOf(`etcd-${sequence}`));

describe('lifecycle.without_evidence', () => {
  it('is off by default: a release whose containers are not seen stays unproven', async () => {
    await start({});
    await activate(A);
    await node.clock.advance(24 * HOUR);
    expect([phases(), proofs()]).toEqual([{ '4.13.1': 'activated' }, []]);
  });

  it('proves a release whose containers were not seen for that time', async () => {
    await start({ without_evidence: HOUR });
    await activate(A);
    await node.clock.advance(59 * MINUTE);
    expect(phases()).toEqual({ '4.13.1': 'activated' });
    await node.clock.advance(2 * MINUTE);
    expect(phases()).toEqual({ '4.13.1': 'proven' });
    expect(proofs()).toEqual([expect.stringContaining('although no container of it was seen')]);
    expect(condition('4.13.1')).toMatchObject({ status: 'True', reason: 'WithoutEvidence' });
  });

  it('does not count time in which the runtime does not answer', async () => {
    await start({ without_evidence: HOUR });
    await activate(A);
    await node.clock.advance(30 * MINUTE);
    node.runtime.isUp = false;
    await node.clock.advance(5 * HOUR);
    node.runtime.isUp = true;
    await node.clock.advance(29 * MINUTE);
    expect(phases()).toEqual({ '4.13.1': 'activated' });
    await node.clock.advance(3 * MINUTE);
    expect(phases()).toEqual({ '4.13.1': 'proven' });
  });

  it('has no effect once a container was seen, even one that fails', async () => {
    await start({ without_evidence: HOUR });
    await activate(A);
    run(1);
    await node.clock.advance(MINUTE);
    for (const [id, container] of node.runtime.running) {
      node.runtime.running.set(id, { ...container, state: 'exited', exitCode: 1 });
    }
    await node.clock.advance(24 * HOUR);
    expect(proofs()).toEqual([]);
  });

  it('counts no time while an older release runs', async () => {
    await start({ without_evidence: HOUR });
    await activate(A);
    run(1);
    await node.clock.advance(20 * MINUTE);
    expect(phases()).toEqual({ '4.13.1': 'proven' });
    await activate(B);
    await node.clock.advance(24 * HOUR);
    expect(phases()).toEqual({ '4.13.1': 'proven', '4.13.2': 'activated' });
    expect(proofs()).toHaveLength(1);
  });

  it('proves nothing where components are required', async () => {
    await start({ without_evidence: HOUR, require: ['etcd'] });
    await activate(A);
    await node.clock.advance(24 * HOUR);
    expect(phases()).toEqual({ '4.13.1': 'activated' });
  });

  it('writes the time once a minute at most', async () => {
    await start({ without_evidence: 10 * HOUR });
    await activate(A);
    let writes = 0;
    const { change } = node.store;
    node.store.change = (...args) => {
      if (args[1].soak !== undefined) writes += 1;
      change(...args);
    };
    await node.clock.advance(HOUR);
    expect(writes).toBeGreaterThan(30);
    expect(writes).toBeLessThanOrEqual(61);
  });
});

describe('prove', () => {
  it('makes the current release a proven one', async () => {
    await start({});
    await activate(A);
    expect(node.engine.commands.prove({ bundle: 'ocp@4.13.1' })).toMatch(/^ocp 4\.13\.1 was proven by hand: /);
    await node.clock.advance(0);
    expect(phases()).toEqual({ '4.13.1': 'proven' });
    expect(condition('4.13.1')).toMatchObject({ status: 'True', reason: 'ProvenByHand' });
    expect(proofs()).toEqual([expect.stringContaining('by hand')]);
  });

  it('refuses a release that is not known to work', async () => {
    await start({});
    await activate(A);
    await activate(B);
    expect(() => node.engine.commands.prove({ bundle: 'ocp@4.13.1' })).toThrow(
      /not the current release: ocp@4\.13\.2 was activated/,
    );
    expect(() => node.engine.commands.prove({ bundle: 'ocp@9' })).toThrow(/no bundle ocp@9/);
    node.engine.commands.prove({ bundle: 'ocp@4.13.2' });
    expect(() => node.engine.commands.prove({ bundle: 'ocp@4.13.2' })).toThrow(/is proven already/);
  });

  it('retires older releases, and states before why they are kept', async () => {
    await start({ keep: 1 });
    await activate(A);
    node.engine.commands.prove({ bundle: 'ocp@4.13.1' });
    await activate(B);
    const kept = () => node.engine.report()?.bundles.map(({ version, current, kept: why }) => [version, current, why]);
    expect(kept()).toEqual([
      ['4.13.1', false, 'kept as the last known good release, until ocp 4.13.2 is proven'],
      ['4.13.2', true, undefined],
    ]);
    node.engine.commands.prove({ bundle: 'ocp@4.13.2' });
    await node.clock.advance(0);
    expect(phases()).toEqual({ '4.13.1': 'retired', '4.13.2': 'proven' });
  });
});
