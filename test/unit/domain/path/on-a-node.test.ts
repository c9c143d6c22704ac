import { describe, expect, it } from 'vitest';
import type { UpdateRules, VerifiedBundle } from '../../../../src/domain/model/bundle.ts';
import type { Policy } from '../../../../src/domain/settings/settings.ts';
import { createModelMachine } from '../../../support/daemon/model/model-machine.ts';
import { createModelNode } from '../../../support/daemon/model/model-node.ts';
import { POLICY, referenceOf, verified } from '../../../support/daemon/scenario.ts';

const SOAK_MS = POLICY.lifecycle.soak;

const release = (minor: number, update?: UpdateRules, over: Parameters<typeof verified>[0] = {}) =>
  verified({
    version: `1.${minor}.0`,
    sequence: minor,
    images: { [`etcd-${minor}`]: ['os', `e${minor}`] },
    imageOver: { [`etcd-${minor}`]: { component: 'etcd' } },
    ...(update !== undefined && { update }),
    ...over,
  });
const BARRIER = { barrier: { reason: 'storage is migrated' } };

function nodeWith(policy: Policy = POLICY) {
  const machine = createModelMachine();
  const order: string[] = [];
  const pulled: string[] = [];
  const node = createModelNode({
    machine,
    policy,
    onDecision: (effects) => {
      for (const effect of effects) {
        if (effect.kind !== 'start') continue;
        if (effect.task.kind === 'pull') pulled.push(effect.task.reference);
        const { bundleId, kind } = effect.task;
        const version = node.bundles().find((one) => one.bundleId === bundleId)?.payload.version;
        if (kind === 'activate' && version !== undefined) order.push(version);
      }
    },
  });
  const plug = (...bundles: readonly VerifiedBundle[]) => {
    for (const bundle of bundles) node.plug(bundle);
    node.settle();
  };
  const unplug = (...bundles: readonly VerifiedBundle[]) => {
    for (const bundle of bundles) node.unplug(bundle);
    node.settle();
  };
  const prove = (minor: number) => {
    machine.run('etcd', referenceOf(`etcd-${minor}`));
    node.settle();
    machine.pass(SOAK_MS);
    node.settle();
  };
  const holdsOf = (version: string) =>
    node
      .assessment()
      ?.bundles.find(({ bundle }) => bundle.payload.version === version)
      ?.holds.map(({ code, releasedBy }) => `${code} ${releasedBy}`);
  return { machine, node, plug, unplug, prove, order, pulled, holdsOf };
}

describe('a node that goes through the releases of a stream', () => {
  it('activates a barrier and then the next release automatically, without the stick and after a restart', () => {
    const { node, plug, unplug, prove, order, holdsOf } = nodeWith();
    plug(release(2));
    prove(2);
    const stick = [release(3, BARRIER), release(4)];
    plug(...stick);
    expect(node.bundles().map(({ readyAt }) => readyAt !== undefined)).toEqual([true, true, true]);
    expect(order).toEqual(['1.2.0', '1.3.0']);
    expect(holdsOf('1.4.0')).toEqual(['rule/barrier event']);
    unplug(...stick);
    node.restart();
    node.settle();
    expect(order).toEqual(['1.2.0', '1.3.0']);
    prove(3);
    expect(order).toEqual(['1.2.0', '1.3.0', '1.4.0']);
  });

  it('is held by no barrier that a notice calls itself', () => {
    const { plug, prove, order } = nodeWith();
    plug(release(2));
    prove(2);
    plug(release(3, BARRIER, { images: {}, imageOver: {} }), release(4));
    expect(order).toEqual(['1.2.0', '1.4.0']);
  });

  it('loads releases in the order of the path, and skipped releases last', () => {
    const first = nodeWith();
    first.plug(release(2));
    first.plug(release(4), release(3, BARRIER));
    expect(first.pulled.slice(1)).toEqual([referenceOf('etcd-3'), referenceOf('etcd-4')]);
    const other = nodeWith();
    other.plug(release(2));
    other.plug(release(3), release(4));
    expect(other.pulled.slice(1)).toEqual([referenceOf('etcd-4'), referenceOf('etcd-3')]);
    expect(other.order).toEqual(['1.2.0', '1.4.0']);
  });

  it('goes up a ladder of ranges, one step after the other', () => {
    const { plug, order, node, prove } = nodeWith();
    plug(release(2));
    prove(2);
    plug(release(4, { from: '1.3.x' }), release(3, { from: '1.2.x' }));
    expect(order).toEqual(['1.2.0', '1.3.0']);
    prove(3);
    expect(order).toEqual(['1.2.0', '1.3.0', '1.4.0']);
    expect(node.bundles()).toHaveLength(3);
  });

  it('stops at a dead end that a later advisory names, and does not downgrade', () => {
    const { plug, order, holdsOf, node } = nodeWith();
    const advisory = verified({
      version: '2026.1.1',
      sequence: 90,
      images: {},
      advisories: [{ version: '1.2.0', deadend: true, reason: 'loses data' }],
    });
    plug(release(2));
    plug(advisory);
    plug(release(3));
    expect(order).toEqual(['1.2.0']);
    expect(holdsOf('1.3.0')).toEqual(['rule/deadend person']);
    node.commands.activate('ocp@1.3.0', { override: true });
    node.settle();
    const late = verified({
      version: '2026.1.2',
      sequence: 91,
      images: {},
      advisories: [{ version: '1.2.0', barrier: true, reason: 'late' }],
    });
    plug(late);
    expect(order).toEqual(['1.2.0', '1.3.0']);
  });

  it('downgrades only when the settings allow it, to a release that arrived later', () => {
    const strict = nodeWith();
    strict.plug(release(3));
    strict.plug(release(2, undefined, { sequence: 4 }));
    expect(strict.order).toEqual(['1.3.0']);
    expect(strict.holdsOf('1.2.0')).toEqual(['rule/downgrade person']);
    const lax = nodeWith({ ...POLICY, update: { ...POLICY.update, allow_downgrade: true } });
    lax.plug(release(3));
    lax.machine.pass(1);
    lax.plug(release(2));
    lax.machine.pass(1);
    lax.plug(release(1));
    expect(lax.order).toEqual(['1.3.0', '1.2.0', '1.1.0']);
    lax.machine.pass(1);
    lax.node.settle();
    expect(lax.order).toHaveLength(3);
  });

  it('does not activate a rolled back release again automatically, but a newer one', () => {
    const { node, machine, plug, prove, order, holdsOf } = nodeWith();
    plug(release(2));
    prove(2);
    plug(release(3));
    machine.pass(1);
    expect(node.commands.rollback(undefined)).toBe('ocp@1.2.0');
    node.settle();
    node.restart();
    node.settle();
    expect(order).toEqual(['1.2.0', '1.3.0', '1.2.0']);
    expect(holdsOf('1.3.0')).toEqual(['engine/denied person']);
    plug(release(4));
    expect(order).toEqual(['1.2.0', '1.3.0', '1.2.0', '1.4.0']);
  });

  it('applies neither "from" nor barriers while the current release is unknown, unless the settings name it', () => {
    const rules = [release(3, BARRIER), release(4, { from: '1.3.x' })];
    const unknown = nodeWith();
    unknown.plug(...rules);
    expect(unknown.order).toEqual(['1.4.0']);
    const told = nodeWith({ ...POLICY, streams: { ocp: { current: '1.2.0' } } });
    told.plug(...rules);
    expect(told.order).toEqual(['1.3.0']);
    told.prove(3);
    expect(told.order).toEqual(['1.3.0', '1.4.0']);
  });

  it('keeps streams apart', () => {
    const { plug, order } = nodeWith();
    plug(release(2));
    plug(release(3, BARRIER), release(9, undefined, { name: 'tools', images: { tool: ['t'] } }), release(4));
    expect([...order].sort()).toEqual(['1.2.0', '1.3.0', '1.9.0']);
  });
});
