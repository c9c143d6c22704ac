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
  expect(entry('beta')?.reason?.message).toMatch(/belongs to alpha@4\.13\.7\. Stream alpha holds it for another image/);
  expect(() => node.engine.commands.activate({ bundle: 'beta@4.13.7' })).toThrow(/may not take it/);
  isBroken = false;
  await node.clock.advance(30 * MINUTE);
  expect(entry('alpha')?.phase).toBe('activated');
  expect(entry('beta')?.phase).toBe('ready');
  expect(node.runtime.images.get(TAG)).toBe(node.runtime.images.get(alpha.contents.images[1]?.reference ?? ''));
  await node.stop();
});

const step = (sequence: number, over: Parameters<typeof verified>[0] = {}) => {
  const digest = digestOf(`pause of ${sequence}`);
  const reference = `quay.example.com/shared/pause@${digest}`;
  return verified({
    sequence,
    version: `4.13.${sequence}`,
    images: { pause: [`pause ${sequence}`] },
    imageOver: { pause: { digest, reference, tags: [TAG] } },
    ...over,
  });
};

function gate() {
  let letGo: () => void = () => undefined;
  const held = new Promise<void>((resolve) => {
    letGo = resolve;
  });
  return { held, letGo };
}

/** Two releases, of which the second one is activated while its tag is held back. */
async function nodeInMotion(over: Parameters<typeof verified>[0] = {}) {
  const node = createFakeNode([]);
  const work = node.runtime.onPull;
  const { held, letGo } = gate();
  const [first, second] = [step(1), step(2, over)];
  const movesTo = (bundle: typeof first) => node.runtime.images.get(bundle.contents.images[0]?.reference ?? '');
  let isHeld = false;
  node.runtime.onPull = async (reference, signal) => {
    if (isHeld && !reference.includes('@')) await held;
    await work(reference, signal);
  };
  await node.start();
  node.plug('sda1', first);
  await node.clock.advance(MINUTE);
  node.engine.commands.prove({ bundle: 'ocp@4.13.1' });
  isHeld = true;
  node.plug('sdb1', second);
  await node.clock.advance(MINUTE);
  expect(node.engine.report()?.operation).toBe('activating');
  return {
    node,
    /** The release that the tag names. */
    tagged: () => [first, second].find((one) => node.runtime.images.get(TAG) === movesTo(one))?.payload.version,
    go: async () => {
      isHeld = false;
      letGo();
      await node.clock.advance(30 * MINUTE);
    },
  };
}

it.each<{ what: string; ask: (engine: Awaited<ReturnType<typeof nodeInMotion>>['node']['engine']) => void }>([
  { what: 'an activation of another release', ask: (engine) => engine.commands.activate({ bundle: 'ocp@4.13.1' }) },
  {
    what: 'an activation that is confirmed',
    ask: (engine) => engine.commands.activate({ bundle: 'ocp@4.13.1', override: true }),
  },
])('$what that was accepted while tags move is done after that', async ({ ask }) => {
  const { node, tagged, go } = await nodeInMotion();
  ask(node.engine);
  await go();
  expect(tagged()).toBe('4.13.1');
  expect(node.store.load().bundles.map(({ activatedAt }) => activatedAt !== undefined)).toEqual([true, true]);
  await node.stop();
});

it('a rollback that was accepted while the release is activated again is done after that', async () => {
  const { node, tagged, go } = await nodeInMotion();
  await go();
  expect(tagged()).toBe('4.13.2');
  node.runtime.images.delete(TAG);
  const work = node.runtime.onPull;
  const { held, letGo } = gate();
  node.runtime.onPull = async (reference, signal) => {
    if (!reference.includes('@')) await held;
    await work(reference, signal);
  };
  node.engine.commands.activate({ bundle: 'ocp@4.13.2' });
  await node.clock.advance(MINUTE);
  expect(node.engine.report()?.operation).toBe('activating');
  expect(node.engine.commands.rollback({ stream: 'ocp' })).toBe('ocp@4.13.1');
  letGo();
  await node.clock.advance(30 * MINUTE);
  expect(tagged()).toBe('4.13.1');
  expect(node.engine.report()?.bundles[1]?.reason?.code).toBe('engine/rolled-back');
  await node.stop();
});

it('a release is not proven by hand while it is activated again, which would undo that', async () => {
  const { node, go } = await nodeInMotion();
  await go();
  node.engine.commands.activate({ bundle: 'ocp@4.13.2' });
  expect(() => node.engine.commands.prove({ bundle: 'ocp@4.13.2' })).toThrow(/its new activation is not done yet/);
  await node.clock.advance(30 * MINUTE);
  node.engine.commands.prove({ bundle: 'ocp@4.13.2' });
  await node.clock.advance(30 * MINUTE);
  expect(node.engine.report()?.bundles[1]?.phase).toBe('proven');
  await node.stop();
});
