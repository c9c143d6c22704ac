import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { verified } from '../../../support/daemon/scenario.ts';
import { createFakeNode, type FakeNode } from '../../../support/fake-ports.ts';

const bundle = verified({ schedule: 'manual' });
const { bundleId } = bundle;
let node: FakeNode;
/** A node that asks for signatures, with one ready release. */
beforeEach(async () => {
  node = createFakeNode();
  await node.start();
  node.plug('sdb1', bundle);
  await node.clock.advance(0);
});
afterEach(() => node.stop());

const TAKEN_BACK = 'is approved: its rejection is taken back, and it is judged as any other one.';

describe('approve, where signatures are enough', () => {
  it('makes no difference to a bundle that nobody rejected', () => {
    expect(node.engine.commands.approve({ bundle: bundleId })).toContain('so it makes no difference now');
    expect(node.engine.commands.approve({ bundle: bundleId })).toContain('is approved already');
  });

  it.each([bundleId, bundleId.slice(0, 19), 'ocp@4.13.7'])('takes a rejection by digest back, named as %s', (name) => {
    node.engine.commands.reject({ bundle: bundleId });
    expect(node.engine.commands.approve({ bundle: name })).toContain(TAKEN_BACK);
    expect(node.engine.commands.approve({ bundle: name })).toContain('is approved already');
  });

  it.each([bundleId, 'ocp@4.13.7'])('takes a rejection by name back, named as %s', (name) => {
    node.engine.commands.reject({ bundle: 'ocp@4.13.7' });
    expect(node.engine.commands.approve({ bundle: name })).toContain(TAKEN_BACK);
  });

  it('says so of one that was approved before its name was rejected', () => {
    node.engine.commands.approve({ bundle: bundleId });
    node.engine.commands.reject({ bundle: 'ocp@4.13.7' });
    expect(node.engine.commands.approve({ bundle: 'ocp@4.13.7' })).toContain(
      'The rejection of ocp 4.13.7 is taken back',
    );
  });

  it('takes the rejection of a digest back that nobody has seen', () => {
    const unseen = `sha256:${'5f'.repeat(32)}`;
    node.engine.commands.reject({ bundle: unseen });
    expect(node.engine.commands.approve({ bundle: unseen })).toContain(TAKEN_BACK);
  });
});
