import { afterEach, describe, expect, it } from 'vitest';
import { verified } from '../../../support/daemon/scenario.ts';
import { createFakeNode, type FakeNode } from '../../../support/fake-ports.ts';

let node: FakeNode;
afterEach(async () => {
  await node.stop();
});

/** A node at rest whose bundle is ready and waits for a person. */
async function atRest(): Promise<FakeNode> {
  node = createFakeNode();
  await node.start();
  node.plug('sdb1', verified({ schedule: 'manual' }));
  await node.clock.advance(0);
  expect(node.phase('4.13.7')).toBe('ready');
  return node;
}

describe('a command of the engine', () => {
  it('is followed at once by a round that carries it out', async () => {
    const { engine, clock } = await atRest();
    engine.commands.activate({ bundle: 'ocp@4.13.7' });
    await clock.advance(0);
    expect(node.phase('4.13.7')).toBe('activated');
  });

  it('that is asynchronous is followed by a round when it is done', async () => {
    const { engine, clock, runtime } = await atRest();
    expect(runtime.pins()).toHaveLength(2);
    const args = { bundle: 'ocp@4.13.7', removeImages: false, force: false };
    expect(await engine.commands.unpin(args, new AbortController().signal)).toBe('ocp@4.13.7 is no longer pinned');
    await clock.advance(0);
    expect(node.phase('4.13.7')).toBe('retired');
    expect(runtime.pins()).toEqual([]);
  });

  it('that gives up a release does not say that it is unpinned while the runtime does not answer', async () => {
    const { engine, clock, runtime } = await atRest();
    runtime.isUp = false;
    const args = { bundle: 'ocp@4.13.7', removeImages: false, force: true };
    expect(await engine.commands.unpin(args, new AbortController().signal)).toMatch(
      /^ocp@4\.13\.7 is given up, and its images are still pinned, since the container runtime does not answer/,
    );
    await clock.advance(0);
    expect(runtime.pins()).toHaveLength(2);
    runtime.isUp = true;
    await clock.advance(60_000);
    expect(runtime.pins()).toEqual([]);
  });

  it('that is refused throws its reason and records nothing', async () => {
    const { engine, store } = await atRest();
    const before = store.rows.length;
    expect(() => engine.commands.activate({ bundle: 'ocp@9.9.9' })).toThrow(
      expect.objectContaining({ code: 'engine/no-bundle', disposition: 'reject' }),
    );
    expect(store.rows).toHaveLength(before);
  });
});
