import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { VerifiedBundle } from '../../../../src/domain/model/bundle.ts';
import { distinguishingIds, imageIds } from '../../../../src/domain/release/evidence.ts';
import { currentRelease, keptBundles, lastProven } from '../../../../src/domain/release/recorded-phase.ts';
import { isProtected } from '../../../../src/domain/release/retention.ts';
import type { Effect } from '../../../../src/domain/state/effect.ts';
import type { StoredBundle } from '../../../../src/domain/state/state.ts';
import type { Role } from '../../../../src/domain/trust/role.ts';
import { AppError } from '../../../../src/platform/app-error.ts';
import { createModelMachine } from '../../../support/daemon/model/model-machine.ts';
import { createModelNode } from '../../../support/daemon/model/model-node.ts';
import { GIB, keyIdOf, MIB, POLICY, verified } from '../../../support/daemon/scenario.ts';

const SOAK_MS = 600_000;
/** The stream of plain keys, two of one role and one of another. */
const OWNERS: Readonly<Record<string, string | undefined>> = { ocp: undefined, app: 'one', web: 'one', tool: 'two' };
const STREAMS = Object.keys(OWNERS);
const RELEASES_EACH = 5;
const RESERVED = 15 * GIB;
/** Room for so many releases on the disk. */
const ROOM = 6;

/** One image of one layer of 1 GiB; those of roles may be for good. */
function release(stream: string, at: number): VerifiedBundle {
  const name = `${stream}-${at}`;
  const bundle = verified({
    name: stream,
    sequence: at + 1,
    version: `1.0.${at}`,
    images: { [name]: [name] },
    imageOver: { [name]: { component: 'main', tags: [] } },
    layers: { [name]: { diskBytes: GIB, inodes: 0 } },
    ...(stream === 'tool' && at === 1 && { keep: 'life' }),
  });
  const role = OWNERS[stream];
  if (role === undefined) return bundle;
  return { ...bundle, signerKeyIds: [keyIdOf(role)], signerRoles: [{ keyId: keyIdOf(role), role }] };
}
const RELEASES = STREAMS.flatMap((stream) =>
  Array.from({ length: RELEASES_EACH }, (_, at) => [`${stream} ${at}`, release(stream, at)] as const),
);
const ALL: ReadonlyMap<string, VerifiedBundle> = new Map(RELEASES);

function createNode(roles: readonly Role[]) {
  const machine = createModelMachine([]);
  const { images } = machine;
  machine.filesystem = () => {
    const used = [...ALL.values()].filter(({ contents }) => images.has(contents.images[0]?.reference ?? '')).length;
    const freeBytes = RESERVED + (ROOM - used) * GIB + 500 * MIB;
    return { path: '/var', totalBytes: 100 * GIB, freeBytes };
  };
  const seen = { madeRoom: 0, ofAnother: 0, heldAtRest: 0, overShare: 0 };
  const policy = { ...POLICY, lifecycle: { ...POLICY.lifecycle, soak: SOAK_MS } };
  const node = createModelNode({ machine, policy, roles, onDecision: check, onRest: checkRest });

  function isRunning(bundle: StoredBundle): boolean {
    const own = distinguishingIds(bundle, node.bundles(), imageIds(machine.listed()));
    return machine.containers().some(({ state, imageNames: [name = ''] }) => state === 'running' && own.has(name));
  }

  function isWhole({ contents }: StoredBundle): boolean {
    return contents.images.every(({ reference }) => images.has(reference) && machine.pins.includes(reference));
  }

  /** What a stream needs: what it runs and what it may go back to. */
  function neededOf(stream: string): readonly StoredBundle[] {
    const all = node.bundles();
    const current = currentRelease(all, stream);
    const others = keptBundles(all)
      .filter((one) => one.payload.name === stream && one !== current)
      .filter(({ activatedAt }) => current === undefined || activatedAt !== undefined);
    const proven = others.filter(({ provenAt }) => provenAt !== undefined);
    const fallback = (proven.length > 0 ? proven : others).filter(isWhole);
    const latest = fallback.sort((a, b) => (b.provenAt ?? b.activatedAt ?? 0) - (a.provenAt ?? a.activatedAt ?? 0))[0];
    return [current, latest].filter((one) => one !== undefined);
  }

  function check(effects: readonly Effect[]): void {
    const bundles = node.bundles();
    for (const effect of effects) {
      if (effect.kind !== 'retire') continue;
      const bundle = bundles.find(({ bundleId }) => bundleId === effect.bundleId);
      if (bundle === undefined) expect.unreachable();
      const { name } = bundle.payload;
      expect(isRunning(bundle) || isProtected(bundle, policy.lifecycle)).toBe(false);
      expect([currentRelease(bundles, name), lastProven(bundles, name)]).not.toContain(bundle);
      const next = bundles.find(({ bundleId }) => bundleId === effect.roomFor);
      if (next === undefined) continue;
      seen.madeRoom += 1;
      // Nothing of the platform makes room for a role.
      if (OWNERS[name] === undefined) expect(next.payload.name).toBe(name);
      if (next.payload.name === name) continue;
      seen.ofAnother += 1;
      const current = currentRelease(bundles, name);
      if (current === undefined || isWhole(current)) expect(neededOf(name)).not.toContain(bundle);
    }
    for (const stream of STREAMS) {
      const whole = keptBundles(bundles).filter((one) => one.payload.name === stream && isWhole(one));
      const gone = effects.flatMap((effect) => (effect.kind === 'retire' ? [effect.bundleId] : []));
      if (whole.length > 0) expect(whole.every(({ bundleId }) => gone.includes(bundleId))).toBe(false);
    }
    for (const { name, maxBytes = Number.POSITIVE_INFINITY } of roles) {
      const own = keptBundles(bundles).filter(({ payload, readyAt }) => OWNERS[payload.name] === name && readyAt);
      expect(own.length * GIB).toBeLessThanOrEqual(maxBytes);
    }
  }

  /** No release of plain keys waits for space that a role could do without. */
  function checkRest(): void {
    for (const { bundle, hold, reason } of node.assessment()?.bundles ?? []) {
      if (reason?.code === 'engine/over-share') seen.overShare += 1;
      if (hold !== 'space' || bundle.payload.name !== 'ocp' || reason?.code !== 'engine/no-space') continue;
      seen.heldAtRest += 1;
      const spare = STREAMS.filter((stream) => OWNERS[stream] !== undefined).flatMap((stream) => {
        const good = lastProven(node.bundles(), stream) ?? currentRelease(node.bundles(), stream);
        if (good !== undefined && !isWhole(good)) return [];
        const needed = neededOf(stream);
        return keptBundles(node.bundles())
          .filter((one) => one.payload.name === stream && isWhole(one) && !needed.includes(one) && !isRunning(one))
          .filter((one) => !isProtected(one, policy.lifecycle) && one !== good)
          .filter(({ activationRequestedAt = 0, activatedAt = 0 }) => activationRequestedAt <= activatedAt);
      });
      const { lacking = 0 } = node.assessment()?.bundles.find((one) => one.bundle === bundle)?.disk?.shortages[0] ?? {};
      expect(spare.length * GIB).toBeLessThan(lacking);
    }
  }

  const act = (name: string, what: (bundle: VerifiedBundle) => void) => {
    const bundle = ALL.get(name);
    if (bundle !== undefined) what(bundle);
  };
  return {
    seen,
    loaded: (stream: string) => node.bundles().filter(({ payload }) => payload.name === stream).length,
    settle: () => void node.settle(),
    plug: (name: string) => act(name, node.plug),
    unplug: (name: string) => act(name, node.unplug),
    run: (name: string) =>
      act(name, ({ payload, contents }) => machine.run(payload.name, contents.images[0]?.reference ?? '')),
    lose: (name: string) => act(name, ({ contents }) => images.delete(contents.images[0]?.reference ?? '')),
    activate: (name: string) =>
      act(name, ({ payload }) => {
        try {
          node.commands.activate(`${payload.name}@${payload.version}`);
        } catch (error) {
          if (!(error instanceof AppError) || error.disposition !== 'reject') throw error;
        }
      }),
    pass: machine.pass,
    drain: machine.drain,
    reboot: () => {
      machine.reboot();
      node.restart();
    },
  };
}

type Node = ReturnType<typeof createNode>;

const any = fc.constantFrom(...ALL.keys());
const of = (what: string, arbitrary: fc.Arbitrary<string>, happen: (node: Node, name: string) => void) =>
  arbitrary.map((name) => [`${what} ${name}`, (node: Node) => happen(node, name)] as const);
const happening: fc.Arbitrary<readonly [string, (node: Node) => void]> = fc.oneof(
  {
    weight: 12,
    arbitrary: of('load the next of', fc.constantFrom(...STREAMS), (node, stream) => {
      const name = `${stream} ${node.loaded(stream)}`;
      node.plug(name);
      node.settle();
      node.unplug(name);
    }),
  },
  { weight: 2, arbitrary: of('plug', any, (node, name) => node.plug(name)) },
  { weight: 5, arbitrary: of('run', any, (node, name) => node.run(name)) },
  { weight: 2, arbitrary: of('activate', any, (node, name) => node.activate(name)) },
  { weight: 1, arbitrary: of('lose', any, (node, name) => node.lose(name)) },
  { weight: 3, arbitrary: fc.constant(['pass', (node: Node) => node.pass(SOAK_MS)] as const) },
  { weight: 1, arbitrary: fc.constant(['drain', (node: Node) => node.drain()] as const) },
  { weight: 1, arbitrary: fc.constant(['reboot', (node: Node) => node.reboot()] as const) },
);

const maxBytes = fc.constantFrom(undefined, 2.5 * GIB, 4.5 * GIB);

describe('releases of roles beside those of plain keys, for any sequence of events', () => {
  it('give way to the platform, all but what each stream needs, and never take more than their share', () => {
    const total = { madeRoom: 0, ofAnother: 0, heldAtRest: 0, overShare: 0 };
    fc.assert(
      fc.property(
        fc.array(happening, { minLength: 10, maxLength: 30, size: 'max' }),
        maxBytes,
        maxBytes,
        (story, ofOne, ofTwo) => {
          const limits = { threshold: 1, streams: ['*'], repositories: ['quay.example.com'], mayRotate: false };
          const role = (name: string, max: number | undefined): Role => ({
            ...limits,
            name,
            mayKeepForLife: true,
            ...(max !== undefined && { maxBytes: max }),
          });
          const node = createNode([role('one', ofOne), role('two', ofTwo)]);
          node.settle();
          for (const [, happen] of story) {
            happen(node);
            node.settle();
          }
          for (const key of Object.keys(total) as (keyof typeof total)[]) total[key] += node.seen[key];
        },
      ),
      { numRuns: 120 },
    );
    // The stories are about something.
    for (const times of Object.values(total)) expect(times).toBeGreaterThan(5);
  }, 300_000);
});
