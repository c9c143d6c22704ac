import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Assessment, assess } from '../../../../src/domain/assess/assess.ts';
import { decide } from '../../../../src/domain/decide/decide.ts';
import { isCut } from '../../../../src/domain/decide/release-effects.ts';
import type { VerifiedBundle } from '../../../../src/domain/model/bundle.ts';
import type { MediumState } from '../../../../src/domain/model/medium.ts';
import { parseReference, repositoryOf } from '../../../../src/domain/model/reference.ts';
import { missingLayersOf, parallelPulls } from '../../../../src/domain/preload/pull-schedule.ts';
import { tagGoalsOf } from '../../../../src/domain/release/tag-goals.ts';
import type { Effect } from '../../../../src/domain/state/effect.ts';
import type { PinsRequested, RunningTask, TagGiven, TaskFailure } from '../../../../src/domain/state/memory.ts';
import type { StoredBundle } from '../../../../src/domain/state/state.ts';
import {
  found,
  listed,
  medium,
  NOON,
  observation,
  POLICY,
  reachable,
  type Scene,
  storedState,
  verified,
} from '../../../support/daemon/scenario.ts';

const bundles: readonly VerifiedBundle[] = [
  verified({ sequence: 1, version: '1.0.0', images: { etcd: ['base', 'etcd'], api: ['base', 'api'], dns: ['dns'] } }),
  verified({ sequence: 2, version: '2.0.0', images: { api: ['base', 'api'], web: ['base', 'web', 'extra'] } }),
  verified({ name: 'tools', schedule: 'manual', images: { shell: ['extra'] } }),
];

/** A node in memory: effects change it at once, pulls end when the scenario says so. */
function createNode() {
  const states = new Map<number, MediumState>();
  const images = new Set<string>();
  /** The reference that each tag names. */
  const tags = new Map<string, string>();
  let kept: readonly StoredBundle[] = [];
  let keeping: Scene['keeping'] = new Map();
  let running: readonly RunningTask[] = [];
  let failures: readonly TaskFailure[] = [];
  let pinsRequested: PinsRequested | undefined;
  let pins: readonly string[] = [];
  let mirrors: readonly string[] = [];
  let isUp = true;
  let now = NOON;
  let tagsGiven: readonly TagGiven[] = [];

  const tagsOf = (reference: string) => [...tags].flatMap(([tag, named]) => (named === reference ? [tag] : []));
  const observed = (): Scene =>
    observation({
      now,
      running,
      failures,
      pinsRequested,
      keeping,
      tagsGiven,
      media: [...states].map(([index, state]) => medium(`sd${index}`, state)),
      runtime: isUp
        ? reachable({
            images: [...images].map((reference) => listed(reference, pins.includes(reference), tagsOf(reference))),
            renderedPins: [...pins],
            renderedMirrors: [...mirrors],
          })
        : { kind: 'unreachable', reason: 'down' },
    });

  function perform(effect: Effect): void {
    switch (effect.kind) {
      case 'mount-medium':
        states.set(Number(effect.mediumId.slice(-1)), { kind: 'mounted' });
        return;
      case 'read-medium': {
        const index = Number(effect.mediumId.slice(-1));
        const bundle = bundles[index];
        const carried = bundle === undefined ? [] : [found(bundle)];
        states.set(index, { kind: 'read', bundles: carried, trustRevision: 'keys-1' });
        return;
      }
      case 'keep-documents':
        keeping = new Map([...keeping, [effect.bundleId, { done: 3, total: 3 }]]);
        return;
      case 'adopt-bundle': {
        const bundle = bundles.find((one) => one.bundleId === effect.bundleId);
        if (bundle !== undefined) kept = [...kept, { ...bundle, adoptedAt: now }];
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
        kept = kept.map((one) => (one.bundleId === effect.bundleId ? { ...one, readyAt: now } : one));
        return;
      case 'resume-preload':
      case 'record-media-left':
        return;
      case 'cancel':
        running = running.filter((task) => task !== effect.task);
        return;
      case 'start':
        running = [...running, effect.task];
    }
  }

  function missingLayers(task: RunningTask, { presentLayers }: Assessment): readonly string[] {
    const bundle = kept.find((one) => one.bundleId === task.bundleId);
    const image =
      task.kind === 'pull' ? bundle?.contents.images.find((one) => one.reference === task.reference) : undefined;
    if (bundle === undefined || image === undefined) return [];
    return missingLayersOf(image, bundle, presentLayers).map((layer) => layer.digest);
  }

  /** What must hold of every decision, whatever happened before. */
  function check(seen: Scene, effects: readonly Effect[]): void {
    expect(new Set(effects.map((effect) => JSON.stringify(effect))).size).toBe(effects.length);
    const assessment = assess(seen, seen, storedState(kept), POLICY);
    expect(decide(seen, seen, assessment, POLICY).effects).toEqual(effects);
    const starts = effects.flatMap((effect) => (effect.kind === 'start' ? [effect.task] : []));
    const pulls = [...seen.running, ...starts].filter((task) => task.kind === 'pull');
    const parallel = parallelPulls(POLICY.preload.parallel, undefined);
    expect(pulls.length).toBeLessThanOrEqual(2 * parallel);
    const fed = pulls.filter((task) => starts.includes(task) || !isCut(task, assessment));
    if (starts.some(({ kind }) => kind === 'pull')) expect(fed.length).toBeLessThanOrEqual(parallel);
    for (const task of starts) {
      if (task.kind !== 'pull') continue;
      expect(images.has(task.reference)).toBe(false);
      expect(pins).toContain(task.reference);
      expect(mirrors).toContain(parseReference(task.reference).repository);
    }
    for (const task of starts) {
      if (task.kind !== 'restore-tags') continue;
      const owner = kept.find((one) => one.bundleId === task.bundleId);
      expect(owner?.activatedAt).toBeDefined();
      expect(
        kept.every(
          (one) => one.payload.name !== owner?.payload.name || (one.activatedAt ?? 0) <= (owner.activatedAt ?? 0),
        ),
      ).toBe(true);
      expect([...seen.running, ...starts].filter(({ kind }) => kind === 'activate' || kind === 'restore-tags')).toEqual(
        [task],
      );
      for (const tag of task.tags) expect(mirrors).toContain(parseReference(tag).repository);
    }
    // Only a start is a decision: what runs may come to share a layer by itself, as when the
    // runtime's storage is wiped under it.
    for (const start of starts.filter((task) => task.kind === 'pull')) {
      const others = pulls.filter((task) => task !== start).flatMap((task) => missingLayers(task, assessment));
      const own = missingLayers(start, assessment);
      expect(own.filter((digest) => others.includes(digest))).toEqual([]);
    }
    if (seen.runtime.kind === 'unreachable') expect(starts).toEqual([]);
    for (const effect of effects) {
      if (effect.kind !== 'apply-mirrors' || seen.running.length === 0) continue;
      expect(mirrors.filter((repository) => !effect.repositories.includes(repository))).toEqual([]);
    }
  }

  return {
    /** Rounds until one decides nothing more. */
    settle: (): void => {
      for (let rounds = 0; rounds < 30; rounds += 1) {
        const seen = observed();
        const { effects } = decide(seen, seen, assess(seen, seen, storedState(kept), POLICY), POLICY);
        check(seen, effects);
        if (effects.length === 0) return;
        for (const effect of effects) perform(effect);
      }
      throw new Error('the decisions do not settle');
    },
    plug: (index: number) => void states.set(index, { kind: 'attached' }),
    unplug: (index: number) => void states.delete(index),
    power: (on: boolean) => {
      isUp = on;
    },
    wipe: () => {
      images.clear();
      tags.clear();
    },
    /** Somebody takes a tag away, or gives it to another image. */
    steal: (index: number, isMoved: boolean) => {
      const all = [...tags.keys()];
      const tag = all[index % Math.max(1, all.length)];
      if (tag === undefined) return;
      const other = [...images].find((reference) => reference !== tags.get(tag));
      if (isMoved && other !== undefined) tags.set(tag, other);
      else tags.delete(tag);
    },
    forgetMirrors: () => {
      mirrors = [];
    },
    pass: (ms: number) => {
      now += ms;
    },
    /** The oldest running task ends. */
    end: (isDone: boolean): void => {
      const [task, ...rest] = running;
      if (task === undefined) return;
      running = rest;
      if (!isDone) {
        const reason = { code: 'runtime/pull-failed', message: 'no' };
        failures = [...failures, { task, attempts: 1, reason, retryAt: now + 1_000 }];
        return;
      }
      failures = failures.filter((failure) => JSON.stringify(failure.task) !== JSON.stringify(task));
      if (task.kind === 'pull') {
        images.add(task.reference);
        return;
      }
      const bundle = kept.find((one) => one.bundleId === task.bundleId);
      for (const { tag, reference } of bundle === undefined ? [] : tagGoalsOf(bundle)) {
        if (!images.has(reference) || (task.kind === 'restore-tags' && !task.tags.includes(tag))) continue;
        const given = { tag, at: now, ...(!tags.has(tag) && { wasGone: true as const }) };
        tags.set(tag, reference);
        if (task.kind === 'restore-tags') tagsGiven = [...tagsGiven, given];
      }
      if (task.kind === 'activate')
        kept = kept.map((one) => (one.bundleId === task.bundleId ? { ...one, activatedAt: now } : one));
    },
    isBusy: () => running.length > 0,
    state: () => ({ images, mirrors, kept, tags, tagsGiven }),
  };
}

type Happening =
  | { readonly kind: 'plug' | 'unplug'; readonly stick: number }
  | { readonly kind: 'power'; readonly on: boolean }
  | { readonly kind: 'wipe' | 'forget-mirrors' | 'done' | 'fail' }
  | { readonly kind: 'steal'; readonly index: number; readonly isMoved: boolean }
  | { readonly kind: 'pass'; readonly ms: number };

function happen(node: ReturnType<typeof createNode>, event: Happening): void {
  if (event.kind === 'plug') node.plug(event.stick);
  else if (event.kind === 'unplug') node.unplug(event.stick);
  else if (event.kind === 'power') node.power(event.on);
  else if (event.kind === 'pass') node.pass(event.ms);
  else if (event.kind === 'steal') node.steal(event.index, event.isMoved);
  else if (event.kind === 'wipe') node.wipe();
  else if (event.kind === 'forget-mirrors') node.forgetMirrors();
  else node.end(event.kind === 'done');
}

const happening: fc.Arbitrary<Happening> = fc.oneof(
  fc.record({ kind: fc.constantFrom('plug' as const, 'unplug' as const), stick: fc.nat(2) }),
  fc.record({ kind: fc.constant('power' as const), on: fc.boolean() }),
  fc.record({ kind: fc.constant('steal' as const), index: fc.nat(5), isMoved: fc.boolean() }),
  fc.record({ kind: fc.constant('pass' as const), ms: fc.nat(3_000) }),
  fc.record({ kind: fc.constantFrom('done' as const, 'done' as const, 'fail' as const) }),
  fc.record({ kind: fc.constantFrom('wipe' as const, 'forget-mirrors' as const, 'done' as const) }),
);

// A few seconds of arithmetic, which a busy machine makes many.
describe('decide, for any sequence of events', { timeout: 240_000 }, () => {
  it('keeps its invariants, settles, and reaches its end once sticks, runtime and time allow it', () => {
    fc.assert(
      fc.property(fc.array(happening, { maxLength: 40 }), (story) => {
        const node = createNode();
        for (const event of story) {
          happen(node, event);
          node.settle();
        }
        node.power(true);
        for (const which of [0, 1, 2]) node.plug(which);
        for (let turn = 0; turn < 40; turn += 1) {
          node.pass(60_000);
          node.settle();
          node.end(true);
        }
        node.settle();
        expect(node.isBusy()).toBe(false);
        const { images, mirrors, kept, tags, tagsGiven } = node.state();
        const served = kept.filter(({ readyAt }) => readyAt !== undefined);
        const repositories = served.flatMap(({ contents }) =>
          contents.images.map(({ reference }) => repositoryOf(reference)),
        );
        expect(mirrors).toEqual([...new Set(repositories)].sort());
        // Once 2.0.0 is activated, a 1.0.0 that was never seen before is not taken any more.
        const versions = kept.map((bundle) => bundle.payload.version);
        expect(versions).toEqual(expect.arrayContaining(['2.0.0', '4.13.7']));
        for (const bundle of kept) {
          expect(bundle.contents.images.every((image) => images.has(image.reference))).toBe(true);
          expect(bundle.readyAt).toBeDefined();
        }
        const newest = kept.find((bundle) => bundle.payload.version === '2.0.0');
        expect(newest?.activatedAt).toBeDefined();
        expect(kept.find((bundle) => bundle.payload.name === 'tools')?.activatedAt).toBeUndefined();
        // Nobody fights: a tag is taken back three times, and is where it belongs unless it was
        // taken a fourth time. One that is gone is given again each time.
        for (const { tag, reference } of newest === undefined ? [] : tagGoalsOf(newest)) {
          const times = tagsGiven.filter((given) => given.tag === tag && !given.wasGone).length;
          expect(times).toBeLessThanOrEqual(3);
          if (times < 3) expect(tags.get(tag)).toBe(reference);
        }
      }),
      { numRuns: 200 },
    );
  });
});
