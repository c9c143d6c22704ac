import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type ApiOnBus, startApiOnBus } from '../../support/bus/api-on-bus.ts';
import { verified } from '../../support/daemon/scenario.ts';
import { createFakeNode, type FakeNode } from '../../support/fake-ports.ts';
import { have } from '../../support/requirements.ts';
import { runCommand } from '../../support/run-command.ts';

const held = verified({
  update: {
    from: '>=99.0.0',
    rollout: { start: '2030-01-01T00:00:00Z', startPercentage: 1 },
    endOfLife: '2026-01-01T00:00:00Z',
    barrier: { reason: 'the storage format changes' },
  },
  advisories: [{ version: '4.13.7', deadend: true, reason: 'etcd may lose writes' }],
});
const rules = />=99\.0\.0.*2030-01-01T00:00:00Z.*2026-01-01T00:00:00Z/;

describe.runIf(have('dbus-daemon'))('activate over the bus, of a release that its rules hold', () => {
  let api: ApiOnBus;
  let node: FakeNode;

  beforeAll(async () => {
    node = createFakeNode();
    await node.start();
    api = await startApiOnBus(
      {
        activate: async ({ bundle, options }) => node.engine.commands.activate({ bundle, ...options }),
      },
      () => node.engine.report(),
    );
  });
  afterAll(async () => {
    await node.stop();
    await api[Symbol.asyncDispose]();
  });
  beforeEach(async () => {
    await node.stop();
    node = createFakeNode([], { streams: { ocp: { current: '4.13.6' } } });
    await node.start();
    node.plug('sdb1', held);
    await node.clock.advance(0);
    expect(node.phase('4.13.7')).toBe('ready');
  });

  const requested = () => node.store.rows.filter(({ kind }) => kind === 'activation-requested').length;
  const atTerminal = (answer: boolean, asked: string[] = []) =>
    runCommand(['activate', 'ocp@4.13.7'], {
      env: { DBUS_SYSTEM_BUS_ADDRESS: api.address },
      confirm: async (question) => asked.push(question) > 0 && answer,
    });

  it('refuses without a terminal, names each rule and says what to say', async () => {
    const run = await api.run('activate', 'ocp@4.13.7');
    expect(run).toMatchObject({ exitCode: 1, stdout: '' });
    expect(run.stderr).toMatch(rules);
    expect(run.stderr).toMatch(/nothing was changed\. Give --force to do it anyway\n$/);
    expect(requested()).toBe(0);
  });

  it('activates with --force, and records which rules were confirmed', async () => {
    const run = await api.run('activate', 'ocp@4.13.7', '--force');
    expect(run).toMatchObject({ exitCode: 0, stderr: '' });
    await node.clock.advance(0);
    expect(node.phase('4.13.7')).toBe('activated');
    expect(node.store.rows.find(({ kind }) => kind === 'activation-requested')?.message).toMatch(rules);
  });

  it('asks at a terminal, and activates only after a yes', async () => {
    const asked: string[] = [];
    expect(await atTerminal(false, asked)).toMatchObject({ exitCode: 1, stdout: '' });
    expect(asked).toEqual([expect.stringMatching(rules)]);
    expect(asked[0]).toMatch(/\. Activate it anyway\?$/);
    expect(requested()).toBe(0);
    expect(await atTerminal(true)).toMatchObject({ exitCode: 0 });
    await node.clock.advance(0);
    expect(node.phase('4.13.7')).toBe('activated');
  });

  it('shows in list and show which rules hold which release', async () => {
    const list = (await api.run('list')).stdout;
    expect(list).toMatch(/ocp@4\.13\.7 +ready \(activation held\)/);
    expect(list).toMatch(rules);
    expect(list).toContain('ocp@4.13.7: barrier: the storage format changes (holds other releases of its stream)');
    expect(list).toContain(
      'ocp@4.13.7: dead end (holds other releases of its stream), says ocp@4.13.7: etcd may lose writes',
    );
    const show = (await api.run('show', 'ocp@4.13.7')).stdout;
    expect(show).toMatch(/^barrier: +the storage format changes \(holds other releases of its stream\)$/m);
    expect(show).toMatch(/^from: +>=99\.0\.0 \(holds its activation while it applies\)$/m);
    expect(show).toMatch(/^advisory: +dead end \(holds other releases of its stream\), says ocp@4\.13\.7/m);
    const json = JSON.parse((await api.run('show', 'ocp@4.13.7', '--json')).stdout);
    expect(json.advisory).toMatchObject({ deadend: true, effect: 'holds-others' });
    expect(json.activationHolds.map(({ code }: { code: string }) => code)).toEqual([
      'rule/from',
      'rule/rollout',
      'rule/end-of-life',
    ]);
  });

  it('marks the release of each stream that is current, in list and in JSON', async () => {
    node.plug('sdc1', verified({ version: '4.13.6', sequence: 6, images: { old: ['old'] } }));
    await node.clock.advance(0);
    node.plug('sdd1', verified({ version: '4.13.8', sequence: 8, images: { new: ['new'] } }));
    await node.clock.advance(0);
    const list = (await api.run('list')).stdout;
    expect(list).toMatch(/ocp@4\.13\.6 +activated +1\/1/);
    expect(list).toMatch(/ocp@4\.13\.8 +activated \(current\) +1\/1/);
    const { bundles } = JSON.parse((await api.run('status', '--json')).stdout);
    const current = bundles.map((one: { version: string; current: boolean }) => [one.version, one.current]);
    expect(Object.fromEntries(current)).toEqual({ '4.13.6': false, '4.13.7': false, '4.13.8': true });
  });
});
