import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Assessment, assess, shortOfSpace } from '../../../src/domain/assess.ts';
import type { VerifiedBundle } from '../../../src/domain/bundle.ts';
import { decide } from '../../../src/domain/decide.ts';
import type { Digest } from '../../../src/domain/digest.ts';
import type { Effect } from '../../../src/domain/effect.ts';
import { distinguishingIds, imageIds } from '../../../src/domain/evidence.ts';
import { currentRelease, isTwin, keptBundles, lastProven } from '../../../src/domain/life.ts';
import { needsContainers } from '../../../src/domain/lifecycle.ts';
import type { MediumState } from '../../../src/domain/medium.ts';
import { isProtected } from '../../../src/domain/retention.ts';
import type { RuntimeContainer } from '../../../src/domain/runtime-container.ts';
import { stampAfter } from '../../../src/domain/stamp.ts';
import type { Observed, PinsRequested, Policy, StoredBundle } from '../../../src/domain/state.ts';
import { createCommands } from '../../../src/engine/commands.ts';
import type { StateStore } from '../../../src/engine/ports.ts';
import { AppError } from '../../../src/platform/app-error.ts';
import {
  found,
  GIB,
  MIB,
  medium,
  NOON,
  observation,
  POLICY,
  reachable,
  referenceOf,
  storedState,
  verified,
} from '../../support/scenario.ts';

const SOAK_MS = 600_000;
const STABLE = 'quay.example.com/ocp/os:stable';
const FOREIGN = 'docker.io/library/foreign@sha256:f';

const release = (sequence: number, over: Parameters<typeof verified>[0] = {}) =>
  verified({
    sequence,
    version: `4.13.${sequence}`,
    images: { [`etcd-${sequence}`]: [`e${sequence}`], [`api-${sequence}`]: [`a${sequence}`], base: ['os'] },
    imageOver: {
      [`etcd-${sequence}`]: { component: 'etcd', tags: [STABLE] },
      [`api-${sequence}`]: { component: 'api' },
      base: { pin: false },
    },
    ...over,
  });
const third = release(3);
/** The fourth has the very same images as the third; the fifth waits for a person. */
const RELEASES: readonly VerifiedBundle[] = [
  release(1),
  release(2),
  third,
  { ...release(4), contents: third.contents },
  release(5, { schedule: 'manual' }),
];

/** A node in memory: effects change it at once, as the executors would; pulls and activations work. */
function createNode(lifecycle: Policy['lifecycle']) {
  const policy: Policy = { ...POLICY, lifecycle };
  const sticks = new Map<number, MediumState>();
  /** Image id by name. The first release's api lay here before stickpin came. */
  const images = new Map<string, string>([FOREIGN, referenceOf('api-1')].map((name) => [name, name]));
  let bundles: readonly StoredBundle[] = [];
  let keeping: Observed['keeping'] = new Map();
  let brought: ReadonlySet<string> = new Set();
  let containers: readonly (RuntimeContainer & { readonly sinceMs: number })[] = [];
  let pins: readonly string[] = [];
  let mirrors: readonly string[] = [];
  let pinsRequested: PinsRequested | undefined;
  let last: Assessment | undefined;
  let isTight = false;
  let bootId = 'boot-0';
  let [now, uptimeMs, counter] = [NOON, 1_000, 0];

  const change = (bundleId: Digest, fields: Partial<StoredBundle>) => {
    bundles = bundles.map((one) => (one.bundleId === bundleId ? { ...one, ...fields } : one));
  };
  const stamp = () => stampAfter(bundles, now);
  const stored = () => storedState(bundles, { brought });
  const listed = () =>
    [...new Set(images.values())].map((imageId) => {
      const names = [...images].flatMap(([name, id]) => (id === imageId ? [name] : []));
      return {
        imageId,
        repoTags: names.filter((name) => !name.includes('@')),
        repoDigests: names.filter((name) => name.includes('@')),
        pinned: names.some((name) => pins.includes(name)),
      };
    });

  function observed(): Observed {
    const runtime = reachable({
      images: listed(),
      renderedPins: [...pins],
      renderedMirrors: [...mirrors],
      filesystem: {
        path: '/var',
        totalBytes: 100 * GIB,
        freeBytes: isTight ? 15 * GIB + 60 * MIB : 60 * GIB,
      },
    });
    const isLooked = needsContainers(stored(), runtime, policy, shortOfSpace(last?.bundles ?? []).length > 0);
    return observation({
      now,
      keeping,
      pinsRequested,
      runtime,
      boot: { bootId, uptimeMs },
      containers: isLooked ? containers.map(({ sinceMs: _, ...container }) => container) : undefined,
      media: [...sticks].map(([index, state]) => medium(`sd${index}`, state)),
    });
  }

  function perform(effect: Effect): void {
    switch (effect.kind) {
      case 'mount-medium':
        sticks.set(Number(effect.mediumId.slice(-1)), { kind: 'mounted' });
        return;
      case 'read-medium': {
        const index = Number(effect.mediumId.slice(-1));
        const bundle = RELEASES[index];
        const carried = bundle === undefined ? [] : [found(bundle)];
        sticks.set(index, { kind: 'read', bundles: carried, trustRevision: 'keys-1' });
        return;
      }
      case 'keep-documents':
        keeping = new Map([...keeping, [effect.bundleId, { done: 1, total: 1 }]]);
        return;
      case 'adopt-bundle': {
        const bundle = RELEASES.find((one) => one.bundleId === effect.bundleId);
        if (bundle !== undefined) bundles = [...bundles, { ...bundle, adoptedAt: now }];
        return;
      }
      case 'apply-pins':
        pins = effect.references;
        pinsRequested = { references: effect.references, unpinned: effect.unpinned, attempts: 1, at: now };
        return;
      case 'apply-mirrors':
        mirrors = effect.repositories;
        return;
      case 'record-ready':
        change(effect.bundleId, { readyAt: now });
        return;
      case 'start':
        start(effect);
        return;
      case 'record-soak':
        change(effect.bundleId, { soak: effect.soak });
        return;
      case 'record-active':
        change(effect.bundleId, { activeAt: stamp() });
        return;
      case 'record-proven':
        change(effect.bundleId, { provenAt: stamp() });
        return;
      case 'record-rolled-back':
        change(effect.bundleId, { rolledBackAt: stamp(), rolledBackReason: 'back' });
        return;
      case 'take-over': {
        const from = bundles.find((one) => one.bundleId === effect.from);
        if (from?.provenAt !== undefined) change(effect.bundleId, { provenAt: stamp() });
        change(effect.bundleId, { activeAt: stamp() });
        if (effect.retireFrom) change(effect.from, { retiredAt: stamp(), removeImages: false });
        return;
      }
      case 'retire':
        change(effect.bundleId, { retiredAt: stamp(), removeImages: effect.removeImages });
        return;
      case 'remove-images':
        for (const { imageId, containerIds } of effect.images) {
          containers = containers.filter((one) => !containerIds.includes(one.containerId));
          for (const [name, id] of images) if (id === imageId) images.delete(name);
        }
    }
  }

  function start({ task }: Extract<Effect, { kind: 'start' }>): void {
    if (task.kind === 'pull') {
      const digest = task.reference.slice(task.reference.indexOf('@') + 1);
      if (last?.life.foreign.has(digest) !== true) brought = new Set([...brought, task.reference]);
      images.set(task.reference, task.reference);
      return;
    }
    const bundle = bundles.find((one) => one.bundleId === task.bundleId);
    for (const image of bundle?.contents.images ?? []) for (const tag of image.tags) images.set(tag, image.reference);
    change(task.bundleId, { activatedAt: stamp() });
  }

  /** What must hold of every decision. */
  function check(effects: readonly Effect[]): void {
    const ids = imageIds(listed());
    const used = new Set(containers.filter(({ state }) => state !== 'exited').flatMap((one) => one.imageNames));
    const kept = new Set(
      keptBundles(bundles).flatMap(({ contents }) => contents.images.map((image) => images.get(image.reference))),
    );
    for (const effect of effects) {
      if (effect.kind === 'remove-images') {
        for (const { imageId } of effect.images) {
          expect([FOREIGN, referenceOf('api-1')]).not.toContain(imageId);
          expect(used).not.toContain(imageId);
          expect(kept).not.toContain(imageId);
          expect([...images].filter(([name, id]) => id === imageId && name.startsWith('mine'))).toEqual([]);
        }
      }
      const bundle = bundles.find((one) => 'bundleId' in effect && one.bundleId === effect.bundleId);
      if (bundle === undefined) continue;
      const own = distinguishingIds(bundle, bundles, ids);
      const runs = containers.filter((one) => one.state === 'running' && own.has(one.imageNames[0] ?? ''));
      if (effect.kind === 'retire') {
        expect(runs).toEqual([]);
        expect(isProtected(bundle, lifecycle)).toBe(false);
        expect(bundle.bundleId).not.toBe(currentRelease(bundles, 'ocp')?.bundleId);
        expect(bundle.bundleId).not.toBe(lastProven(bundles, 'ocp')?.bundleId);
      }
      if (effect.kind === 'record-proven') {
        expect(runs.some((one) => uptimeMs - one.sinceMs >= SOAK_MS)).toBe(true);
        expect(bundle.bundleId).toBe(currentRelease(bundles, 'ocp')?.bundleId);
      }
      if (effect.kind === 'take-over') expect(bundles.some((one) => isTwin(one, bundle))).toBe(true);
    }
  }

  /** What must hold of the node whenever it has come to rest. */
  function checkRest(): void {
    const current = currentRelease(bundles, 'ocp');
    const wanted = [current, lastProven(bundles, 'ocp')].flatMap((bundle) => bundle?.contents.images ?? []);
    for (const image of wanted.filter(({ pin }) => pin)) expect(pins).toContain(image.reference);
    for (const bundle of bundles.filter((one) => isProtected(one, lifecycle)))
      for (const image of bundle.contents.images.filter(({ pin }) => pin)) expect(pins).toContain(image.reference);
    const ids = imageIds(listed());
    const isBusy = (bundle: StoredBundle) => {
      const own = distinguishingIds(bundle, bundles, ids);
      return containers.some((one) => one.state !== 'exited' && own.has(one.imageNames[0] ?? ''));
    };
    const proven = keptBundles(bundles)
      .filter((one) => one.provenAt !== undefined && !isProtected(one, lifecycle))
      .filter((one) => one !== current && !isBusy(one) && (one.activationRequestedAt ?? 0) <= (one.activatedAt ?? 0));
    expect(proven.length).toBeLessThanOrEqual(lifecycle.keep);
    expect(images.has(FOREIGN) && images.has(referenceOf('api-1'))).toBe(true);
    const stable = images.get(STABLE);
    const named = current?.contents.images.find((image) => image.tags.includes(STABLE))?.reference;
    if (stable !== undefined) expect(stable).toBe(named);
  }

  const store = {
    load: stored,
    mark: (bundleId: Digest, what: string, { at }: { at: number }) => change(bundleId, { [what]: at }),
    retire: (bundleId: Digest, removeImages: boolean, { at }: { at: number }) =>
      change(bundleId, { retiredAt: at, removeImages }),
    rollBack: (bundleId: Digest, { at }: { at: number }) =>
      change(bundleId, { rolledBackAt: at, rolledBackReason: 'x' }),
  } as unknown as StateStore;
  const commands = createCommands({
    clock: { now: () => now, monotonic: () => uptimeMs, sleep: async () => undefined },
    store,
    policy: lifecycle,
    assessment: () => last,
  });

  return {
    settle: (): void => {
      for (let rounds = 0; rounds < 60; rounds += 1) {
        const seen = observed();
        last = assess(seen, stored(), policy);
        const { effects } = decide(seen, last, policy);
        check(effects);
        if (effects.length === 0) {
          checkRest();
          return;
        }
        for (const effect of effects) perform(effect);
      }
      throw new Error('the decisions do not settle');
    },
    plug: (index: number) => void sticks.set(index, { kind: 'attached' }),
    unplug: (index: number) => void sticks.delete(index),
    run: (component: string, index: number) => {
      const reference = RELEASES[index]?.contents.images.find((image) => image.component === component)?.reference;
      if (reference === undefined || !images.has(reference)) return;
      counter += 1;
      const key = `pod/${component}`;
      const before = containers.find((one) => one.key === key);
      const attempt = before?.imageNames.includes(reference) ? before.attempt + 1 : 0;
      const made = { containerId: `c${counter}`, key, attempt, imageNames: [reference], exitCode: 0, startedAt: now };
      containers = [
        ...containers.filter((one) => one.key !== key),
        { ...made, state: 'running' as const, sinceMs: uptimeMs },
      ];
    },
    end: (component: string, exitCode: number) => {
      containers = containers.map((one) =>
        one.key === `pod/${component}` ? { ...one, state: 'exited' as const, exitCode } : one,
      );
    },
    tag: (index: number) => {
      const reference = RELEASES[index]?.contents.images[0]?.reference ?? '';
      if (images.has(reference)) images.set(`mine/tag:${index}`, reference);
    },
    drain: () => {
      containers = [];
    },
    reboot: () => {
      counter += 1;
      bootId = `boot-${counter}`;
      uptimeMs = 1_000;
      containers = [];
    },
    tight: (on: boolean) => {
      isTight = on;
    },
    jump: (ms: number) => {
      now += ms;
    },
    pass: (ms: number) => {
      now += ms;
      uptimeMs += ms;
    },
    /** A refusal is an answer. */
    command: (act: (on: typeof commands) => unknown): void => {
      try {
        act(commands);
      } catch (error) {
        if (!(error instanceof AppError) || error.disposition !== 'reject') throw error;
      }
    },
    state: () => ({ bundles, images, pins }),
  };
}

type Node = ReturnType<typeof createNode>;

const index = fc.nat(RELEASES.length - 1);
const component = fc.constantFrom('etcd', 'api');
const name = (at: number) => `ocp@4.13.${at + 1}`;
/** One of the next releases comes on a stick, runs, and has the time to prove itself. */
function upgrade(node: Node, step: number): void {
  const at = Math.max(-1, ...node.state().bundles.map((one) => one.payload.sequence - 1)) + step;
  node.plug(at);
  node.settle();
  node.command((on) => on.activate(name(at)));
  node.settle();
  for (const what of ['etcd', 'api']) node.run(what, at);
  node.settle();
  node.pass(SOAK_MS);
}

/** What may happen, each with a name that fast-check prints when a story fails. */
const happening: fc.Arbitrary<readonly [string, (node: Node) => void]> = fc.oneof(
  { weight: 3, arbitrary: index.map((at) => [`plug ${at}`, (node: Node) => node.plug(at)] as const) },
  {
    weight: 6,
    arbitrary: fc
      .integer({ min: 1, max: 2 })
      .map((step) => [`upgrade by ${step}`, (node: Node) => upgrade(node, step)] as const),
  },
  { weight: 1, arbitrary: index.map((at) => [`unplug ${at}`, (node: Node) => node.unplug(at)] as const) },
  {
    weight: 6,
    arbitrary: fc
      .tuple(component, index)
      .map(([what, at]) => [`run ${what} ${at}`, (node: Node) => node.run(what, at)] as const),
  },
  {
    weight: 1,
    arbitrary: fc
      .tuple(component, fc.nat(1))
      .map(([what, code]) => [`end ${what} ${code}`, (node: Node) => node.end(what, code)] as const),
  },
  {
    weight: 5,
    arbitrary: fc
      .constantFrom(30_000, 120_000, SOAK_MS / 2, SOAK_MS, 2 * SOAK_MS)
      .map((ms) => [`pass ${ms}`, (node: Node) => node.pass(ms)] as const),
  },
  { weight: 1, arbitrary: index.map((at) => [`tag ${at}`, (node: Node) => node.tag(at)] as const) },
  {
    weight: 1,
    arbitrary: fc
      .constantFrom(-86_400_000, 86_400_000)
      .map((ms) => [`jump ${ms}`, (node: Node) => node.jump(ms)] as const),
  },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      ['drain', (node: Node) => node.drain()] as const,
      ['reboot', (node: Node) => node.reboot()] as const,
      ['tight', (node: Node) => node.tight(true)] as const,
      ['roomy', (node: Node) => node.tight(false)] as const,
      ['rollback', (node: Node) => node.command((on) => on.rollback('ocp'))] as const,
    ),
  },
  {
    weight: 1,
    arbitrary: index.map(
      (at) => [`activate ${at}`, (node: Node) => node.command((on) => on.activate(name(at)))] as const,
    ),
  },
  {
    weight: 1,
    arbitrary: fc
      .tuple(index, fc.boolean())
      .map(
        ([at, removeImages]) =>
          [
            `unpin ${at} ${removeImages}`,
            (node: Node) => node.command((on) => on.unpin(name(at), { removeImages, force: false })),
          ] as const,
      ),
  },
);

describe('the life of releases, over any story', () => {
  it('keeps what runs and what was proven pinned, keeps no more, and touches nothing foreign', () => {
    let [proven, retired] = [0, 0];
    fc.assert(
      fc.property(
        fc.array(happening, { minLength: 8, maxLength: 20, size: 'max' }),
        fc.record({ keep: fc.integer({ min: 1, max: 3 }), protect: fc.constantFrom([], ['ocp@4.13.1']) }),
        (story, settings) => {
          const node = createNode({ ...POLICY.lifecycle, soakMs: SOAK_MS, ...settings });
          node.settle();
          for (const [, happen] of story) {
            happen(node);
            node.settle();
          }
          const { bundles } = node.state();
          proven += bundles.filter((one) => one.provenAt !== undefined).length;
          retired += bundles.filter((one) => one.retiredAt !== undefined).length;
        },
      ),
      { numRuns: 1_000 },
    );
    // The stories are about something.
    expect(proven).toBeGreaterThan(500);
    expect(retired).toBeGreaterThan(500);
  }, 120_000);
});
