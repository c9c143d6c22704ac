import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import type { StoredBundle } from '../../../../src/domain/state/state.ts';
import { AppError } from '../../../../src/platform/app-error.ts';
import { untilAborted } from '../../../../src/platform/async/abort.ts';
import { messageIds } from '../../../../src/platform/message-ids.ts';
import {
  digestOf,
  found,
  GIB,
  keyIdOf,
  MIB,
  NOON,
  POLICY,
  referenceOf,
  refused,
  stored,
  verified,
} from '../../../support/daemon/scenario.ts';
import { createFakeNode, type FakeNode, type FakeRuntime } from '../../../support/fake-ports.ts';

const bundle = verified();
let node: FakeNode;

async function start(initial: readonly StoredBundle[] = [], prepare: (made: FakeNode) => void = () => undefined) {
  node = createFakeNode(initial);
  prepare(node);
  await node.start();
  return node;
}
afterEach(async () => {
  await node.stop();
});

const kinds = () => node.store.rows.map(({ kind }) => kind);
const pulled = (name: string) => node.runtime.log.filter((entry) => entry === `pull ${referenceOf(name)}`).length;
const tagOf = (name: string) => `quay.example.com/ocp/${name}:4.13.7`;
/** The runtime has an image, with its tag. */
const have = (runtime: FakeRuntime, name: string) => {
  runtime.images.set(referenceOf(name), referenceOf(name));
  runtime.images.set(tagOf(name), referenceOf(name));
};
const fault = (code: string, message: string) => new AppError({ code, message, disposition: 'retry' });
/** The runtime has come to our registry for this image, as far as the meter tells. */
const asked = (name: string) => {
  node.meter.manifests.set(referenceOf(name), (node.meter.manifests.get(referenceOf(name)) ?? 0) + 1);
};

/** Repositories of the default bundle: they are mirrored while it is activated. */
const SERVED = ['quay.example.com/ocp/api', 'quay.example.com/ocp/etcd'];

describe('engine: from a medium to activated', () => {
  it('activates a release automatically, reports each event once, and keeps its mirrors', async () => {
    await start();
    expect(node.statuses).toEqual(['IDLE: No bundle yet. Waiting for a stick.']);
    node.plug('sdb1', bundle);
    await node.clock.advance(0);
    expect(node.phase('4.13.7')).toBe('activated');
    expect(kinds()).toEqual([
      'runtimeBack',
      'mediumFound',
      'bundleVerified',
      'preloadStarted',
      'imagePulled',
      'imagePulled',
      'bundleReady',
      'bundleActivated',
    ]);
    expect(node.runtime.mirrors()).toEqual(SERVED);
    expect(node.runtime.pins()).toEqual([referenceOf('api'), referenceOf('etcd')].sort());
    expect(node.runtime.images.get('quay.example.com/ocp/etcd:4.13.7')).toBe(referenceOf('etcd'));
    expect(node.runtime.log.filter((entry) => entry.startsWith('mirrors'))).toEqual(['mirrors 2']);
    expect(node.statuses.at(-1)).toBe(
      'DONE: ocp 4.13.7 is installed. Remove the stick. It is activated: 2 images present and pinned.',
    );
    expect(node.statuses).toContain(
      'LEAVE THE STICK IN: ocp 4.13.7 on the stick: signature by factory-2026 ok, 7 blobs found. Preloading next.',
    );
    node.media.unplug('sdb1');
    await node.clock.advance(0);
    expect(node.statuses.at(-1)).toBe('IDLE: ocp 4.13.7 activated (2 images present and pinned). Waiting for a stick.');
  });

  it('runs one round in half a minute when nothing is to be done', async () => {
    await start();
    const before = node.runtime.rounds();
    await node.clock.advance(300_000);
    expect(node.runtime.rounds() - before).toBe(10);
  });

  it('starts short pulls one after another without a round for each', async () => {
    const names = Array.from({ length: 300 }, (_none, at) => `image${at}`);
    const images = Object.fromEntries(names.map((name) => [name, ['base', name]]));
    await start();
    const before = node.runtime.rounds();
    node.plug('sdb1', verified({ schedule: 'manual', images }));
    await node.clock.advance(0);
    expect(names.filter((name) => pulled(name) !== 1)).toEqual([]);
    expect(node.runtime.rounds() - before).toBeLessThan(30);
    await node.clock.advance(1_000);
    expect(node.phase('4.13.7')).toBe('ready');
  });

  it('observes the runtime each second while pulls follow each other', async () => {
    const names = Array.from({ length: 40 }, (_none, at) => `image${at}`);
    await start([], ({ runtime, clock }) => {
      runtime.onPull = async (reference, signal) => {
        await clock.sleep(400, signal);
        runtime.images.set(reference, reference);
      };
    });
    node.plug(
      'sdb1',
      verified({ schedule: 'manual', images: Object.fromEntries(names.map((name) => [name, [name]])) }),
    );
    await node.clock.advance(0);
    const before = node.runtime.rounds();
    await node.clock.advance(5_000);
    const rounds = node.runtime.rounds() - before;
    expect(rounds).toBeGreaterThanOrEqual(4);
    expect(rounds).toBeLessThanOrEqual(8);
    await node.clock.advance(5_000);
    expect(node.phase('4.13.7')).toBe('ready');
  });

  it('starts no other pull after a cancel, whichever pull ends first', async () => {
    const names = Array.from({ length: 6 }, (_none, at) => `image${at}`);
    const ends: (() => void)[] = [];
    await start([], ({ runtime }) => {
      runtime.onPull = (reference, signal) =>
        new Promise<void>((resolve, reject) => {
          signal.addEventListener('abort', () => reject(signal.reason));
          ends.push(() => {
            runtime.images.set(reference, reference);
            resolve();
          });
        });
    });
    node.plug(
      'sdb1',
      verified({ schedule: 'manual', images: Object.fromEntries(names.map((name) => [name, [name]])) }),
    );
    await node.clock.advance(0);
    expect(ends).toHaveLength(2);
    ends[0]?.();
    node.engine.commands.cancel();
    await node.clock.advance(5_000);
    expect(ends).toHaveLength(2);
  });

  it('serves what is adopted before the first pull', async () => {
    await start([], ({ runtime }) => {
      runtime.onPull = async (reference) => {
        expect([...(node.catalog().get(reference.split('@')[0] ?? '')?.manifests ?? [])]).toContain(
          reference.split('@')[1],
        );
        runtime.images.set(reference, reference);
      };
    });
    node.plug('sdb1', verified({ schedule: 'manual' }));
    await node.clock.advance(0);
    expect(node.phase('4.13.7')).toBe('ready');
  });

  it('waits with a manual release until it is asked for', async () => {
    const manual = verified({ schedule: 'manual' });
    await start();
    expect(() => node.engine.commands.activate({ bundle: 'ocp@4.13.7' })).toThrow(
      expect.objectContaining({ code: 'engine/no-bundle', disposition: 'reject' }),
    );
    node.plug('sdb1', manual);
    await node.clock.advance(60_000);
    expect(node.phase('4.13.7')).toBe('ready');
    expect(node.runtime.images.size).toBe(2);
    node.engine.commands.activate({ bundle: 'ocp@4.13.7' });
    await node.clock.advance(0);
    expect(node.phase('4.13.7')).toBe('activated');
    expect(node.runtime.images.size).toBe(4);
    expect(node.engine.history('ocp@4.13.7', 2).map(({ kind }) => kind)).toEqual([
      'activation-requested',
      'bundleActivated',
    ]);
  });

  it('activates on request also when the clock has fallen back behind the last activation', async () => {
    const older = verified({
      sequence: 6,
      version: '4.13.6',
      images: { old: ['old'] },
      schedule: 'manual',
    });
    const marks = { readyAt: NOON, activatedAt: NOON };
    await start([stored(older, { readyAt: NOON }), stored(bundle, marks)], ({ runtime, clock }) => {
      for (const name of ['etcd', 'api', 'old']) runtime.images.set(referenceOf(name), referenceOf(name));
      clock.jump(-1_000_000_000);
    });
    expect(() => node.engine.commands.activate({ bundle: 'ocp@4.13.6' })).toThrow(
      /it is a downgrade from the current release 4\.13\.7\. Its version is lower\./,
    );
    node.engine.commands.activate({ bundle: 'ocp@4.13.6', override: true });
    await node.clock.advance(0);
    expect(node.phase('4.13.6')).toBe('activated');
    expect(node.runtime.images.get('quay.example.com/ocp/old:4.13.6')).toBe(referenceOf('old'));
    expect(node.runtime.mirrors()).toEqual([...SERVED, 'quay.example.com/ocp/old']);
  });

  it('refuses to activate what is not ready, with the reason', async () => {
    await start([stored(bundle)]);
    expect(() => node.engine.commands.activate({ bundle: bundle.bundleId })).toThrow(
      /can't be activated yet: Stick removed/,
    );
  });

  it('refuses to activate a release whose key was revoked', async () => {
    await start();
    node.plug('sdb1', verified({ schedule: 'manual' }));
    await node.clock.advance(60_000);
    node.revocations = { keyIds: [keyIdOf('factory-2026')], revocationsUnreadable: false };
    node.engine.kick();
    await node.clock.advance(0);
    expect(() => node.engine.commands.activate({ bundle: 'ocp@4.13.7' })).toThrow(
      expect.objectContaining({ code: 'engine/withdrawn' }),
    );
    expect(node.phase('4.13.7')).not.toBe('activated');
  });
});

describe('engine: an activation that lacks space', () => {
  it.each(['runtime/no-space', 'runtime/read-only'])(
    'continues soon after %s is over, and is reported from time to time',
    async (code) => {
      await start();
      const work = node.runtime.onPull;
      let isFull = true;
      node.runtime.onPull = async (reference, signal) => {
        if (isFull && !reference.includes('@')) throw fault(code, 'no space left on device');
        await work(reference, signal);
      };
      node.plug('sdb1', bundle);
      await node.clock.advance(10 * 60_000);
      expect(node.phase('4.13.7')).toBe('ready');
      expect(node.engine.report()?.bundles[0]?.degraded?.code).toBe(code);
      const status = node.statuses.at(-1) ?? '';
      expect(status).toMatch(/could not be activated: the runtime's storage \(\/var, or where it stages blobs\) is /);
      expect(kinds().filter((kind) => kind === 'activationFailed').length).toBeLessThan(5);
      isFull = false;
      await node.clock.advance(10_000);
      expect(node.phase('4.13.7')).toBe('activated');
    },
  );

  it('continues soon after its result can be recorded', async () => {
    await start();
    const { store } = node;
    const { change } = store;
    let isFull = true;
    store.change = (bundleId, fields, event) => {
      if (isFull && fields.activatedAt !== undefined) throw fault('store/no-space', '/var/lib/stickpin is full');
      change(bundleId, fields, event);
    };
    node.plug('sdb1', bundle);
    await node.clock.advance(10 * 60_000);
    expect(node.phase('4.13.7')).toBe('ready');
    isFull = false;
    await node.clock.advance(10_000);
    expect(node.phase('4.13.7')).toBe('activated');
  });
});

describe('engine: after a restart', () => {
  it('asks for the pins again and replaces mirrors that were left behind', async () => {
    const complete = stored(bundle, { readyAt: NOON, activatedAt: NOON });
    await start([complete], ({ runtime }) => {
      for (const name of ['etcd', 'api']) have(runtime, name);
      const { signal } = new AbortController();
      void runtime.applyPins([referenceOf('api'), referenceOf('etcd')], { force: false }, signal);
      void runtime.applyMirrors([{ repository: 'quay.example.com/left' }], signal);
    });
    // The last one tests whether pulls are answered.
    expect(node.runtime.log.slice(2)).toEqual(['pins 2', 'mirrors 2', `pull ${referenceOf('etcd')}`]);
    expect(node.runtime.mirrors()).toEqual(SERVED);
    expect(kinds()).toEqual(['runtimeBack']);
  });

  it('pulls wiped images again, though readyAt is set, and reports when the release is complete again', async () => {
    await start([stored(bundle, { readyAt: NOON, activatedAt: NOON })], ({ runtime }) => {
      have(runtime, 'etcd');
    });
    expect(kinds()).toEqual(['runtimeBack', 'imagesMissing']);
    expect(node.statuses.at(-1)).toMatch(
      /: 1 of 2 images of ocp 4\.13\.7 is missing\. Plug in the stick of ocp 4\.13\.7\./,
    );
    node.plug('sdb1', bundle);
    await node.clock.advance(0);
    expect(node.runtime.log.filter((entry) => entry.startsWith('pull'))).toEqual([
      // Tests whether pulls are answered.
      `pull ${referenceOf('etcd')}`,
      `pull ${referenceOf('api')}`,
      `pull ${tagOf('api')}`,
    ]);
    expect(kinds()).toContain('bundleReady');
    expect(kinds().filter((kind) => kind === 'imagesMissing')).toEqual(['imagesMissing']);
    expect(node.runtime.mirrors()).toEqual(SERVED);
  });
});

describe('engine: tags', () => {
  const remove = (name: string) => void node.runtime.images.delete(tagOf(name));
  const OTHER = 'quay.example.com/other@sha256:1';
  const steal = (name: string) => {
    node.runtime.images.set(OTHER, 'other');
    node.runtime.images.set(tagOf(name), 'other');
  };
  const named = (name: string) => node.runtime.images.get(tagOf(name));
  const tagPulls = () => node.runtime.log.filter((entry) => entry.startsWith('pull') && !entry.includes('@'));
  const complete = () =>
    start([stored(bundle, { readyAt: NOON, activatedAt: NOON })], ({ runtime }) => {
      for (const name of ['etcd', 'api']) have(runtime, name);
    });

  it('restores a lost tag, reports it, and keeps the mirrors', async () => {
    await complete();
    steal('etcd');
    remove('api');
    node.engine.kick();
    await node.clock.advance(0);
    expect([named('etcd'), named('api')]).toEqual([referenceOf('etcd'), referenceOf('api')]);
    expect(node.runtime.mirrors()).toEqual(SERVED);
    expect(node.store.rows.filter(({ kind }) => kind === 'tagsRestored')).toEqual([
      expect.objectContaining({
        bundleId: bundle.bundleId,
        message: expect.stringContaining(
          `2 tags of ocp 4.13.7 name their images again, first ${tagOf('etcd')}, which named ${OTHER} `,
        ),
      }),
    ]);
    expect(node.phase('4.13.7')).toBe('activated');
  });

  it('stops taking a tag back after three times within an hour, reports it once, and starts again with an activation', async () => {
    await complete();
    const told = () => kinds().filter((kind) => kind === 'tagContested').length;
    for (let times = 1; times <= 3; times += 1) {
      steal('etcd');
      await node.clock.advance(90_000);
      expect(named('etcd')).toBe(referenceOf('etcd'));
      expect(told()).toBe(0);
    }
    steal('etcd');
    await node.clock.advance(3 * 3_600_000);
    expect(named('etcd')).toBe('other');
    expect(tagPulls()).toHaveLength(3);
    node.runtime.isUp = false;
    await node.clock.advance(60_000);
    node.runtime.isUp = true;
    await node.clock.advance(60_000);
    expect(told()).toBe(1);
    expect(node.statuses.at(-1)).toContain(
      `A tag of ocp 4.13.7 was taken away again 3 times within an hour, so it is left alone.`,
    );
    expect(node.engine.report()?.bundles[0]?.degraded?.code).toBe('engine/tag-contested');
    node.engine.commands.activate({ bundle: 'ocp@4.13.7' });
    await node.clock.advance(0);
    expect(named('etcd')).toBe(referenceOf('etcd'));
    steal('etcd');
    await node.clock.advance(60_000);
    expect(named('etcd')).toBe(referenceOf('etcd'));
  });

  it('does not restore such a tag after a restart either, also if the disk could not be written for a while', async () => {
    await complete();
    for (let times = 1; times <= 3; times += 1) {
      node.store.fail = times < 3 ? new Error('read-only') : undefined;
      steal('etcd');
      await node.clock.advance(90_000);
      expect(named('etcd')).toBe(referenceOf('etcd'));
    }
    const isTold = ({ message }: { message: string }) => message.startsWith('How often tags were given again');
    expect(node.log.lines.filter(isTold)).toHaveLength(1);
    const { store } = node;
    await node.stop();
    node = createFakeNode([], {}, store);
    for (const name of ['etcd', 'api']) have(node.runtime, name);
    steal('etcd');
    await node.start();
    await node.clock.advance(600_000);
    expect(named('etcd')).toBe('other');
    expect(node.engine.report()?.bundles[0]?.degraded?.code).toBe('engine/tag-contested');
  });

  it('restores a tag however often it is removed, and reports that three times', async () => {
    await complete();
    for (let times = 1; times <= 12; times += 1) {
      remove('etcd');
      // As the kubelet collects images of Docker.
      await node.clock.advance(5 * 60_000);
      expect(named('etcd')).toBe(referenceOf('etcd'));
    }
    const told = node.store.rows.filter(({ kind }) => kind === 'tagsRestored').map(({ message }) => message);
    expect(told).toHaveLength(3);
    expect(told.map((message) => message.includes('third time within an hour'))).toEqual([false, false, true]);
    expect(kinds()).not.toContain('tagContested');
    expect(node.phase('4.13.7')).toBe('activated');
    // Nothing of that is written to the disk.
    expect(node.store.tagsGiven()).toEqual([]);
  });

  it('waits longer each time before it restores a tag', async () => {
    await complete();
    const losesFor = async (ms: number) => {
      remove('etcd');
      node.engine.kick();
      await node.clock.advance(ms - 1);
      expect(named('etcd')).toBeUndefined();
      await node.clock.advance(1);
      expect(named('etcd')).toBe(referenceOf('etcd'));
    };
    remove('etcd');
    node.engine.kick();
    await node.clock.advance(0);
    await losesFor(5_000);
    await losesFor(20_000);
  });

  it('backs off from a tag that can not be pulled, and says so', async () => {
    await complete();
    node.runtime.onPull = async () => {
      throw fault('runtime/pull-failed', 'no such manifest');
    };
    remove('etcd');
    await node.clock.advance(600_000);
    expect(tagPulls().length).toBeGreaterThan(3);
    expect(tagPulls().length).toBeLessThan(9);
    expect(node.engine.report()?.bundles[0]?.degraded?.message).toBe(
      `1 tag of ocp 4.13.7, first ${tagOf('etcd')}, could not be given to the right image again: no such manifest`,
    );
    expect(kinds().filter((kind) => kind === 'tagsNotRestored')).toHaveLength(2);
    expect(kinds()).not.toContain('bundleDegraded');
  });
});

describe('engine: the runtime', () => {
  it('calls nobody while it is away briefly', async () => {
    await start();
    node.runtime.isUp = false;
    node.runtime.emit();
    await node.clock.advance(50_000);
    expect(node.statuses.at(-1)).toMatch(/^WAIT \(R-02\): The container runtime does not answer/);
    expect(node.engine.report()?.needsPerson).toEqual([]);
    await node.clock.advance(60_000);
    expect(node.statuses.at(-1)).toMatch(/^CALL SUPPORT \(R-02\): /);
    node.runtime.isUp = true;
    await node.clock.advance(5_000);
    node.runtime.isUp = false;
    node.runtime.emit();
    await node.clock.advance(5_000);
    expect(node.statuses.at(-1)).toMatch(/^WAIT \(R-02\): /);
  });

  it('keeps nobody from seeing at once that a stick is plugged in or out, while it does not answer', async () => {
    await start();
    const answer = node.runtime.observe;
    let release: () => void = () => undefined;
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    node.runtime.observe = async (signal) => {
      await released;
      return answer(signal);
    };
    node.engine.kick();
    await node.clock.advance(0);
    node.plug('sdb1', bundle);
    await node.clock.advance(0);
    expect(node.statuses.at(-1)).toBe('LEAVE THE STICK IN: Reading the stick.');
    node.media.unplug('sdb1');
    await node.clock.advance(0);
    expect(node.statuses.at(-1)).toBe('IDLE: No bundle yet. Waiting for a stick.');
    node.runtime.observe = answer;
    release();
  });

  it('keeps a rejection out of STATUS once its stick is gone, while it does not answer', async () => {
    await start();
    node.media.plug('sdb1', [refused('signature by unknown key 5f0c')]);
    await node.clock.advance(0);
    expect(node.engine.report()?.rejected).toHaveLength(1);
    const answer = node.runtime.observe;
    node.runtime.observe = (signal) => untilAborted(new Promise<never>(() => undefined), signal);
    node.media.unplug('sdb1');
    await node.clock.advance(0);
    expect(node.engine.report()?.rejected).toEqual([]);
    expect(node.statuses.at(-1)).toBe('IDLE: No bundle yet. Waiting for a stick.');
    node.runtime.observe = answer;
  });

  it('waits while it is away, says so, and continues automatically soon after it is back', async () => {
    await start([], ({ runtime }) => {
      runtime.isUp = false;
    });
    node.plug('sdb1', bundle);
    await node.clock.advance(60_000);
    expect(node.statuses.at(-1)).toMatch(/: The container runtime does not answer: .* ocp 4\.13\.7 waits for it\./);
    node.runtime.isUp = true;
    await node.clock.advance(5_000);
    expect(node.phase('4.13.7')).toBe('activated');
    expect(kinds().filter((kind) => kind === 'runtimeUnreachable')).toHaveLength(1);
  });

  it.each([
    ['a pull', (reference: string) => reference.includes('@')],
    ['an activation', (reference: string) => !reference.includes('@')],
  ])('breaks off %s when it is being stopped, which is no failure', async (_what, isBroken) => {
    await start([], ({ runtime }) => {
      const pull = runtime.onPull;
      let isStopped = false;
      runtime.onPull = async (reference, signal) => {
        if (isStopped || !isBroken(reference)) return pull(reference, signal);
        isStopped = true;
        runtime.isUp = false;
        throw new AppError({
          code: 'runtime/stopping',
          message: 'crio.service is being stopped',
          disposition: 'retry',
        });
      };
    });
    node.plug('sdb1', bundle);
    await node.clock.advance(1_000);
    expect(node.engine.report()?.runtime.reachable).toBe(false);
    node.runtime.isUp = true;
    node.runtime.emit();
    await node.clock.advance(100);
    expect(node.phase('4.13.7')).toBe('activated');
    expect(kinds().filter((kind) => /Failed|Degraded/.test(kind))).toEqual([]);
  });

  it('continues at once when a signal reports that it is back', async () => {
    await start([], ({ runtime }) => {
      runtime.isUp = false;
    });
    node.plug('sdb1', bundle);
    await node.clock.advance(0);
    node.runtime.isUp = true;
    node.runtime.emit();
    await node.clock.advance(0);
    expect(node.phase('4.13.7')).toBe('activated');
  });

  it('requests missing pins again with growing pauses, shows the reason, and accepts them once they are reported', async () => {
    await start([], ({ runtime }) => {
      runtime.pinsHold = false;
    });
    node.plug('sdb1', bundle);
    await node.clock.advance(100);
    const forced = () => node.runtime.log.filter((entry) => entry === 'pins 2 by force').length;
    expect(forced()).toBe(0);
    await node.clock.advance(1_000);
    expect(forced()).toBe(1);
    await node.clock.advance(6_000);
    expect(forced()).toBe(3);
    expect(node.statuses.at(-1)).toMatch(
      /: 2 of 2 images of ocp 4\.13\.7 are present and not pinned\. Find another file of CRI-O/,
    );
    expect(node.phase('4.13.7')).toBe('held');
    await node.clock.advance(600_000);
    expect(forced()).toBeLessThan(20);
    node.runtime.pinsHold = true;
    await node.clock.advance(60_000);
    expect(node.phase('4.13.7')).toBe('activated');
  });

  it('does not report a fault at once when pins are lost much later', async () => {
    await start([], ({ runtime }) => {
      runtime.pinsHold = false;
    });
    node.plug('sdb1', bundle);
    await node.clock.advance(4_000);
    node.runtime.pinsHold = true;
    await node.clock.advance(60_000);
    expect(node.phase('4.13.7')).toBe('activated');
    node.runtime.pinsHold = false;
    node.runtime.emit();
    await node.clock.advance(4_000);
    node.runtime.pinsHold = true;
    await node.clock.advance(60_000);
    expect(kinds().filter((kind) => kind === 'pinsNotTaken')).toEqual([]);
  });
});

describe('engine: pulls that fail', () => {
  it('tries soon again when the runtime never came to the registry, without telling each time', async () => {
    let tries = 0;
    await start([], ({ runtime }) => {
      runtime.onPull = async (reference) => {
        tries += 1;
        if (tries <= 3) throw fault('runtime/pull-failed', 'lookup quay.example.com: no such host');
        asked(reference.includes('etcd') ? 'etcd' : 'api');
        runtime.images.set(reference, reference);
      };
    });
    node.plug('sdb1', verified({ schedule: 'manual' }));
    await node.clock.advance(2_000);
    expect(node.phase('4.13.7')).toBe('ready');
    expect(kinds()).not.toContain('pullFailed');
  });

  it('names the damaged blob, pulls the rest, and tries again with another stick only', async () => {
    const damaged = digestOf('layer etcd');
    await start([], ({ runtime }) => {
      runtime.onPull = async (reference) => {
        asked(reference.includes('etcd') ? 'etcd' : 'api');
        const isBad = reference.includes('etcd') && node.blobs.get(damaged)?.toString() !== 'layer etcd';
        if (isBad) throw fault('runtime/digest-mismatch', 'Digest did not match');
        runtime.images.set(reference, reference);
      };
      for (const text of ['layer base', 'image etcd']) node.blobs.set(digestOf(text), Buffer.from(text));
      node.blobs.set(damaged, Buffer.from('layer etcX'));
      node.meter.sent.set(digestOf('layer base'), 10);
      node.meter.sent.set(damaged, 10);
    });
    const manual = verified({ schedule: 'manual' });
    node.plug('sdb1', manual);
    await node.clock.advance(3_600_000);
    expect(pulled('etcd')).toBe(1);
    expect(pulled('api')).toBe(1);
    expect(node.phase('4.13.7')).toBe('held');
    expect(node.statuses.at(-1)).toMatch(
      / \(M-12\): ocp 4\.13\.7 needs an undamaged copy\. Plug in another copy of it\. Copy the bundle to a stick/,
    );
    expect(kinds().filter((kind) => kind === 'blobDamaged')).toHaveLength(1);
    const told = node.log.lines.find(({ fields }) => fields.messageId === messageIds.blobDamaged);
    const file = `stickpin/ocp/blobs/${damaged.replace(':', '/')}`;
    expect(told?.fields).toMatchObject({ digest: damaged, medium: 'sdb1', file, image: referenceOf('etcd') });
    expect(told?.message).toContain(`File on sdb1: ${file}. Image: ${referenceOf('etcd')}.`);
    expect(node.runtime.mirrors()).toEqual([]);
    node.media.unplug('sdb1');
    await node.clock.advance(0);
    node.blobs.set(damaged, Buffer.from('layer etcd'));
    node.plug('sdb1', manual);
    await node.clock.advance(0);
    expect(node.phase('4.13.7')).toBe('ready');
  });

  it('tries again with growing pauses, then every five minutes, never in a busy loop', async () => {
    await start([], ({ runtime }) => {
      runtime.onPull = async () => {
        asked('etcd');
        asked('api');
        throw fault('runtime/pull-failed', 'rpc error');
      };
    });
    for (const text of ['layer base', 'layer etcd', 'layer api', 'image etcd', 'image api']) {
      node.blobs.set(digestOf(text), Buffer.from(text));
    }
    node.plug('sdb1', bundle);
    await node.clock.advance(26_000);
    expect(pulled('etcd')).toBe(6);
    expect(node.engine.report()?.bundles[0]?.degraded?.message).toMatch(/could not be pulled: rpc error/);
    await node.clock.advance(600_000);
    expect(pulled('etcd')).toBe(8);
    // Each image once, whatever the number of tries, and once that quick tries did not help.
    expect(kinds().filter((kind) => kind === 'pullFailed' || kind === 'bundleDegraded')).toEqual([
      'pullFailed',
      'pullFailed',
      'bundleDegraded',
    ]);
    expect(node.runtime.rounds()).toBeLessThan(120);
    expect(node.statuses.at(-1)).toMatch(/Problem: The runtime could not pull an image\.$/);
  });

  it('names a blob that the runtime asks for and the bundle lacks', async () => {
    await start([], ({ runtime, blobs, meter }) => {
      for (const text of ['layer base', 'layer etcd', 'layer api', 'image etcd', 'image api'])
        blobs.set(digestOf(text), Buffer.from(text));
      runtime.onPull = async (reference) => {
        asked(reference.includes('etcd') ? 'etcd' : 'api');
        meter.unknown = { count: meter.unknown.count + 1, last: digestOf('of another platform') };
        throw fault('runtime/not-found', 'manifest unknown');
      };
    });
    node.plug('sdb1', bundle);
    await node.clock.advance(26_000);
    expect(node.engine.report()?.bundles[0]?.degraded?.message).toContain(
      `the runtime asked for ${digestOf('of another platform')} to pull`,
    );
    expect(kinds()).toContain('notInBundle');
  });

  it('reports many refusals by policy.json in two lines, and again only when their number changes', async () => {
    const names = Array.from({ length: 40 }, (_, index) => `i${index}`);
    const wide = verified({ images: Object.fromEntries(names.map((name) => [name, [name]])), schedule: 'manual' });
    let admitted = '';
    await start([], ({ runtime }) => {
      runtime.onPull = async (reference) => {
        if (reference !== admitted) throw fault('runtime/policy', 'Source image rejected');
        runtime.images.set(reference, reference);
      };
    });
    const refusals = () => node.store.rows.filter(({ kind }) => kind === 'policyRefused').map(({ message }) => message);
    node.plug('sdb1', wide);
    await node.clock.advance(20 * 60_000);
    expect(refusals()).toEqual([
      expect.stringMatching(/policy\.json refuses quay\.example\.com\/ocp\/i0@/),
      expect.stringMatching(
        /^policy\.json of this node refuses 40 images of ocp 4\.13\.7\. The runtime says of the first one: .*i0@/,
      ),
    ]);
    expect(kinds()).not.toContain('pullFailed');
    expect(pulled('i0')).toBe(5);
    admitted = referenceOf('i39');
    await node.clock.advance(10 * 60_000);
    expect(refusals().slice(2)).toEqual([expect.stringContaining('refuses 39 images')]);
    expect(node.statuses.at(-1)).toContain('refuses 39 images');
  });

  it('cancels a stalled pull, reports it once, and tries it again', async () => {
    const stuck: string[] = [];
    await start([], ({ runtime, clock }) => {
      runtime.onPull = async (reference, signal) => {
        if (reference !== referenceOf('etcd') || stuck.length >= 2)
          return void runtime.images.set(reference, reference);
        stuck.push(reference);
        await clock.sleep(86_400_000, signal);
      };
    });
    node.meter.flow = { open: 1, opened: 1 };
    node.plug('sdb1', verified({ schedule: 'manual' }));
    await node.clock.advance(89_000);
    expect(pulled('etcd')).toBe(1);
    await node.clock.advance(300_000);
    expect(pulled('etcd')).toBe(3);
    expect(node.phase('4.13.7')).toBe('ready');
    expect(kinds().filter((kind) => kind === 'pullStalled')).toHaveLength(1);
  });

  it('stops all pulls when the disk fills up in mid-pull, keeps the pins, and continues automatically', async () => {
    const wide = verified({ images: { a: ['a'], b: ['b'], c: ['c'] }, schedule: 'manual' });
    let isFull = true;
    const ends: string[] = [];
    await start([], ({ runtime, clock }) => {
      runtime.onPull = async (reference, signal) => {
        if (!isFull) return void runtime.images.set(reference, reference);
        if (reference === referenceOf('a')) throw fault('runtime/no-space', 'no space left on device');
        await clock.sleep(3_600_000, signal).catch((error: unknown) => {
          ends.push(reference);
          throw error;
        });
      };
    });
    node.plug('sdb1', wide);
    await node.clock.advance(0);
    expect(ends).toEqual([referenceOf('b')]);
    expect(node.statuses.at(-1)).toMatch(/: the runtime's disk is full while pulling \S+a@\S+ of ocp 4\.13\.7\b/);
    expect(node.engine.report()?.bundles[0]).toMatchObject({ phase: 'held', hold: 'space' });
    expect(kinds().filter((kind) => kind === 'pullFailed' || kind === 'diskFull')).toEqual(['diskFull']);
    expect(pulled('c')).toBe(0);
    expect(node.runtime.pins()).toHaveLength(3);
    isFull = false;
    await node.clock.advance(10_000);
    expect(node.phase('4.13.7')).toBe('ready');
  });

  it('counts a pull as done only when the runtime lists the image, and does not pull in a busy loop', async () => {
    await start([], ({ runtime }) => {
      runtime.onPull = async () => undefined;
    });
    node.plug('sdb1', bundle);
    await node.clock.advance(60_000);
    expect(pulled('etcd')).toBeLessThan(8);
    expect(kinds().filter((kind) => kind === 'imagePulled').length).toBeLessThan(3);
    expect(node.statuses.at(-1)).toMatch(/Problem: The runtime does not list an image that it has pulled\.$/);
  });

  it('leaves no task behind when it is stopped in mid-pull', async () => {
    let ended = 0;
    await start([], ({ runtime }) => {
      runtime.onPull = (_reference, signal) =>
        new Promise((_resolve, reject) => {
          signal.addEventListener('abort', () => {
            ended += 1;
            reject(signal.reason);
          });
        });
    });
    node.plug('sdb1', verified({ images: { a: ['a'], b: ['b'], c: ['c'] } }));
    await node.clock.advance(0);
    expect(node.engine.report()?.operation).toBe('preloading');
    await node.stop();
    expect(ended).toBe(2);
    expect(kinds()).not.toContain('pullFailed');
    expect(node.log.lines.filter(({ level }) => level === 'error')).toEqual([]);
  });

  it('remembers which medium had a bundle, and reports how it was lost', async () => {
    await start([], ({ runtime }) => {
      runtime.onPull = () => Promise.reject(fault('runtime/pull-failed', 'not found'));
    });
    node.plug('sdb1', bundle);
    await node.clock.advance(1);
    node.media.unmount('sdb1');
    await node.clock.advance(30_000);
    expect(node.statuses.at(-1)).toBe(
      "PLUG IN THE STICK AGAIN (M-10): The stick was unmounted while preloading ocp 4.13.7 (0/2 images). 'stickpin rescan' mounts it again.",
    );
    expect(kinds()).toContain('mediumUnmounted');
    node.media.unplug('sdb1');
    await node.clock.advance(30_000);
    expect(node.statuses.at(-1)).toBe(
      'PLUG IN THE STICK AGAIN (M-10): Stick removed while preloading ocp 4.13.7 (0/2 images).',
    );
    expect(kinds()).toContain('preloadPaused');
    node.plug('/srv/bundles', bundle);
    await node.clock.advance(1);
    node.media.unplug('/srv/bundles');
    await node.clock.advance(30_000);
    expect(node.statuses.at(-1)).toBe(
      'PLUG IN THE STICK (M-10): ocp 4.13.7 was taken out of /srv/bundles while preloading (0/2 images). Put it back, or plug in its stick, to continue.',
    );
  });

  it('checks once in each round whether media are still mounted', async () => {
    let looks = 0;
    await start([], ({ media }) => {
      media.refresh = async () => {
        looks += 1;
      };
    });
    await node.clock.advance(90_000);
    expect(looks).toBe(node.runtime.rounds());
  });

  it('continues a preload when its stick is removed and plugged in again', async () => {
    let release: () => void = () => undefined;
    await start([], ({ runtime }) => {
      runtime.onPull = async (reference) => {
        asked(reference.includes('etcd') ? 'etcd' : 'api');
        if (reference.includes('api'))
          await new Promise<void>((_resolve, reject) => {
            release = () => reject(fault('runtime/pull-failed', 'unexpected EOF'));
          });
        runtime.images.set(reference, reference);
      };
    });
    node.plug('sdb1', bundle);
    await node.clock.advance(0);
    node.media.unplug('sdb1');
    await node.clock.advance(0);
    expect(node.statuses.at(-1)).toBe(
      'PLUG IN THE STICK AGAIN (M-10): Stick removed while preloading ocp 4.13.7 (1/2 images).',
    );
    expect(kinds()).toContain('mediumGone');
    expect(node.runtime.mirrors()).not.toEqual([]);
    release();
    await node.clock.advance(1_000);
    expect(node.phase('4.13.7')).toBe('held');
    expect(node.runtime.mirrors()).toEqual([]);
    node.runtime.onPull = async (reference) => void node.runtime.images.set(reference, reference);
    node.plug('sdc1', bundle);
    await node.clock.advance(0);
    expect(node.runtime.log.filter((entry) => entry === `pull ${referenceOf('etcd')}`)).toHaveLength(1);
    expect(node.runtime.images.has(referenceOf('api'))).toBe(true);
  });
});

describe('engine: space for kept layers', () => {
  /** Room for 75 MiB of images, and not for the 30 MiB of their compressed layers. */
  const plugWith = async (path: string, keepBlobs: boolean) => {
    node = createFakeNode([], { retention: { ...POLICY.retention, blobs: keepBlobs ? 'kept' : 'metadata' } });
    node.runtime.filesystem = { path, totalBytes: 40 * GIB, freeBytes: 6 * GIB + 80 * MIB };
    await node.start();
    node.plug('sdb1', bundle);
    await node.clock.advance(0);
    return node.phase('4.13.7');
  };

  it.each([
    ['/var/lib/containers', true, 'held'],
    ['/var/lib/containers', false, 'activated'],
    ['/images', true, 'activated'],
  ])('images on %s, layers kept: %s', async (path, keepBlobs, phase) => {
    expect(await plugWith(path, keepBlobs)).toBe(phase);
  });
});

describe('engine: images from elsewhere', () => {
  const told = () => node.log.lines.filter(({ message }) => message.includes("though not from stickpin's registry"));

  it('warns once about an image that was pulled without a request to its registry', async () => {
    await start([], ({ runtime }) => {
      runtime.asksUs = false;
    });
    node.plug('sdb1', bundle);
    await node.clock.advance(0);
    expect(node.phase('4.13.7')).toBe('activated');
    expect(told().map(({ level }) => level)).toEqual(['warn', 'debug']);
  });

  it('gives no such warning when all images came from its registry', async () => {
    await start();
    node.plug('sdb1', bundle);
    await node.clock.advance(0);
    expect(told()).toEqual([]);
  });
});

describe('engine: mirrors that take effect late', () => {
  const references = ['etcd', 'api'].map((name) => referenceOf(name));
  const imagePulls = () => node.runtime.log.filter((entry) => references.some((one) => entry === `pull ${one}`));
  const probes = () => node.runtime.log.filter((entry) => /^pull .*@/.test(entry)).length - imagePulls().length;
  const begin = async () => {
    await start([], ({ runtime }) => {
      runtime.mirrorsTakeEffect = 'late';
      runtime.asksUs = false;
      const { onPull } = runtime;
      runtime.onPull = async (reference, signal) => {
        // What a probe asks for is nowhere.
        if (!reference.includes('@') || references.includes(reference)) await onPull(reference, signal);
      };
    });
    node.plug('sdb1', bundle);
    await node.clock.advance(3_000);
  };

  it('pulls no image before the runtime has asked the registry, and probes once for all images', async () => {
    await begin();
    expect(imagePulls()).toEqual([]);
    expect(probes()).toBeGreaterThan(3);
    expect(node.phase('4.13.7')).toBe('preloading');
    node.runtime.asksUs = true;
    const before = probes();
    await node.clock.advance(500);
    expect(imagePulls()).toHaveLength(3); // one tests whether pulls are answered; the tags need no probes of their own
    expect(probes()).toBe(before + 1);
    expect(node.phase('4.13.7')).toBe('activated');
    expect(kinds()).not.toContain('pullFailed');
  });

  it('reports once that the runtime does not ask the registry, and pulls anyway', async () => {
    await begin();
    await node.clock.advance(10_000);
    expect(imagePulls().length).toBeGreaterThanOrEqual(2);
    const told = node.log.lines.filter(({ message }) => message.includes('although its mirrors are written'));
    expect(told).toHaveLength(1);
    expect(node.phase('4.13.7')).toBe('ready');
  });
});

describe('engine: activation', () => {
  it('pulls only the tags that do not name their image yet', async () => {
    await start([stored(bundle, { readyAt: NOON })], ({ runtime }) => {
      for (const name of ['etcd', 'api']) runtime.images.set(referenceOf(name), referenceOf(name));
      runtime.images.set('quay.example.com/ocp/etcd:4.13.7', referenceOf('etcd'));
      runtime.images.set('quay.example.com/ocp/api:4.13.7', 'the one of the running release');
    });
    expect(node.phase('4.13.7')).toBe('activated');
    expect(node.runtime.log.filter((entry) => entry.startsWith('pull'))).toEqual([
      'pull quay.example.com/ocp/api:4.13.7',
      `pull ${referenceOf('etcd')}`, // tests whether pulls are answered
    ]);
  });

  it('pulls no tag before a runtime that reloads late has asked the registry, retries soon, and reports a long wait', async () => {
    await start([stored(bundle, { readyAt: NOON })], ({ runtime }) => {
      for (const name of ['etcd', 'api']) runtime.images.set(referenceOf(name), referenceOf(name));
      runtime.mirrorsTakeEffect = 'late';
      runtime.asksUs = false;
    });
    const tags = () => node.runtime.log.filter((entry) => /^pull [^@]+$/.test(entry));
    await node.clock.advance(2_000);
    expect(pulled('etcd')).toBeGreaterThan(5);
    expect(tags()).toEqual([]);
    expect(kinds()).not.toContain('activationFailed');
    await node.clock.advance(2_000);
    expect(kinds().filter((kind) => kind === 'activationFailed')).toHaveLength(1);
    expect(node.runtime.mirrors()).toEqual(['quay.example.com/ocp/api', 'quay.example.com/ocp/etcd']);
    node.runtime.asksUs = true;
    await node.clock.advance(1_000);
    expect(node.phase('4.13.7')).toBe('activated');
    expect(tags()).toHaveLength(2);
  });

  it('removes a tag that names another image after the pull, reports it, and tries again', async () => {
    const tag = 'quay.example.com/ocp/etcd:4.13.7';
    let isForeign = true;
    await start([], ({ runtime }) => {
      const { onPull } = runtime;
      runtime.onPull = async (reference, signal) => {
        if (isForeign && reference === tag) runtime.images.set(tag, 'foreign');
        else await onPull(reference, signal);
      };
    });
    node.plug('sdb1', bundle);
    await node.clock.advance(0);
    expect(node.phase('4.13.7')).toBe('ready');
    expect(node.runtime.images.has(tag)).toBe(false);
    expect(node.runtime.log).toContain(`remove ${tag}`);
    expect(node.statuses.at(-1)).toMatch(/could not be activated: .*:4\.13\.7 does not name /);
    isForeign = false;
    await node.clock.advance(2_000);
    expect(node.phase('4.13.7')).toBe('activated');
    expect(node.runtime.mirrors()).toEqual(SERVED);
    expect(kinds().filter((kind) => kind === 'activationFailed')).toHaveLength(1);
  });
});

describe('engine: cancel', () => {
  const wide = verified({ images: { a: ['a'], b: ['b'], c: ['c'] }, schedule: 'manual' });
  const ended: string[] = [];
  let isSlow = true;
  const begin = async (initial: readonly StoredBundle[] = [], isLooked = true) => {
    ended.length = 0;
    isSlow = true;
    await start(initial, ({ runtime, clock, media }) => {
      media.isLooked = isLooked;
      runtime.onPull = async (reference, signal) => {
        if (isSlow && reference !== referenceOf('a')) {
          await clock.sleep(3_600_000, signal).finally(() => ended.push(reference));
        }
        runtime.images.set(reference, reference);
      };
    });
    node.meter.flow = { opened: 1, open: 1, awaitingMedium: 1 };
  };

  it('cancels the pulls, says how to continue, and keeps bundle, images and pins', async () => {
    await begin();
    node.plug('sdb1', wide);
    await node.clock.advance(0);
    node.engine.commands.cancel();
    await node.clock.advance(600_000);
    expect(ended.sort()).toEqual([referenceOf('b'), referenceOf('c')].sort());
    expect([...node.runtime.images.keys()]).toEqual([referenceOf('a')]);
    expect(node.engine.report()?.bundles[0]).toMatchObject({ phase: 'held', hold: 'cancelled' });
    expect(node.statuses.at(-1)).toMatch(
      /^REMOVE THE STICK \(M-15\): The preload of ocp 4\.13\.7 was cancelled \(1\/3 images\)\. To continue, plug its stick /,
    );
    expect(kinds().filter((kind) => kind === 'preloadCancelled')).toHaveLength(1);
    expect(node.runtime.pins()).toHaveLength(3);
    expect(node.runtime.mirrors()).toEqual([]);
    expect(() => node.engine.commands.cancel()).toThrow(expect.objectContaining({ code: 'engine/nothing-to-cancel' }));
    isSlow = false;
    node.engine.commands.resume();
    await node.clock.advance(0);
    expect(node.phase('4.13.7')).toBe('ready');
  });

  it('stays cancelled over a restart with the same stick, and continues with a newly plugged one', async () => {
    await begin([stored(wide, { cancelled: { at: NOON, media: ['sdb1'] } })], false);
    isSlow = false;
    node.plug('sdb1', wide);
    node.media.isLooked = true;
    node.plug('sdc1', verified({ name: 'tools', images: { shell: ['shell'] } }));
    await node.clock.advance(60_000);
    expect(node.engine.report()?.bundles[0]).toMatchObject({ hold: 'cancelled', images: { present: 0 } });
    node.media.unplug('sdb1');
    node.plug('sdd1', wide);
    await node.clock.advance(0);
    expect(node.phase('4.13.7')).toBe('ready');
    expect(node.store.load().bundles[0]?.cancelled).toBeUndefined();
  });

  it('continues with the same medium once it was away, as a folder or a stick after a boot', async () => {
    await begin([stored(wide, { cancelled: { at: NOON, media: ['sdb1'] } })]);
    isSlow = false;
    expect(node.store.load().bundles[0]?.cancelled).toEqual({ at: NOON, media: [] });
    node.plug('sdb1', wide);
    await node.clock.advance(0);
    expect(node.phase('4.13.7')).toBe('ready');
    expect(node.store.load().bundles[0]?.cancelled).toBeUndefined();
  });

  it('ends when all images are present, so that lost images are pulled again later', async () => {
    await begin([stored(wide, { cancelled: { at: NOON, media: [] } })]);
    for (const name of ['a', 'b', 'c']) node.runtime.images.set(referenceOf(name), referenceOf(name));
    await node.clock.advance(60_000);
    expect(node.store.load().bundles[0]?.cancelled).toBeUndefined();
    expect(node.phase('4.13.7')).toBe('ready');
  });
});

describe('engine: faults that must not stop it', () => {
  it('reports an effect that throws once, in STATUS too, tries it again after a pause, and continues with the rest', async () => {
    await start([], ({ runtime }) => {
      runtime.failPins = fault('runtime/config', '/etc/crio/crio.conf is broken');
    });
    node.plug('sdb1', bundle);
    await node.clock.advance(30_000);
    const tries = node.runtime.log.filter((entry) => entry.startsWith('pins')).length;
    expect(tries).toBeGreaterThan(3);
    expect(tries).toBeLessThan(40);
    expect(node.log.lines.filter(({ message }) => /crio\.conf is broken/.test(message))).toHaveLength(1);
    expect(node.log.kinds().filter((kind) => kind === 'roundFailed')).toHaveLength(1);
    expect(node.statuses.at(-1)).toBe(
      'CALL SUPPORT (R-08): Rendering the pins failed: /etc/crio/crio.conf is broken. It is retried automatically.',
    );
    node.runtime.failPins = undefined;
    await node.clock.advance(60_000);
    expect(node.phase('4.13.7')).toBe('activated');
  });

  it('calls nobody for an effect that fails for a moment', async () => {
    await start([], ({ runtime }) => {
      runtime.failPins = fault('runtime/unreachable', 'CRI-O was restarted');
    });
    node.plug('sdb1', bundle);
    await node.clock.advance(5_000);
    expect(node.statuses.at(-1)).toMatch(/^LEAVE THE STICK IN \(R-02\): /);
    node.runtime.failPins = undefined;
    await node.clock.advance(60_000);
    expect(node.phase('4.13.7')).toBe('activated');
    expect(node.statuses.filter((status) => status.startsWith('CALL SUPPORT'))).toEqual([]);
  });

  it('does not run in a busy loop when an effect fails and signals a change each time', async () => {
    await start();
    node.media.failRead = fault('media/read', 'input/output error');
    node.plug('sdb1', bundle);
    const before = node.runtime.rounds();
    await node.clock.advance(10_000);
    expect(node.runtime.rounds() - before).toBeLessThan(30);
    node.media.failRead = undefined;
    await node.clock.advance(60_000);
    expect(node.phase('4.13.7')).toBe('activated');
  });

  it.each(['fails', 'has no effect'])(
    'waits longer each time before an effect that %s, whatever asks for rounds',
    async (how) => {
      await start([], ({ runtime }) => {
        const { observe } = runtime;
        runtime.observe = async (signal) => {
          const seen = await observe(signal);
          return seen.kind === 'reachable' ? { ...seen, renderedMirrors: [] } : seen;
        };
        runtime.applyMirrors = async () => {
          runtime.log.push('mirrors');
          runtime.emit();
          if (how === 'fails') throw fault('runtime/write', '/etc is read-only');
        };
      });
      node.plug('sdb1', bundle);
      for (let second = 0; second < 600; second += 1) {
        node.runtime.emit();
        await node.clock.advance(1_000);
      }
      const tries = node.runtime.log.filter((entry) => entry === 'mirrors').length;
      expect(tries).toBeGreaterThan(15);
      expect(tries).toBeLessThanOrEqual(28);
    },
  );

  it('applies pins with their own reload while the mirrors wait for another try', async () => {
    const options: (boolean | undefined)[] = [];
    await start([], ({ runtime }) => {
      const { applyPins } = runtime;
      runtime.applyPins = async (references, given, signal) => {
        options.push(given.mirrorsFollow);
        await applyPins(references, given, signal);
      };
      runtime.applyMirrors = async () => {
        throw fault('runtime/write', '/etc is read-only');
      };
      runtime.pinsHold = false;
      for (const name of ['api', 'etcd']) have(runtime, name);
    });
    node.plug('sdb1', bundle);
    await node.clock.advance(30_000);
    expect(options.filter(Boolean).length).toBeGreaterThan(0);
    // A reload that waits for mirrors that are not tried would never be made.
    expect(options.filter((follow) => !follow).length).toBeGreaterThan(0);
  });

  it('is not blocked by a stick that is very slow to read, and reads it only once', async () => {
    await start();
    const { read } = node.media;
    const reads: string[] = [];
    node.media.read = async (mediumId, signal) => {
      reads.push(mediumId);
      if (mediumId === 'sdb1') await node.clock.sleep(600_000, signal);
      await read(mediumId, signal);
    };
    node.plug('sdb1', verified({ name: 'tools', images: { shell: ['shell'] } }));
    await node.clock.advance(0);
    node.plug('sdc1', bundle);
    await node.clock.advance(60_000);
    expect(node.phase('4.13.7')).toBe('activated');
    expect(node.engine.report()?.media.map(({ state }) => state)).toEqual(['reading', 'read']);
    expect(node.engine.idleMs()).toBeLessThan(60_000);
    await node.clock.advance(600_000);
    expect(reads.filter((mediumId) => mediumId === 'sdb1')).toHaveLength(1);
    expect(node.engine.report()?.bundles.map(({ name, phase }) => `${name} ${phase}`)).toContain('tools activated');
  });

  it('does not let one medium that fails keep the others from being read', async () => {
    await start();
    node.media.failRead = fault('media/read', 'input/output error');
    node.plug('sdb1', bundle);
    await node.clock.advance(0);
    const { read } = node.media;
    node.media.read = async (mediumId, signal) => {
      if (mediumId !== 'sdb1') node.media.failRead = undefined;
      await read(mediumId, signal);
      node.media.failRead = fault('media/read', 'input/output error');
    };
    node.plug('sdc1', bundle);
    await node.clock.advance(60_000);
    expect(node.phase('4.13.7')).toBe('activated');
  });

  it('continues and writes to the journal when the history can not be written', async () => {
    await start();
    node.store.fail = new Error('database or disk is full');
    node.plug('sdb1', bundle);
    await node.clock.advance(60_000);
    expect(node.log.lines.some(({ message }) => message === 'sdb1 found, with 1 bundle on it')).toBe(true);
    expect(node.statuses.at(-1)).toMatch(/Taking up ocp 4\.13\.7 failed: database or disk is full/);
    node.store.fail = undefined;
    await node.clock.advance(60_000);
    expect(node.phase('4.13.7')).toBe('activated');
  });

  /** From the first record of this kind on, nothing gets to the disk until the signal aborts. */
  const holdDisk = (made: FakeNode, kind: string, signal: AbortSignal) => {
    made.store.settled = async () => {
      if (!made.store.rows.some((row) => row.kind === kind) || signal.aborted) return;
      await made.clock.sleep(600_000, signal).catch(() => undefined);
    };
  };

  it('starts no effect before the records that it depends on are on the disk', async () => {
    const onDisk = new AbortController();
    await start([], (made) => holdDisk(made, 'bundleVerified', onDisk.signal));
    node.plug('sdb1', bundle);
    await node.clock.advance(0);
    expect(node.statuses.at(-1)).not.toMatch(/: Preloading/);
    await node.clock.advance(60_000);
    expect(kinds()).toContain('bundleVerified');
    expect([node.phase('4.13.7'), node.runtime.mirrors()]).toEqual(['preloading', []]);
    onDisk.abort();
    await node.clock.advance(0);
    expect(node.phase('4.13.7')).toBe('activated');
  });

  it('pulls no image before the disk has the record of it', async () => {
    const onDisk = new AbortController();
    await start([], (made) => {
      const { setPulledByUs } = made.store;
      made.store.setPulledByUs = (reference, isPulledByUs) => {
        setPulledByUs(reference, isPulledByUs);
        holdDisk(made, 'preloadStarted', onDisk.signal);
      };
    });
    node.plug('sdb1', bundle);
    await node.clock.advance(0);
    expect(node.store.load().pulledByUs?.size).toBeGreaterThan(0);
    expect([pulled('etcd'), pulled('api')]).toEqual([0, 0]);
    onDisk.abort();
    await node.clock.advance(0);
    expect(node.phase('4.13.7')).toBe('activated');
  });

  it('starts no pull that was cancelled while the disk was busy', async () => {
    const onDisk = new AbortController();
    const names = ['etcd', 'api', 'dns', 'proxy'];
    await start([], (made) => {
      made.runtime.onPull = async (reference, signal) => {
        await made.clock.sleep(400, signal);
        made.runtime.images.set(reference, reference);
      };
      holdDisk(made, 'imagePulled', onDisk.signal);
    });
    node.plug('sdb1', verified({ images: Object.fromEntries(names.map((name) => [name, [name]])) }));
    await node.clock.advance(450);
    expect(kinds()).toContain('imagePulled');
    node.engine.commands.cancel();
    await node.clock.advance(5_000);
    onDisk.abort();
    await node.clock.advance(60_000);
    expect(names.map(pulled).reduce((sum, count) => sum + count)).toBe(2);
  });

  it('starts no pull that was cancelled while the round that decided on it waited for the disk', async () => {
    const onDisk = new AbortController();
    await start([], (made) => {
      made.store.settled = async () => {
        if (made.runtime.mirrors().length === 0 || onDisk.signal.aborted) return;
        await made.clock.sleep(600_000, onDisk.signal).catch(() => undefined);
      };
    });
    node.plug('sdb1', bundle);
    await node.clock.advance(1_000);
    expect(node.runtime.mirrors()).not.toEqual([]);
    node.engine.commands.cancel();
    onDisk.abort();
    await node.clock.advance(60_000);
    expect(node.runtime.log.filter((entry) => entry.startsWith('pull '))).toEqual([]);
    expect(node.runtime.mirrors()).toEqual([]);
  });

  it('skips effects whose record could not be written, and tries again', async () => {
    await start();
    let failures = 0;
    node.store.settled = async () => {
      if (kinds().includes('bundleVerified') && failures++ < 6) throw fault('store/write', 'state.db: EIO');
    };
    node.plug('sdb1', bundle);
    await node.clock.advance(1_500);
    expect(node.runtime.mirrors()).toEqual([]);
    expect(node.statuses.at(-1)).toMatch(/state\.db: EIO/);
    await node.clock.advance(60_000);
    expect(node.phase('4.13.7')).toBe('activated');
  });

  it('reports a read-only disk while a record waits for it, and continues when it can be written', async () => {
    const readOnly = fault('store/read-only', 'state.db: its filesystem is read-only');
    let isReadOnly = false;
    let published: string | undefined;
    await start([], (made) => {
      made.onStatus = ({ status }) => {
        published = status;
      };
      made.store.trouble = () => (isReadOnly ? { code: readOnly.code, message: readOnly.message } : undefined);
      made.store.settled = async () => {
        if (isReadOnly) throw readOnly;
      };
    });
    isReadOnly = true;
    node.plug('sdb1', bundle);
    await node.clock.advance(12_000);
    expect(published).toMatch(/filesystem is read-only/);
    expect(node.runtime.mirrors()).toEqual([]);
    isReadOnly = false;
    await node.clock.advance(12_000);
    expect(node.phase('4.13.7')).toBe('activated');
  });

  it('continues when a listener of its status throws', async () => {
    await start([], (made) => {
      made.onStatus = () => {
        throw new Error('bus is gone');
      };
    });
    node.plug('sdb1', bundle);
    await node.clock.advance(0);
    expect(node.phase('4.13.7')).toBe('activated');
  });

  it('does not wait for a clock service that fails', async () => {
    await start([], (made) => {
      made.clockSynchronised = async () => Promise.reject(new Error('no timedated'));
    });
    node.plug('sdb1', bundle);
    await node.clock.advance(0);
    expect(node.phase('4.13.7')).toBe('activated');
  });
});

describe('engine: bundles that come in', () => {
  it('reports nothing each second for a bundle that was kept and is refused since', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    onTestFinished(() => void vi.useRealTimers());
    await start([], (made) => {
      made.beforeRead = (_digest, signal) => made.clock.sleep(1_500, signal);
    });
    const withNotes = (version: string, sequence: number) => {
      const digest = digestOf(`notes of ${version}`);
      node.blobs.set(digest, Buffer.from('notes'));
      return verified({
        version,
        sequence,
        attachments: [{ name: 'notes', digest, size: 5, mediaType: 'text/plain' }],
      });
    };
    node.plug('sdb1', withNotes('4.13.7', 7), withNotes('4.13.6', 6));
    await node.clock.advance(30_000);
    expect(node.phase('4.13.7')).toBe('activated');
    let reports = 0;
    node.onStatus = () => {
      reports += 1;
    };
    vi.advanceTimersByTime(5_000);
    expect(reports).toBe(0);
  });

  it('adopts a bundle whose stick lacks documents, and keeps the available ones', async () => {
    const there = digestOf('manifest etcd');
    const lost = digestOf('config etcd');
    await start();
    node.blobs.set(there, Buffer.from('manifest etcd'));
    node.media.plug('sdb1', [{ ...found(bundle, [{ digest: lost, why: 'absent' }]), documents: [there, lost] }]);
    await node.clock.advance(0);
    expect([...node.documents.keys()]).toEqual([there]);
    node.media.unplug('sdb1');
    node.media.plug('sdc1', [{ ...found(bundle), documents: [there, lost] }]);
    node.blobs.set(lost, Buffer.from('config etcd'));
    await node.clock.advance(0);
    expect(node.documents.has(lost)).toBe(true);
    expect(kinds()).toContain('bundleVerified');
  });

  it('stores manifests in the background, so that a bad stick blocks nothing else', async () => {
    const slow = [digestOf('manifest a'), digestOf('manifest b')];
    const other = verified({ name: 'tools', version: '1.0', images: { tool: ['tool'] } });
    await start([], (made) => {
      made.beforeRead = (digest, signal) => made.clock.sleep(digest === slow[0] ? 600_000 : 1_200_000, signal);
    });
    for (const digest of slow) node.blobs.set(digest, Buffer.from('manifest'));
    node.media.plug('sdb1', [{ ...found(bundle), documents: slow }]);
    node.plug('sdc1', other);
    await node.clock.advance(60_000);
    expect(node.phase('4.13.7')).toBeUndefined();
    expect(node.engine.report()?.bundles.map(({ name, phase }) => `${name} ${phase}`)).toEqual(['tools activated']);
    expect(node.engine.idleMs()).toBeLessThan(60_000);
    await node.clock.advance(600_000);
    expect(node.engine.report()?.status).toMatch(/ Its list of images is read before they are loaded\.$/);
    await node.clock.advance(600_000);
    expect(node.phase('4.13.7')).toBe('activated');
    expect(node.engine.idleMs()).toBeLessThan(60_000);
  });

  it('does not adopt a bundle that was rejected while its manifests were stored', async () => {
    await start([], (made) => {
      made.beforeRead = (_digest, signal) => made.clock.sleep(10_000, signal);
    });
    node.blobs.set(digestOf('manifest a'), Buffer.from('manifest'));
    node.media.plug('sdb1', [{ ...found(bundle), documents: [digestOf('manifest a')] }]);
    await node.clock.advance(1_000);
    node.engine.commands.reject({ bundle: bundle.bundleId });
    await node.clock.advance(60_000);
    expect(node.store.load().bundles).toEqual([]);
  });

  it('retries manifests that can not be read, and reports that meanwhile', async () => {
    let isBad = true;
    await start([], (made) => {
      made.beforeRead = () => (isBad ? Promise.reject(fault('media/read', 'input/output error')) : Promise.resolve());
    });
    node.blobs.set(digestOf('manifest a'), Buffer.from('manifest'));
    node.media.plug('sdb1', [{ ...found(bundle), documents: [digestOf('manifest a')] }]);
    await node.clock.advance(5_000);
    expect(node.statuses.at(-1)).toBe(
      'PLUG IN ANOTHER STICK (M-04): Keeping the manifests of ocp 4.13.7 failed: input/output error.',
    );
    isBad = false;
    await node.clock.advance(60_000);
    expect(node.phase('4.13.7')).toBe('activated');
  });

  it('reports why a bundle is rejected, and reads the stick again when keys are added', async () => {
    await start();
    node.media.plug('sdb1', [refused('signature by unknown key 5f0c')]);
    await node.clock.advance(60_000);
    expect(node.statuses.at(-1)).toMatch(/: Rejected bundle on the stick: signature by unknown key 5f0c/);
    expect(kinds().filter((kind) => kind === 'bundleRejected')).toHaveLength(1);
    const reads: string[] = [];
    const { read } = node.media;
    node.media.read = async (mediumId, signal) => {
      reads.push(mediumId);
      await read(mediumId, signal);
    };
    node.setTrustRevision('keys-2');
    node.engine.kick();
    await node.clock.advance(0);
    expect(reads).toEqual(['sdb1']);
  });

  it('tries again at once with a new stick', async () => {
    let isGood = false;
    await start([], ({ runtime }) => {
      runtime.onPull = async (reference) => {
        asked(reference.includes('etcd') ? 'etcd' : 'api');
        if (!isGood) throw fault('runtime/digest-mismatch', 'Digest did not match');
        runtime.images.set(reference, reference);
      };
      for (const name of ['base', 'etcd', 'api']) {
        node.blobs.set(digestOf(`image ${name}`), Buffer.from(`image ${name}`));
        node.blobs.set(digestOf(`layer ${name}`), Buffer.from('bad'));
        node.meter.sent.set(digestOf(`layer ${name}`), 3);
      }
    });
    const manual = verified({ schedule: 'manual' });
    node.plug('sdb1', manual);
    await node.clock.advance(10);
    expect(node.phase('4.13.7')).toBe('held');
    isGood = true;
    node.plug('sdc1', manual);
    await node.clock.advance(10);
    expect(node.phase('4.13.7')).toBe('ready');
  });
});

describe('engine: progress', () => {
  it('does not use the rate of one preload for the next one', async () => {
    const held = (_reference: string, signal: AbortSignal) =>
      new Promise<void>((resolve, reject) => {
        finish = resolve;
        signal.addEventListener('abort', () => reject(signal.reason));
      });
    let finish: () => void = () => undefined;
    await start([], ({ runtime }) => {
      runtime.onPull = held;
    });
    node.plug('sdb1', verified({ schedule: 'manual', images: { a: ['a'] } }));
    await node.clock.advance(10_000);
    node.meter.sent.set(digestOf('layer a'), 5 * 1024 ** 2);
    expect(node.engine.report()?.progress.bytesPerSecond).toBeGreaterThan(0);
    node.runtime.images.set(referenceOf('a'), referenceOf('a'));
    finish();
    await node.clock.advance(0);
    expect(node.phase('4.13.7')).toBe('ready');
    node.plug('sdc1', verified({ sequence: 8, version: '4.13.8', images: { b: ['b'] } }));
    await node.clock.advance(0);
    expect(node.statuses.at(-1)).toBe('LEAVE THE STICK IN: Preloading ocp 4.13.8 from sdc1: 0/1 images, 0 of 10 MiB.');
  });

  it('starts at zero when wiped images are pulled again', async () => {
    await start([], ({ runtime }) => {
      const { onPull } = runtime;
      runtime.onPull = async (reference, signal) => {
        for (const name of ['base', 'etcd', 'api']) node.meter.sent.set(digestOf(`layer ${name}`), 10 * 1024 ** 2);
        await onPull(reference, signal);
      };
    });
    node.plug('sdb1', bundle);
    await node.clock.advance(0);
    node.runtime.onPull = (_reference, signal) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason));
      });
    node.runtime.isUp = false;
    node.runtime.emit();
    await node.clock.advance(0);
    node.runtime.images.clear();
    node.runtime.isUp = true;
    node.runtime.emit();
    await node.clock.advance(0);
    expect(node.statuses.at(-1)).toBe(
      'LEAVE THE STICK IN: Preloading ocp 4.13.7 from the stick: 0/2 images, 0 of 30 MiB.',
    );
  });

  it('shows bytes, rate and time of the bundle that is pulled, not of one before it', async () => {
    const older = verified({ sequence: 6, version: '4.13.6', images: { old: ['old'] } });
    await start([stored(older)], ({ runtime }) => {
      runtime.onPull = (_reference, signal) =>
        new Promise((_resolve, reject) => {
          signal.addEventListener('abort', () => reject(signal.reason));
        });
    });
    node.plug('sdb1', bundle);
    await node.clock.advance(0);
    node.engine.report();
    await node.clock.advance(10_000);
    node.meter.sent.set(digestOf('layer base'), 5 * 1024 ** 2);
    expect(node.engine.report()).toMatchObject({
      progress: { doneBytes: 5 * 1024 ** 2, totalBytes: 30 * 1024 ** 2, bytesPerSecond: 524_288 },
      status:
        'LEAVE THE STICK IN: Preloading ocp 4.13.7 from the stick: 0/2 images, 5 of 30 MiB, 512 KiB/s, about 50 s left.',
    });
  });
});
