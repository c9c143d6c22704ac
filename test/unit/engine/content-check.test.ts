import { describe, expect, it } from 'vitest';
import { BASE_ANNOTATION } from '../../../src/domain/model/bundle.ts';
import type { ImageContent } from '../../../src/domain/model/image.ts';
import { AppError } from '../../../src/platform/app-error.ts';
import { digestOf, referenceOf, stored, verified } from '../../support/daemon/scenario.ts';
import { createFakeNode, type FakeNode } from '../../support/fake-ports.ts';

const signal = new AbortController().signal;
const bundle = verified({ images: { etcd: ['base', 'etcd'], api: ['base', 'api'] } });
const activated = stored(bundle, { readyAt: 1, activationRequestedAt: 2, activatedAt: 3, provenAt: 4, activeAt: 4 });
const ready = stored(bundle, { readyAt: 1 });
const etcdTag = 'quay.example.com/ocp/etcd:4.13.7';
const truncated: ImageContent = {
  kind: 'broken',
  faults: [{ kind: 'blob', digest: digestOf('layer etcd'), why: 'truncated' }],
};

/** What a node has, apart from the release whose images are whole. */
interface Special {
  readonly isDue?: boolean;
  readonly contents?: Record<string, ImageContent>;
  readonly release?: typeof activated;
  readonly others?: readonly (typeof activated)[];
}

function nodeWith(over: Special = {}): FakeNode {
  const { release = activated } = over;
  const node = createFakeNode([release, ...(over.others ?? [])]);
  for (const { reference, tags } of bundle.contents.images) {
    for (const name of [reference, ...(release.activatedAt === undefined ? [] : tags)])
      node.runtime.images.set(name, reference);
  }
  for (const [name, content] of Object.entries(over.contents ?? {})) {
    node.runtime.contents.set(referenceOf(name), content);
  }
  node.bootMark.isDue = over.isDue ?? false;
  return node;
}
const checked = (node: FakeNode) => node.runtime.log.filter((entry) => entry.startsWith('check '));
const told = (node: FakeNode, text: string) => node.log.lines.filter(({ message }) => message.includes(text));
/** The stick of the release, whose layers are all there. A pull makes the image whole. */
function plugStick(node: FakeNode): void {
  for (const { digest } of bundle.contents.layers) node.blobs.set(digest, Buffer.from('x'));
  const pull = node.runtime.onPull;
  node.runtime.onPull = async (reference, inner) => {
    await pull(reference, inner);
    node.runtime.contents.delete(reference);
  };
  node.plug('sda1', bundle);
}

describe('the check of images after an unclean boot', () => {
  it('is made once when it is due, and is due no longer when all images are whole', async () => {
    const node = nodeWith({ isDue: true });
    await node.start();
    await node.clock.advance(300_000);
    expect(checked(node)).toEqual([`check ${referenceOf('etcd')}`, `check ${referenceOf('api')}`]);
    expect(node.bootMark.isDue).toBe(false);
    expect(told(node, 'was checked, since the node was not shut down')).toHaveLength(1);
    expect(node.log.kinds()).toContain('imagesChecked');
    await node.stop();
  });

  it('is made again with growing pauses for an image that could not be looked at, until it is known', async () => {
    const unknown: ImageContent = { kind: 'unknown', reason: { code: 'runtime/config', message: 'EIO' } };
    const node = nodeWith({ isDue: true, contents: { etcd: unknown } });
    const etcd = `check ${referenceOf('etcd')}`;
    const looks = () => checked(node).filter((entry) => entry === etcd).length;
    await node.start();
    await node.clock.advance(10_000);
    expect(looks()).toBe(1);
    for (const [minutes, count] of [
      [2, 2],
      [2, 2],
      [3, 3],
      [12, 3],
      [5, 4],
      [50, 4],
      [15, 5],
      [30 * 60, 7],
    ] as const) {
      await node.clock.advance(minutes * 60_000);
      expect(looks(), `${minutes} minutes later`).toBe(count);
    }
    expect(checked(node).length - looks()).toBe(1);
    expect(told(node, 'not known')).toHaveLength(1);
    expect(node.bootMark.isDue).toBe(true);
    node.runtime.contents.delete(referenceOf('etcd'));
    await node.clock.advance(25 * 3_600_000);
    expect(looks()).toBe(8);
    expect(told(node, 'was checked again: 1 whole')).toHaveLength(1);
    expect(node.bootMark.isDue).toBe(false);
    await node.clock.advance(25 * 3_600_000);
    expect(looks()).toBe(8);
    await node.stop();
  }, 240_000);

  it('may be proven after three checks without a result, which one line says, and gives up nothing older', async () => {
    const unknown: ImageContent = { kind: 'unknown', reason: { code: 'runtime/config', message: 'no such driver' } };
    const older = [1, 2].map((sequence) => {
      const images = { [`etcd-${sequence}`]: ['base'] };
      return stored(verified({ sequence, version: `4.12.${sequence}`, images }), {
        ...{ readyAt: 1, activatedAt: 1 + sequence / 10, provenAt: 1 + sequence / 10 },
      });
    });
    const release = stored(bundle, { readyAt: 1, activationRequestedAt: 2, activatedAt: 3 });
    const node = nodeWith({ isDue: true, contents: { etcd: unknown }, release, others: older });
    for (const { contents } of older)
      for (const { reference } of contents.images) node.runtime.images.set(reference, reference);
    const retired = () =>
      node.engine.report()?.bundles.some(({ version, phase }) => version === '4.12.1' && phase === 'retired');
    await node.start();
    await node.clock.advance(4 * 60_000);
    expect(() => node.engine.commands.prove({ bundle: 'ocp@4.13.7' })).toThrow("ocp@4.13.7 can't be proven now");
    await node.clock.advance(4 * 60_000);
    node.engine.commands.prove({ bundle: 'ocp@4.13.7' });
    await node.clock.advance(3_600_000);
    expect(node.engine.report()?.bundles).toContainEqual(
      expect.objectContaining({ version: '4.13.7', phase: 'proven' }),
    );
    expect([retired(), node.bootMark.isDue]).toEqual([false, true]);
    expect(told(node, `Three checks of ${referenceOf('etcd')} had no result`)).toHaveLength(1);
    await node.stop();
  });

  it('goes past an image for which the runtime never answers', async () => {
    const node = nodeWith({ isDue: true });
    const asked = { code: 'runtime/unreachable', message: 'deadline', disposition: 'retry' } as const;
    node.runtime.beforeCheck = async (_signal, reference) => {
      if (reference === referenceOf('etcd')) throw new AppError(asked);
    };
    await node.start();
    await node.clock.advance(150_000);
    expect(checked(node)).not.toContain(`check ${referenceOf('api')}`);
    await node.clock.advance(150_000);
    expect(checked(node)).toContain(`check ${referenceOf('api')}`);
    expect(told(node, '1 whole, 1 not known')).toHaveLength(1);
    await node.stop();
  });

  it('is not made again for an image that is not known after a check by hand alone', async () => {
    const unknown: ImageContent = { kind: 'unknown', reason: { code: 'runtime/config', message: 'EIO' } };
    const node = nodeWith({ contents: { etcd: unknown } });
    await node.start();
    await node.engine.verifyImages('', signal);
    await node.clock.advance(3_600_000);
    expect(checked(node)).toHaveLength(2);
    await node.stop();
  });

  it('is not made when none is due', async () => {
    const node = nodeWith();
    await node.start();
    await node.clock.advance(300_000);
    expect(checked(node)).toEqual([]);
    await node.stop();
  });

  it('waits for the runtime', async () => {
    const node = nodeWith({ isDue: true });
    node.runtime.isUp = false;
    await node.start();
    await node.clock.advance(60_000);
    expect(checked(node)).toEqual([]);
    node.runtime.isUp = true;
    await node.clock.advance(60_000);
    expect(checked(node)).toHaveLength(2);
    await node.stop();
  });

  it('says what is damaged and which stick is needed, removes nothing, and stays due', async () => {
    const node = nodeWith({ isDue: true, contents: { etcd: truncated } });
    await node.start();
    await node.clock.advance(300_000);
    const [entry] = node.engine.report()?.bundles ?? [];
    expect(entry?.degraded).toMatchObject({ code: 'engine/image-damaged' });
    expect(entry?.degraded?.message).toMatch(
      /1 of 2 images of ocp 4\.13\.7 is damaged.*plug in the stick of ocp 4\.13\.7/,
    );
    expect(node.engine.report()?.status).toContain('plug in the stick of ocp 4.13.7');
    expect(told(node, 'is damaged on this node')).toHaveLength(1);
    expect(node.runtime.log.filter((line) => /^(remove|forget)/.test(line))).toEqual([]);
    expect(node.bootMark.isDue).toBe(true);
    expect(checked(node)).toHaveLength(2);
    await node.stop();
  });

  it('comes before the activation of a release that is ready', async () => {
    const node = nodeWith({ isDue: true, release: ready });
    await node.start();
    await node.clock.advance(300_000);
    const order = node.runtime.log.filter((line) => /^(check|pull)/.test(line));
    expect(checked(node)).toHaveLength(2);
    expect(order.slice(0, 3)).toEqual([...checked(node), `pull ${etcdTag}`]);
    expect(node.engine.report()?.bundles[0]?.phase).toBe('activated');
    await node.stop();
  });

  it('gives way to the preload of another stream for ten minutes, not longer', async () => {
    const names = Array.from({ length: 100 }, (_, index) => `tool${index}`);
    const tools = verified({ name: 'tools', images: Object.fromEntries(names.map((name) => [name, [name]])) });
    const node = nodeWith({ isDue: true, release: ready });
    for (const { digest } of tools.contents.layers) node.blobs.set(digest, Buffer.from('x'));
    node.plug('sda1', tools);
    const pull = node.runtime.onPull;
    node.runtime.onPull = async (reference, inner) => {
      if (reference.includes('/tool')) await node.clock.sleep(40_000, inner);
      await pull(reference, inner);
    };
    node.runtime.isUp = false;
    await node.start();
    await node.clock.advance(60_000);
    node.runtime.isUp = true;
    await node.clock.advance(9 * 60_000);
    expect(node.runtime.log).toContain(`pull ${referenceOf('tool0')}`);
    expect(checked(node)).toEqual([]);
    expect(node.engine.report()?.bundles.find(({ name }) => name === 'ocp')?.phase).toBe('ready');
    await node.clock.advance(3 * 60_000);
    expect(checked(node)).toEqual(
      expect.arrayContaining([`check ${referenceOf('etcd')}`, `check ${referenceOf('api')}`]),
    );
    expect(node.engine.report()?.bundles.find(({ name }) => name === 'ocp')?.phase).toBe('activated');
    expect(node.engine.report()?.bundles.find(({ name }) => name === 'tools')?.phase).toBe('preloading');
    await node.stop();
  });

  it('keeps a release with a damaged image from activation, until it is healed', async () => {
    const node = nodeWith({ isDue: true, release: ready, contents: { etcd: truncated } });
    await node.start();
    await node.clock.advance(300_000);
    const [held] = node.engine.report()?.bundles ?? [];
    expect(held?.phase).toBe('ready');
    expect(held?.activationHolds).toEqual([
      expect.objectContaining({
        code: 'engine/content-damaged',
        message: `its image ${referenceOf('etcd')} is damaged on this node. Plug in its stick, and it is loaded again`,
      }),
    ]);
    expect(node.engine.report()?.status).toContain('plug in the stick of ocp 4.13.7');
    expect(node.runtime.log).not.toContain(`pull ${etcdTag}`);
    plugStick(node);
    await node.clock.advance(120_000);
    expect(node.engine.report()?.bundles[0]?.phase).toBe('activated');
    const etcd = referenceOf('etcd');
    const steps = node.runtime.log.filter((line) => line.includes('/etcd'));
    const pulledAt = steps.indexOf(`pull ${etcd}`);
    expect(steps.slice(pulledAt, pulledAt + 3)).toEqual([`pull ${etcd}`, `check ${etcd}`, `pull ${etcdTag}`]);
    await node.stop();
  });

  it('keeps a release from activation whose damaged image can not be removed', async () => {
    const node = nodeWith({ isDue: true, release: ready, contents: { etcd: truncated } });
    node.runtime.removeImage = async () => {
      throw new Error('image is in use');
    };
    await node.start();
    plugStick(node);
    await node.clock.advance(1_200_000);
    const [entry] = node.engine.report()?.bundles ?? [];
    expect(entry?.activationHolds).toEqual([expect.objectContaining({ code: 'engine/content-damaged' })]);
    expect(node.runtime.log).not.toContain(`pull ${etcdTag}`);
    await node.stop();
  });

  it('says in STATUS that images are checked before the activation, which waits for no end of failed checks', async () => {
    const node = nodeWith({ isDue: true, release: ready });
    node.runtime.beforeCheck = async () => {
      throw new AppError({ code: 'runtime/unreachable', message: 'away', disposition: 'retry' });
    };
    await node.start();
    await node.clock.advance(100_000);
    expect(node.engine.report()?.status).toBe(
      'WAIT: ocp 4.13.7 is loaded: 2 images present and pinned. They are checked, then it is activated.',
    );
    await node.clock.advance(100_000);
    expect(node.engine.report()?.bundles[0]?.phase).toBe('activated');
    expect(told(node, 'could not be checked')).not.toEqual([]);
    await node.stop();
  });

  it('keeps a release from activation that was asked for before it was found damaged', async () => {
    const asked = stored(bundle, { readyAt: 1, activationRequestedAt: 2 });
    const node = nodeWith({ isDue: true, release: asked, contents: { etcd: truncated } });
    await node.start();
    await node.clock.advance(300_000);
    expect(node.engine.report()?.bundles[0]?.phase).toBe('ready');
    await node.stop();
  });

  it('is awaited still after a check of one release by hand', async () => {
    const tools = stored(verified({ name: 'tools', images: { tool: ['tool'] }, schedule: 'manual' }), { readyAt: 1 });
    const node = nodeWith({ isDue: true, release: ready, others: [tools] });
    node.runtime.images.set(referenceOf('tool'), referenceOf('tool'));
    node.runtime.beforeCheck = async () => {
      throw new AppError({ code: 'runtime/unreachable', message: 'away', disposition: 'retry' });
    };
    await node.start();
    await node.clock.advance(5_000);
    node.runtime.beforeCheck = async () => undefined;
    await node.engine.verifyImages('tools@4.13.7', signal);
    await node.clock.advance(5_000);
    expect(checked(node)).toEqual([`check ${referenceOf('tool')}`]);
    expect(node.engine.report()?.bundles[0]?.phase).toBe('ready');
    await node.clock.advance(120_000);
    expect(node.engine.report()?.bundles[0]?.phase).toBe('activated');
    await node.stop();
  });

  it('is not made again for a release that is adopted while it runs', async () => {
    const later = verified({ name: 'tools', images: { tool: ['tool'] } });
    const node = nodeWith({ isDue: true, release: ready });
    for (const { digest } of later.contents.layers) node.blobs.set(digest, Buffer.from('x'));
    node.runtime.beforeCheck = async () => {
      node.runtime.beforeCheck = async () => undefined;
      node.plug('sda1', later);
      await node.clock.sleep(30_000, signal);
    };
    await node.start();
    await node.clock.advance(300_000);
    expect(node.engine.report()?.bundles.map(({ name, phase }) => [name, phase])).toEqual([
      ['ocp', 'activated'],
      ['tools', 'activated'],
    ]);
    expect(checked(node)).toEqual([`check ${referenceOf('etcd')}`, `check ${referenceOf('api')}`]);
    await node.stop();
  });

  it('goes on when a document of an image can not be read', async () => {
    const node = nodeWith({ isDue: true, release: ready });
    const { digest } = bundle.contents.images[0] ?? {};
    if (digest === undefined) throw new Error('the bundle has no image');
    node.documents.set(digest, Buffer.from('{}'));
    node.beforeRead = async (read) => {
      if (read === digest) throw new AppError({ code: 'store/blob', message: 'i/o error', disposition: 'retry' });
    };
    await node.start();
    await node.clock.advance(60_000);
    expect(checked(node)).toEqual([`check ${referenceOf('api')}`]);
    expect(node.engine.report()?.bundles[0]?.phase).toBe('activated');
    await node.stop();
  });

  it('is made even while something else fails again and again', async () => {
    const old = verified({ name: 'old', images: { old: ['old'] } });
    const retired = stored(old, { readyAt: 1, retiredAt: 2, removeImages: true });
    const node = nodeWith({ isDue: true, release: ready, others: [retired] });
    node.runtime.images.set(referenceOf('old'), referenceOf('old'));
    node.store.setPulledByUs(referenceOf('old'), true);
    node.runtime.removeImage = async (id) => {
      node.runtime.log.push(`remove image ${id}`);
      throw new Error('layer not known');
    };
    await node.start();
    await node.clock.advance(60_000);
    expect(node.runtime.log).toContain(`remove image ${referenceOf('old')}`);
    expect(checked(node)).toHaveLength(2);
    expect(node.engine.report()?.bundles.find(({ name }) => name === 'ocp')?.phase).toBe('activated');
    await node.stop();
  });

  it('by hand says that the release is damaged, not that a check is awaited', async () => {
    const images = { etcd: ['base', 'etcd'], api: ['base', 'api'] };
    const manual = stored(verified({ images, schedule: 'manual' }), { readyAt: 1 });
    const node = nodeWith({ release: manual, contents: { etcd: truncated } });
    await node.start();
    await node.engine.verifyImages('', signal);
    await node.clock.advance(60_000);
    const holds = node.engine.report()?.bundles.flatMap(({ activationHolds = [] }) => activationHolds);
    expect(holds?.map(({ code }) => code)).toEqual(['engine/manual', 'engine/content-damaged']);
    await node.stop();
  });

  it('does not keep a person from the activation of a release with a damaged image', async () => {
    const node = nodeWith({ isDue: true, release: ready, contents: { etcd: truncated } });
    await node.start();
    await node.clock.advance(300_000);
    node.engine.commands.activate({ bundle: 'ocp@4.13.7' });
    await node.clock.advance(60_000);
    expect(node.engine.report()?.bundles[0]?.phase).toBe('activated');
    await node.stop();
  });

  it('heals from a stick that comes later: looks again, removes, pulls and looks again', async () => {
    const node = nodeWith({ isDue: true, contents: { etcd: truncated } });
    await node.start();
    await node.clock.advance(1_800_000);
    node.runtime.log.length = 0;
    plugStick(node);
    await node.clock.advance(120_000);
    const steps = node.runtime.log.filter((line) => /^(check|forget|remove|pull)/.test(line));
    const etcd = referenceOf('etcd');
    expect(steps.slice(0, 4)).toEqual([`check ${etcd}`, 'forget 1', `remove image ${etcd}`, `pull ${etcd}`]);
    expect(steps).toContain(`check ${etcd}`);
    expect(node.runtime.images.has('quay.example.com/ocp/etcd:4.13.7')).toBe(true);
    expect(node.engine.report()?.bundles[0]?.degraded).toBeUndefined();
    expect(node.bootMark.isDue).toBe(false);
    expect(told(node, 'was removed; it is pulled again')).toHaveLength(1);
    await node.stop();
  });

  it('removes nothing that a container uses, until that one has ended', async () => {
    const node = nodeWith({ isDue: true, contents: { etcd: truncated } });
    node.runtime.startContainer('etcd-0', referenceOf('etcd'));
    await node.start();
    plugStick(node);
    await node.clock.advance(300_000);
    expect(node.runtime.log.filter((line) => line.startsWith('remove image'))).toEqual([]);
    expect(node.engine.report()?.bundles[0]?.degraded?.message).toContain('a container uses it');
    node.runtime.endContainer('etcd-0', 137);
    await node.clock.advance(1_200_000);
    expect(node.runtime.log).toContain(`remove image ${referenceOf('etcd')}`);
    expect(node.engine.report()?.bundles[0]?.degraded).toBeUndefined();
    await node.stop();
  });

  it('gives up when an image is damaged still after two pulls', async () => {
    const node = nodeWith({ isDue: true, contents: { etcd: truncated } });
    await node.start();
    for (const { digest } of bundle.contents.layers) node.blobs.set(digest, Buffer.from('x'));
    node.plug('sda1', bundle);
    await node.clock.advance(1_200_000);
    expect(node.runtime.log.filter((line) => line.startsWith('remove image'))).toHaveLength(2);
    expect(node.engine.report()?.bundles[0]?.degraded?.message).toContain('check the disk');
    await node.stop();
  });

  it('goes on when an image can not be removed, and counts that as a try', async () => {
    const node = nodeWith({ isDue: true, contents: { etcd: truncated } });
    node.runtime.removeImage = async (id) => {
      node.runtime.log.push(`remove image ${id}`);
      throw new Error('image is in use');
    };
    await node.start();
    plugStick(node);
    await node.clock.advance(1_200_000);
    expect(node.runtime.log.filter((line) => line.startsWith('remove image'))).toHaveLength(2);
    expect(node.engine.report()?.bundles[0]?.degraded).toMatchObject({ code: 'engine/image-damaged' });
    await node.stop();
  });
});

describe('stickpin verify-images', () => {
  it('tells of each image what was found, and what becomes of it', async () => {
    const node = nodeWith({ contents: { etcd: truncated } });
    await node.start();
    const images = await node.engine.verifyImages('', signal);
    expect(images).toEqual([
      {
        image: referenceOf('etcd'),
        releases: ['ocp@4.13.7'],
        result: 'damaged',
        found: expect.stringContaining('is truncated'),
        next: 'It stays until its blobs are at hand: plug in the stick of ocp 4.13.7.',
      },
      { image: referenceOf('api'), releases: ['ocp@4.13.7'], result: 'whole', found: expect.any(String), next: '' },
    ]);
    expect(node.bootMark.isDue).toBe(true);
    await node.stop();
  });

  it('names the base of a delta that lacks layers of a damaged image', async () => {
    const release = {
      ...activated,
      payload: { ...activated.payload, annotations: { [BASE_ANNOTATION]: 'ocp@4.13.6' } },
      contents: {
        ...bundle.contents,
        layers: bundle.contents.layers.map((layer) => ({ ...layer, inBase: true as const })),
      },
    };
    const node = nodeWith({ contents: { etcd: truncated }, release });
    await node.start();
    const [etcd] = await node.engine.verifyImages('', signal);
    const next = 'plug in the stick of ocp 4.13.7, and that of its base ocp@4.13.6';
    expect(etcd?.next).toBe(`It stays until its blobs are at hand: ${next}.`);
    await node.clock.advance(10_000);
    expect(node.engine.report()?.bundles[0]?.degraded?.message).toContain(next);
    expect(told(node, next)).toHaveLength(1);
    await node.stop();
  });

  it('checks the images of one release, and refuses one that is not known', async () => {
    const node = nodeWith();
    await node.start();
    expect(await node.engine.verifyImages('ocp@4.13.7', signal)).toHaveLength(2);
    await expect(node.engine.verifyImages('ocp@9', signal)).rejects.toMatchObject({ code: 'engine/no-bundle' });
    await node.stop();
  });

  it('fails when the runtime does not answer', async () => {
    const node = nodeWith();
    await node.start();
    node.runtime.isUp = false;
    await expect(node.engine.verifyImages('', signal)).rejects.toMatchObject({ code: 'runtime/unreachable' });
    await node.stop();
  });

  it('does not wait for a preload, as a check that nobody asked for does', async () => {
    const node = nodeWith({ isDue: true });
    let goOn = (): void => undefined;
    node.runtime.beforeCheck = () => new Promise((resolve) => (goOn = resolve));
    await node.start();
    node.runtime.beforeCheck = async () => undefined;
    node.runtime.onPull = (_reference, inner) =>
      new Promise((_resolve, reject) => inner.addEventListener('abort', () => reject(inner.reason)));
    const next = verified({ version: '4.13.8', sequence: 8, images: { dns: ['dns'] } });
    for (const { digest } of next.contents.layers) node.blobs.set(digest, Buffer.from('x'));
    node.plug('sda1', next);
    await node.clock.advance(5_000);
    goOn();
    await node.clock.advance(60_000);
    expect(checked(node)).toEqual([`check ${referenceOf('etcd')}`]);
    const asked = node.engine.verifyImages('ocp@4.13.7', signal);
    await node.clock.advance(2_000);
    expect(await asked).toHaveLength(2);
    await node.stop();
  });

  it('shows how far it is, and waits for a check that runs', async () => {
    const node = nodeWith({ isDue: true });
    let goOn = (): void => undefined;
    node.runtime.beforeCheck = () => new Promise((resolve) => (goOn = resolve));
    await node.start();
    await node.clock.advance(1_000);
    expect(node.engine.report()?.status).toMatch(/: Checking the content of images.*: 0\/2/);
    const asked = node.engine.verifyImages('', signal);
    node.runtime.beforeCheck = async () => undefined;
    goOn();
    expect(await asked).toHaveLength(2);
    expect(checked(node)).toHaveLength(4);
    await node.stop();
  });
});
