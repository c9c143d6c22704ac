import { describe, expect, it } from 'vitest';
import type { Condition, NodeConditionType } from '../../../src/domain/model/condition.ts';
import { POLICY, referenceOf, stored, verified } from '../../support/daemon/scenario.ts';
import { createFakeNode, type FakeNode } from '../../support/fake-ports.ts';

const bundle = verified({ images: { etcd: ['base', 'etcd'] } });
const activated = stored(bundle, { readyAt: 1, activationRequestedAt: 2, activatedAt: 3, provenAt: 4, activeAt: 4 });
const TAG = 'quay.example.com/ocp/etcd:4.13.7';

function nodeWith(over: Parameters<typeof createFakeNode>[1] = {}): FakeNode {
  const node = createFakeNode([activated], over);
  for (const name of [referenceOf('etcd'), TAG]) node.runtime.images.set(name, referenceOf('etcd'));
  return node;
}
const condition = (node: FakeNode, type: NodeConditionType): Condition<NodeConditionType> | undefined =>
  node.engine.report()?.conditions.find((one) => one.type === type);

const pulls = (node: FakeNode) => node.runtime.log.filter((entry) => entry.startsWith('pull '));

describe('the condition PullsAnswered', () => {
  it('is found by one pull of a present image after the start, and not tested in later rounds', async () => {
    const node = nodeWith();
    await node.start();
    await node.clock.advance(3_600_000);
    expect(pulls(node)).toEqual([`pull ${referenceOf('etcd')}`]);
    expect(condition(node, 'PullsAnswered')).toMatchObject({ status: 'True', reason: 'PullAnswered' });
    await node.engine.checkPulls(new AbortController().signal);
    expect(pulls(node)).toHaveLength(2);
    await node.stop();
  });

  it('is False after three pulls from elsewhere, and changes with a requested test', async () => {
    const node = nodeWith();
    node.runtime.asksUs = false;
    await node.start();
    await node.clock.advance(3_600_000);
    expect(pulls(node)).toHaveLength(3);
    expect(condition(node, 'PullsAnswered')).toMatchObject({ status: 'False', reason: 'RegistryNotAsked' });
    expect(node.log.lines.filter(({ message }) => message.includes('requested nothing from'))).toHaveLength(1);
    node.runtime.asksUs = true;
    await node.engine.checkPulls(new AbortController().signal);
    expect(condition(node, 'PullsAnswered')).toMatchObject({ status: 'True' });
    await node.stop();
  });

  it('is False while another registry answers what ours is asked for and does not have', async () => {
    const node = nodeWith();
    node.meter.hasManifests = false;
    await node.start();
    expect(condition(node, 'PullsAnswered')).toMatchObject({ status: 'False', reason: 'ManifestNotSent' });
    node.meter.hasManifests = true;
    await node.engine.checkPulls(new AbortController().signal);
    expect(condition(node, 'PullsAnswered')).toMatchObject({ status: 'True' });
    await node.stop();
  });

  it('does not stop the engine when the pull fails or hangs', async () => {
    const node = nodeWith();
    node.runtime.onPull = () => new Promise(() => undefined);
    await node.start();
    await node.clock.advance(20_000);
    expect(condition(node, 'PullsAnswered')).toMatchObject({ status: 'False', reason: 'PullTimedOut' });
    const before = node.runtime.rounds();
    await node.clock.advance(61_000);
    expect(node.runtime.rounds()).toBeGreaterThan(before);
    await node.stop();
  });

  it('is not tested with serve.activated = "off"', async () => {
    const node = nodeWith({ serve: { ...POLICY.serve, activated: 'off' } });
    await node.start();
    await node.clock.advance(61_000);
    expect(pulls(node)).toEqual([]);
    expect(condition(node, 'PullsAnswered')).toMatchObject({ status: 'Unknown', reason: 'ServingIsOff' });
    await node.stop();
  });

  it('is not tested when serve.except has all repositories, and not reported as a fault', async () => {
    const node = nodeWith({ serve: { ...POLICY.serve, except: ['quay.example.com/ocp/etcd'] } });
    await node.start();
    await node.clock.advance(61_000);
    expect(pulls(node)).toEqual([]);
    expect(condition(node, 'PullsAnswered')).toMatchObject({ status: 'Unknown', reason: 'ServingIsOff' });
    await node.stop();
  });
});

describe('the condition PullsFromElsewhere', () => {
  it('names an image that a container uses and no release provides, and changes within a minute', async () => {
    const node = nodeWith();
    node.runtime.askedFor = [
      { usedBy: 'Pod a, container c', image: TAG },
      { usedBy: 'Pod b, container c', image: 'quay.io/x/y:1' },
    ];
    await node.start();
    expect(condition(node, 'PullsFromElsewhere')).toMatchObject({ status: 'True', reason: 'NamesNotProvided' });
    expect(condition(node, 'PullsFromElsewhere')?.message).toContain('quay.io/x/y:1 (Pod b, container c)');
    expect(condition(node, 'PullsFromElsewhere')?.message).not.toContain(TAG);
    node.runtime.askedFor = [];
    await node.clock.advance(91_000);
    expect(condition(node, 'PullsFromElsewhere')).toMatchObject({ status: 'False', reason: 'AllProvided' });
    await node.stop();
  });

  it('is not known before a release is activated', async () => {
    const node = createFakeNode();
    await node.start();
    expect(condition(node, 'PullsFromElsewhere')).toMatchObject({ status: 'Unknown', reason: 'NothingActivated' });
    await node.stop();
  });
});

describe('update.pulls_from_elsewhere = "hold"', () => {
  it('holds an activation until nothing comes from elsewhere', async () => {
    const update = { ...POLICY.update, pulls_from_elsewhere: 'hold' as const };
    const node = createFakeNode([], { update });
    node.runtime.askedFor = [{ usedBy: 'Pod b, container c', image: 'quay.io/x/y:1' }];
    for (const { digest } of bundle.contents.layers) node.blobs.set(digest, Buffer.from('x'));
    await node.start();
    node.plug('sda1', bundle);
    await node.clock.advance(5_000);
    expect(node.phase('4.13.7')).toBe('ready');
    const [held] = node.engine.report()?.bundles ?? [];
    expect(held?.activationHolds?.[0]).toMatchObject({ code: 'engine/pulls-from-elsewhere', releasedBy: 'event' });
    expect(() => node.engine.commands.activate({ bundle: 'ocp@4.13.7', override: true })).toThrow(
      'quay.io/x/y:1 would still come from elsewhere. It is used by Pod b, container c. The setting update.pulls_from_elsewhere is "hold"',
    );
    node.runtime.askedFor = [{ usedBy: 'Pod b, container c', image: TAG }];
    await node.clock.advance(91_000);
    expect(node.phase('4.13.7')).toBe('activated');
    node.runtime.askedFor = [{ usedBy: 'Pod b, container c', image: 'quay.io/x/y:1' }];
    await node.clock.advance(91_000);
    expect(() => node.engine.commands.activate({ bundle: 'ocp@4.13.7' })).toThrow('would still come from elsewhere');
    await node.stop();
  });
});
