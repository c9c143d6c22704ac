import { expect, it } from 'vitest';
import { AppError } from '../../../src/platform/app-error.ts';
import { digestOf } from '../../../src/platform/digest.ts';
import { verified } from '../../support/daemon/scenario.ts';
import { createFakeNode } from '../../support/fake-ports.ts';

const MINUTE = 60_000;
const TAG = 'quay.example.com/shared/pause:3';
/** A release with an image of its own and one under {@link TAG}. */
const release = (name: string) => {
  const digest = digestOf(`pause of ${name}`);
  const reference = `quay.example.com/shared/pause@${digest}`;
  return verified({
    name,
    images: { [name]: [name], pause: [`pause ${name}`] },
    imageOver: { pause: { digest, reference, tags: [TAG] } },
  });
};

it('a release that is activated by half holds its tags against another stream until its retry is done', async () => {
  const node = createFakeNode([]);
  const work = node.runtime.onPull;
  let isBroken = true;
  node.runtime.onPull = async (reference, signal) => {
    if (isBroken && !reference.includes('@') && reference.includes('alpha')) {
      throw new AppError({ code: 'runtime/pull-failed', message: 'EIO', disposition: 'retry' });
    }
    await work(reference, signal);
  };
  await node.start();
  const entry = (name: string) => node.engine.report()?.bundles.find((one) => one.name === name);
  const [alpha, beta] = [release('alpha'), release('beta')];
  node.plug('sda1', alpha);
  await node.clock.advance(MINUTE);
  expect(entry('alpha')?.phase).toBe('ready');
  expect(node.store.load().bundles[0]?.activationBegunAt).toBeDefined();
  node.plug('sdb1', beta);
  await node.clock.advance(MINUTE);
  expect(entry('beta')).toMatchObject({ phase: 'ready', reason: { code: 'engine/tag-of-other-stream' } });
  expect(entry('beta')?.reason?.message).toContain('alpha@4.13.7 holds it for another image');
  expect(() => node.engine.activate({ bundle: 'beta@4.13.7' })).toThrow(/may not take tag/);
  isBroken = false;
  await node.clock.advance(30 * MINUTE);
  expect(entry('alpha')?.phase).toBe('activated');
  expect(entry('beta')?.phase).toBe('ready');
  expect(node.runtime.images.get(TAG)).toBe(node.runtime.images.get(alpha.contents.images[1]?.reference ?? ''));
  await node.stop();
});
