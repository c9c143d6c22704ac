import { afterEach, describe, expect, it } from 'vitest';
import type { ImageContent } from '../../../../src/domain/model/image.ts';
import { POLICY, referenceOf, stored, verified } from '../../../support/daemon/scenario.ts';
import { createFakeNode, type FakeNode } from '../../../support/fake-ports.ts';

const MINUTE = 60_000;
const STREAMS = { ocp: { tag_after_proof: ['latest'], local_images: 'retire' as const } };

const release = (sequence: number) =>
  verified({
    sequence,
    version: `4.13.${sequence}`,
    images: { [`etcd-${sequence}`]: ['os', `e${sequence}`], [`api-${sequence}`]: ['os', `a${sequence}`] },
  });
const proven = (sequence: number, marks = {}) =>
  stored(release(sequence), { readyAt: 1, activatedAt: sequence, activeAt: sequence, provenAt: sequence, ...marks });
const kept = [proven(2), proven(3)];
const leaving = proven(1, { retiredAt: 9, removeImages: true });

let node: FakeNode;
afterEach(() => node.stop());

const removed = () => node.runtime.log.filter((line) => line.startsWith('remove'));
const has = (reference: string) => node.runtime.images.has(reference);

/** A node with all images of these releases. `meanwhile` is called during its first removal. */
function createNode(bundles: typeof kept, policy: Parameters<typeof createFakeNode>[1], meanwhile: () => void): void {
  node = createFakeNode(bundles, policy);
  for (const { contents } of bundles)
    for (const { reference, tags } of contents.images) {
      for (const name of [reference, ...tags]) node.runtime.images.set(name, reference);
      node.store.setPulledByUs(reference, true);
    }
  const { removeImage } = node.runtime;
  node.runtime.removeImage = async (...args) => {
    if (removed().length === 0) meanwhile();
    await removeImage(...args);
  };
}

describe('between the decision to remove several images and the removal of the second one', () => {
  const [first = '', second = ''] = leaving.contents.images.map(({ reference }) => reference);
  const remove = async (meanwhile: () => void) => {
    createNode([leaving, ...kept], {}, meanwhile);
    await node.start();
    await node.clock.advance(0);
    expect(has(first)).toBe(false);
  };

  it('nothing happens', async () => {
    await remove(() => undefined);
    expect(has(second)).toBe(false);
  });

  it.each<[string, () => void]>([
    ['a container begins', () => node.runtime.startContainer('pod/new', second)],
    ['somebody gives it another name', () => node.runtime.images.set('registry.example.com/mine:1', second)],
    [
      'a release is adopted that has it',
      () => {
        const next = { ...release(4), contents: leaving.contents };
        node.store.adopt(next, { at: node.clock.now(), kind: 'bundleAdopted', message: '' });
      },
    ],
    ['a person activates its release', () => node.store.change(leaving.bundleId, { activationRequestedAt: 30 })],
  ])('%s: the image stays', async (_what, meanwhile) => {
    await remove(meanwhile);
    expect(has(second)).toBe(true);
    expect(removed()).toEqual([`remove image ${first}`]);
  });
});

describe('between the decision to remove images of the node itself and the removal of the second one', () => {
  const names = [1, 2].map((version) => `quay.example.com/ocp/etcd-3:4.12.${version}`);
  const [first = '', second = ''] = names.toReversed();
  const remove = async (meanwhile: () => void) => {
    createNode(kept, { streams: STREAMS }, meanwhile);
    for (const [at, name] of names.entries()) node.runtime.images.set(name, `local-${at + 1}`);
    await node.start();
    await node.clock.advance(30 * MINUTE);
    expect(has(first)).toBe(false);
  };

  it.each<[string, boolean, () => void]>([
    ['nothing happens', false, () => undefined],
    ['a container begins', true, () => node.runtime.startContainer('pod/new', second)],
    [
      'a container is made by its name',
      true,
      () => {
        node.runtime.startContainer('pod/new', 'gone@sha256:1');
        for (const [id, one] of node.runtime.running) node.runtime.running.set(id, { ...one, podImage: second });
      },
    ],
    ['somebody gives it another name', true, () => node.runtime.images.set('registry.example.com/mine:1', 'local-1')],
    [
      'a release is adopted that names it so',
      true,
      () => {
        const next = verified({ sequence: 4, version: '4.13.4', imageOver: { etcd: { tags: [second] } } });
        node.store.adopt(next, { at: node.clock.now(), kind: 'bundleAdopted', message: '' });
      },
    ],
  ])('%s', async (_what, isKept, meanwhile) => {
    await remove(meanwhile);
    expect(has(second)).toBe(isKept);
  });
});

it('does not heal an image that a container uses since the decision', async () => {
  const faults = [{ kind: 'records', what: 'layer' }] as const;
  const broken: ImageContent = { kind: 'broken', faults };
  createNode(kept, {}, () => node.runtime.startContainer('pod/new', referenceOf('api-2')));
  for (const name of ['etcd-2', 'api-2']) node.runtime.contents.set(referenceOf(name), broken);
  node.bootMark.isDue = true;
  const [two] = kept;
  for (const { digest } of two?.contents.layers ?? []) node.blobs.set(digest, Buffer.from('x'));
  if (two !== undefined) node.plug('sda1', release(2));
  await node.start();
  await node.clock.advance(2 * MINUTE);
  expect(removed()).toEqual([`remove image ${referenceOf('etcd-2')}`]);
});

it('does not activate a release that was unpinned since the decision', async () => {
  const next = stored(release(4), { readyAt: 1 });
  createNode([...kept, next], {}, () => undefined);
  let isUnpinned = false;
  node.store.settled = async () => {
    if (isUnpinned || node.store.rows.every(({ kind }) => kind !== 'bundleReady')) return;
    isUnpinned = true;
    node.store.change(next.bundleId, { retiredAt: node.clock.now() });
  };
  await node.start();
  await node.clock.advance(MINUTE);
  expect(isUnpinned).toBe(true);
  expect(node.store.load().bundles.at(-1)?.activatedAt).toBeUndefined();
});

it('does not retire a release whose activation a person asked for since the decision', async () => {
  createNode([proven(1), ...kept], { lifecycle: { ...POLICY.lifecycle, keep: 2 } }, () => undefined);
  let isAsked = false;
  // What was seen is recorded before the decision, and is on the disk after it.
  node.store.settled = async () => {
    if (isAsked || node.store.rows.every(({ kind }) => kind !== 'bundleReady')) return;
    isAsked = true;
    node.engine.commands.activate({ bundle: 'ocp@4.13.1' });
  };
  await node.start();
  await node.clock.advance(MINUTE);
  expect(isAsked).toBe(true);
  const phases = node.engine.report()?.bundles.map(({ version, phase }) => [version, phase]);
  expect(Object.fromEntries(phases ?? [])).toMatchObject({ '4.13.1': 'activated' });
});
