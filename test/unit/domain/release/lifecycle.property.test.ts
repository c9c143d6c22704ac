import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { VerifiedBundle } from '../../../../src/domain/model/bundle.ts';
import type { BundleId } from '../../../../src/domain/model/digest.ts';
import { distinguishingIds, imageIds } from '../../../../src/domain/release/evidence.ts';
import {
  currentRelease,
  isProven,
  isRolledBack,
  isTwin,
  keptBundles,
  lastProven,
} from '../../../../src/domain/release/recorded-phase.ts';
import { isProtected } from '../../../../src/domain/release/retention.ts';
import type { Policy } from '../../../../src/domain/settings/settings.ts';
import type { Effect } from '../../../../src/domain/state/effect.ts';
import type { StoredBundle } from '../../../../src/domain/state/state.ts';
import { AppError } from '../../../../src/platform/app-error.ts';
import { createModelMachine } from '../../../support/daemon/model/model-machine.ts';
import { createModelNode, type ModelCommands } from '../../../support/daemon/model/model-node.ts';
import { GIB, MIB, POLICY, referenceOf, verified } from '../../../support/daemon/scenario.ts';

const SOAK_MS = 600_000;
const STABLE = 'quay.example.com/ocp/os:stable';
const FOREIGN = 'docker.io/library/foreign@sha256:f';

const release = (sequence: number, over: Parameters<typeof verified>[0] = {}) =>
  verified({
    sequence,
    version: `4.13.${sequence}`,
    images: {
      [`etcd-${sequence}`]: [`e${sequence}`],
      [`api-${sequence}`]: [`a${sequence}`],
      base: ['os'],
      lib: ['os'],
    },
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

/** A node in memory that is looked at after each decision, and whenever it has come to rest. */
function createNode(lifecycle: Policy['lifecycle']) {
  // The first release's api lay here before stickpin came.
  const machine = createModelMachine([FOREIGN, referenceOf('api-1')]);
  const { images } = machine;
  /** What was said to run again since the node rested last. */
  let wentBackTo: BundleId | undefined;
  let [wentBackProven, tagsRemoved, waited] = [0, 0, 0];
  const decided: Effect['kind'][] = [];
  const node = createModelNode({ machine, policy: { ...POLICY, lifecycle }, onDecision: check, onRest: checkRest });

  const isRunning = ({ contents }: StoredBundle) =>
    machine
      .containers()
      .some(
        (one) => one.state === 'running' && contents.images.some(({ reference }) => one.imageNames.includes(reference)),
      );

  /** What must hold of every decision. */
  function check(effects: readonly Effect[]): void {
    const bundles = node.bundles();
    const containers = machine.containers();
    const ids = imageIds(machine.listed());
    const used = new Set(containers.filter(({ state }) => state !== 'exited').flatMap((one) => one.imageNames));
    const kept = new Set(
      keptBundles(bundles).flatMap(({ contents }) => contents.images.map((image) => images.get(image.reference))),
    );
    decided.push(...effects.map(({ kind }) => kind));
    checkWhole(effects);
    for (const effect of effects) {
      if (effect.kind === 'remove-images') {
        for (const { imageId } of effect.images) {
          expect([FOREIGN, referenceOf('api-1')]).not.toContain(imageId);
          expect(used).not.toContain(imageId);
          expect(kept).not.toContain(imageId);
          expect([...images].filter(([name, id]) => id === imageId && name.startsWith('mine'))).toEqual([]);
        }
        const spare = effect.tags ?? [];
        const keptTags = keptBundles(bundles).flatMap(({ contents }) => contents.images.flatMap(({ tags }) => tags));
        for (const tag of spare) {
          tagsRemoved += 1;
          expect(keptTags).not.toContain(tag);
          expect(kept).toContain(images.get(tag));
          const others = keptTags.filter((other) => images.get(other) === images.get(tag));
          expect(others.filter((other) => !spare.includes(other))).not.toEqual([]);
        }
      }
      if (effect.kind === 'start' && effect.task.kind === 'activate') {
        const { bundleId } = effect.task;
        const target = bundles.find((one) => one.bundleId === bundleId);
        if (target !== undefined && isRolledBack(target))
          expect(target.activationRequestedAt).toBeGreaterThan(target.rolledBackAt ?? 0);
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
        expect(runs.some((one) => machine.boot().uptimeMs - one.sinceMs >= SOAK_MS)).toBe(true);
        expect(bundle.bundleId).toBe(currentRelease(bundles, 'ocp')?.bundleId);
      }
      if (effect.kind === 'record-rolled-back') {
        const again = bundles.find((one) => one.bundleId === effect.to);
        expect(again !== undefined && isRunning(again) && !isRolledBack(again)).toBe(true);
        expect(runs).toEqual([]);
        wentBackTo = effect.to;
        if (isProven(bundle)) wentBackProven += 1;
      }
      if (effect.kind === 'request-activation') {
        expect([bundle.activatedAt, bundle.activationRequestedAt]).toEqual([undefined, undefined]);
        const others = bundles.filter((one) => one !== bundle).flatMap(({ contents }) => contents.images);
        const mine = machine
          .containers()
          .filter(({ imageNames: [name = ''] }) =>
            bundle.contents.images.some(({ reference }) => reference === name && name !== referenceOf('api-1')),
          )
          .filter(({ imageNames: [name] }) => others.every(({ reference }) => reference !== name))
          .filter(({ state, sinceMs }) => state === 'running' && machine.boot().uptimeMs - sinceMs >= 60_000);
        expect(mine).not.toEqual([]);
        const current = currentRelease(bundles, 'ocp');
        const before = current?.contents.images.map(({ reference }) => reference) ?? [];
        const isReplaced = ({ key }: { key: string }) =>
          machine.containers().every((one) => one.key !== key || !before.includes(one.imageNames[0] ?? ''));
        expect(mine.some(isReplaced)).toBe(true);
        // Two releases run in parts: the one that has the place of the other is activated after it.
        wentBackTo = undefined;
      }
      if (effect.kind === 'take-over') expect(bundles.some((one) => isTwin(one, bundle))).toBe(true);
    }
  }

  /** Kept, with all its images, and those that it pins pinned. */
  function isWhole({ contents }: StoredBundle, pins: readonly string[]): boolean {
    return contents.images.every(({ reference, pin }) => images.has(reference) && (!pin || pins.includes(reference)));
  }

  /** Nothing that the daemon does takes the last whole release of the stream away. */
  function checkWhole(effects: readonly Effect[]): void {
    const before = keptBundles(node.bundles()).filter((one) => isWhole(one, machine.pins));
    const gone = new Set(
      effects.flatMap((effect) => {
        if (effect.kind === 'retire') return [effect.bundleId];
        return effect.kind === 'take-over' && effect.retireFrom ? [effect.from] : [];
      }),
    );
    const removed = new Set(
      effects.flatMap((effect) => (effect.kind === 'remove-images' ? effect.images.map(({ imageId }) => imageId) : [])),
    );
    const pins = effects.findLast((effect) => effect.kind === 'apply-pins')?.references ?? machine.pins;
    const after = before
      .filter((one) => !gone.has(one.bundleId) && isWhole(one, pins))
      .filter(({ contents }) => contents.images.every((image) => !removed.has(images.get(image.reference) ?? '')));
    if (before.length > 0) expect(after).not.toEqual([]);
    for (const effect of effects) {
      const becomesProven = effect.kind === 'record-proven' || effect.kind === 'take-over';
      if (becomesProven) expect(before.map(({ bundleId }) => bundleId)).toContain(effect.bundleId);
    }
  }

  /** What must hold of the node whenever it has come to rest. */
  function checkRest(): void {
    const bundles = node.bundles();
    const current = currentRelease(bundles, 'ocp');
    const wanted = [current, lastProven(bundles, 'ocp')].flatMap((bundle) => bundle?.contents.images ?? []);
    for (const image of wanted.filter(({ pin }) => pin)) expect(machine.pins).toContain(image.reference);
    for (const bundle of bundles.filter((one) => isProtected(one, lifecycle)))
      for (const image of bundle.contents.images.filter(({ pin }) => pin))
        expect(machine.pins).toContain(image.reference);
    // What is requested and lost an image waits for its stick.
    const isStuck = keptBundles(bundles).some(
      (one) => (one.activationRequestedAt ?? 0) > (one.activatedAt ?? 0) && !isWhole(one, machine.pins),
    );
    if (wentBackTo !== undefined && !isStuck) expect(current?.bundleId).toBe(wentBackTo);
    wentBackTo = undefined;
    if (current !== undefined && !isStuck) expect(isRolledBack(current)).toBe(false);
    if (current !== undefined && !isProven(current) && !isWhole(current, machine.pins)) waited += 1;
    const ids = imageIds(machine.listed());
    const isBusy = (bundle: StoredBundle) => {
      const own = distinguishingIds(bundle, bundles, ids);
      return machine.containers().some((one) => one.state !== 'exited' && own.has(one.imageNames[0] ?? ''));
    };
    const proven = keptBundles(bundles)
      .filter((one) => one.provenAt !== undefined && !isProtected(one, lifecycle))
      .filter((one) => one !== current && !isBusy(one) && (one.activationRequestedAt ?? 0) <= (one.activatedAt ?? 0));
    const good = lastProven(bundles, 'ocp');
    if (good !== undefined && isWhole(good, machine.pins)) expect(proven.length).toBeLessThanOrEqual(lifecycle.keep);
    expect(images.has(FOREIGN) && images.has(referenceOf('api-1'))).toBe(true);
    const stable = images.get(STABLE);
    const named = current?.contents.images.find((image) => image.tags.includes(STABLE))?.reference;
    if (stable !== undefined) expect(stable).toBe(named);
  }

  const bundleAt = (index: number, act: (bundle: VerifiedBundle) => void) => {
    const bundle = RELEASES[index];
    if (bundle !== undefined) act(bundle);
  };
  const referenceAt = (index: number, component: string) =>
    RELEASES[index]?.contents.images.find((image) => image.component === component)?.reference ?? '';

  return {
    ...machine,
    settle: () => void node.settle(),
    plug: (index: number) => bundleAt(index, node.plug),
    unplug: (index: number) => bundleAt(index, node.unplug),
    run: (component: string, index: number) => machine.run(component, referenceAt(index, component)),
    tag: (index: number) => {
      const reference = referenceAt(index, 'etcd');
      if (images.has(reference)) images.set(`mine/tag:${index}`, reference);
    },
    tight: (on: boolean) => {
      const freeBytes = on ? 15 * GIB + 60 * MIB : 60 * GIB;
      machine.filesystem = () => ({ path: '/var', totalBytes: 100 * GIB, freeBytes });
    },
    /** Somebody else removes an image, pinned or not, or a power cut takes it. */
    lose: (component: string, index: number) => {
      const id = images.get(referenceAt(index, component));
      if (id === undefined || [FOREIGN, referenceOf('api-1')].includes(id)) return;
      for (const [name, of] of images) if (of === id) images.delete(name);
    },
    /** The daemon starts anew after it. */
    reboot: () => {
      machine.reboot();
      node.restart();
    },
    /** A refusal is an answer. */
    command: (act: (on: ModelCommands) => unknown): void => {
      try {
        act(node.commands);
      } catch (error) {
        if (!(error instanceof AppError) || error.disposition !== 'reject') throw error;
      }
    },
    bundles: node.bundles,
    wentBackProven: () => wentBackProven,
    tagsRemoved: () => tagsRemoved,
    waited: () => waited,
    count: (kind: Effect['kind']) => decided.filter((one) => one === kind).length,
  };
}

type Node = ReturnType<typeof createNode>;

const index = fc.nat(RELEASES.length - 1);
const component = fc.constantFrom('etcd', 'api');
const name = (at: number) => `ocp@4.13.${at + 1}`;
/** One of the next releases comes on a stick, runs, and has the time to prove itself. */
function upgrade(node: Node, step: number): void {
  const at = Math.max(-1, ...node.bundles().map((one) => one.payload.sequence - 1)) + step;
  node.plug(at);
  node.settle();
  node.command((on) => on.activate(name(at)));
  node.settle();
  for (const what of ['etcd', 'api']) node.run(what, at);
  node.settle();
  node.pass(SOAK_MS);
}

/** A part of the next release is lost while the rest of it proves itself, and its stick is gone. */
function incompleteUpgrade(node: Node): void {
  const at = Math.max(-1, ...node.bundles().map((one) => one.payload.sequence - 1)) + 1;
  node.plug(at);
  node.settle();
  node.command((on) => on.activate(name(at)));
  node.settle();
  node.unplug(at);
  node.run('etcd', at);
  node.settle();
  node.lose('api', at);
  node.settle();
  node.pass(SOAK_MS);
}

/** The next release runs for a while, and then what ran before it does again. */
function wayBack(node: Node): void {
  const before = currentRelease(node.bundles(), 'ocp')?.payload.sequence ?? 0;
  const at = Math.max(-1, ...node.bundles().map((one) => one.payload.sequence - 1)) + 1;
  node.plug(at);
  node.settle();
  node.command((on) => on.activate(name(at)));
  for (const index of [at, before - 1]) {
    node.settle();
    node.run('etcd', index);
    node.settle();
    node.pass(90_000);
  }
}

/** Somebody starts what was proven before, in place of what runs, and nothing asks for it. */
function startedByHand(node: Node): void {
  const bundles = node.bundles();
  const current = currentRelease(bundles, 'ocp');
  const before = lastProven(
    bundles.filter((one) => one !== current),
    'ocp',
  );
  for (const what of ['etcd', 'api']) node.run(what, (before?.payload.sequence ?? 0) - 1);
  for (const ms of [SOAK_MS, 90_000]) {
    node.pass(ms);
    node.settle();
  }
}

/** Somebody starts the release that waits for a person, without asking for its activation. */
function startedAhead(node: Node): void {
  const at = RELEASES.length - 1;
  node.plug(at);
  node.settle();
  for (const what of ['etcd', 'api']) node.run(what, at);
  node.settle();
  node.pass(90_000);
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
  { weight: 2, arbitrary: fc.constant(['way back', wayBack] as const) },
  { weight: 1, arbitrary: fc.constant(['started by hand', startedByHand] as const) },
  { weight: 1, arbitrary: fc.constant(['started ahead', startedAhead] as const) },
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
    weight: 2,
    arbitrary: fc
      .tuple(component, index)
      .map(([what, at]) => [`lose ${what} ${at}`, (node: Node) => node.lose(what, at)] as const),
  },
  { weight: 1, arbitrary: fc.constant(['incomplete upgrade', incompleteUpgrade] as const) },
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

describe('the phases of releases, for any sequence of events', () => {
  it('keeps what runs, what was proven and a whole release, keeps no more, and touches nothing foreign', () => {
    let [proven, retired, seenRunning, wentBack, wentBackProven, tagsRemoved, waited] = [0, 0, 0, 0, 0, 0, 0];
    fc.assert(
      fc.property(
        fc.array(happening, { minLength: 8, maxLength: 20, size: 'max' }),
        fc.record({ keep: fc.integer({ min: 1, max: 3 }), protect: fc.constantFrom([], ['ocp@4.13.1']) }),
        (story, settings) => {
          const node = createNode({ ...POLICY.lifecycle, soak: SOAK_MS, ...settings });
          node.settle();
          for (const [, happen] of story) {
            happen(node);
            node.settle();
          }
          const bundles = node.bundles();
          proven += bundles.filter((one) => one.provenAt !== undefined).length;
          retired += bundles.filter((one) => one.retiredAt !== undefined).length;
          seenRunning += node.count('request-activation');
          wentBack += node.count('record-rolled-back');
          wentBackProven += node.wentBackProven();
          tagsRemoved += node.tagsRemoved();
          waited += node.waited();
        },
      ),
      { numRuns: 1_000 },
    );
    // The stories are about something.
    expect(proven).toBeGreaterThan(500);
    expect(retired).toBeGreaterThan(500);
    for (const times of [seenRunning, wentBack, wentBackProven, tagsRemoved, waited]) expect(times).toBeGreaterThan(20);
  }, 300_000);
});
