import { beforeEach, describe, expect, it } from 'vitest';
import { digestOf, referenceOf, stored, verified } from '../../../support/daemon/scenario.ts';
import { createFakeNode, type FakeNode } from '../../../support/fake-ports.ts';

const release = stored(verified({ images: { etcd: ['base'] } }), {
  readyAt: 1,
  activatedAt: 2,
  activeAt: 3,
  provenAt: 3,
});
const PATH = 'quay.example.com/ocp/etcd';
const DIGEST = digestOf('image etcd');

describe('a request for the manifest of a pinned image', () => {
  const { signal } = new AbortController();
  let node: FakeNode;
  beforeEach(async () => {
    node = createFakeNode([release]);
    node.runtime.arePinsLostByPulls = true;
    for (const name of [referenceOf('etcd'), `${PATH}:4.13.7`]) node.runtime.images.set(name, referenceOf('etcd'));
    await node.start();
    await node.clock.advance(1_000);
    return () => node.stop();
  });
  /** What the runtime does at the end of a pull by somebody else. */
  const losePin = () => node.runtime.applyPins([], { force: false }, signal);

  it('is never made by a test of pulls, which would unpin it for a moment', async () => {
    await node.engine.checkPulls(signal);
    await node.clock.advance(60_000);
    const pulls = node.runtime.log.filter((entry) => entry.startsWith('pull '));
    expect(pulls.length).toBeGreaterThan(0);
    expect(pulls).not.toContain(`pull ${referenceOf('etcd')}`);
  });

  it.each([DIGEST, '4.13.7'])('by %s starts a round that pins it again, soon', async (reference) => {
    await losePin();
    node.meter.requested(PATH, reference);
    await node.clock.advance(1_900);
    expect(node.runtime.pins()).toEqual([]);
    await node.clock.advance(200);
    expect(node.runtime.pins()).toEqual([referenceOf('etcd')]);
  });

  it('starts a round after the pull, also when another event has started one during it', async () => {
    node.meter.requested(PATH, DIGEST);
    await node.clock.advance(500);
    node.engine.kick();
    await node.clock.advance(500);
    await losePin();
    await node.clock.advance(1_100);
    expect(node.runtime.pins()).toEqual([referenceOf('etcd')]);
  });

  it('starts a second round for a request that came shortly before the first', async () => {
    node.meter.requested(PATH, DIGEST);
    await node.clock.advance(1_900);
    node.meter.requested(PATH, DIGEST);
    await node.clock.advance(200);
    await losePin();
    await node.clock.advance(1_900);
    expect(node.runtime.pins()).toEqual([referenceOf('etcd')]);
    const before = node.runtime.rounds();
    await node.clock.advance(10_000);
    expect(node.runtime.rounds()).toBe(before);
  });

  it('starts one round, however many requests there are', async () => {
    const before = node.runtime.rounds();
    for (let at = 0; at < 500; at += 1) node.meter.requested(PATH, DIGEST);
    await node.clock.advance(2_100);
    expect(node.runtime.rounds() - before).toBe(1);
  });

  it.each([
    [PATH, digestOf('another image')],
    [PATH, '9.9.9'],
    ['quay.example.com/ocp/other', DIGEST],
  ])('starts none for %s and %s, which is no pinned image', async (path, reference) => {
    const before = node.runtime.rounds();
    node.meter.requested(path, reference);
    await node.clock.advance(2_100);
    expect(node.runtime.rounds() - before).toBe(0);
  });

  it('starts none where pulls do not change pins', async () => {
    node.runtime.arePinsLostByPulls = false;
    await node.clock.advance(31_000);
    const before = node.runtime.rounds();
    node.meter.requested(PATH, DIGEST);
    await node.clock.advance(2_100);
    expect(node.runtime.rounds() - before).toBe(0);
  });
});
