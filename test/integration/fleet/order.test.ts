import { readFileSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { fleet, pausesAfter } from '../../../src/domain/activation/fleet-gate.ts';
import type { FleetView, Peer } from '../../../src/domain/fleet/node-status.ts';
import { newPause, type Pause } from '../../../src/domain/fleet/pause.ts';
import type { Phase } from '../../../src/domain/model/condition.ts';
import { BY_NAME } from '../../../src/domain/model/roll-out-order.ts';
import { NO_HOOKS } from '../../../src/domain/state/hook.ts';
import { NOON, POLICY, stored, verified } from '../../support/daemon/scenario.ts';
import { eventually } from '../../support/eventually.ts';
import { type PublishedNode, startPublishedNode } from '../../support/fleet/published-node.ts';
import { ownBundle, ownReport } from '../../support/kubernetes/own-report.ts';
import { startTestCluster, type TestCluster } from '../../support/kubernetes/test-cluster.ts';
import { have } from '../../support/requirements.ts';

const HOUR = 3_600_000;
const before = stored(verified({ version: '4.13.6', sequence: 6 }), { activatedAt: NOON - HOUR });
const bundle = stored(verified(), { readyAt: NOON });
const policy = { ...POLICY, fleet: { ...POLICY.fleet, enabled: true, order: { ...BY_NAME, settleMs: 0 } } };

/** What holds the activation on the node that has this view, long after the release was ready. */
function holdOf(view: FleetView, pauses: readonly Pause[] = []): string {
  const verdict = fleet({
    bundle,
    bundles: [before, bundle],
    policy,
    now: NOON + 2 * HOUR,
    clockSynchronised: true,
    fleet: view,
    hooks: NO_HOOKS,
    pauses,
  });
  if (verdict.kind === 'pass') return 'goes';
  const { code, data } = verdict.hold;
  return 'node' in data ? `${code} ${data.node}` : code;
}

const reportOf = (phase: Phase) => {
  const { bundleId } = bundle;
  const { name, version } = bundle.payload;
  const rollOut = { ...(phase === 'ready' && { reads: [] }) };
  const current = phase === 'activated';
  return ownReport([ownBundle({ bundleId, name, version, phase, rollOut, ...(current && { current }) })]);
};

/** Of a node that runs from the release, or on which the one before it took its place again. */
const after = (what: 'activation' | 'rollback') => {
  const isBack = what === 'rollback';
  const { bundleId, payload } = bundle;
  return ownReport([
    ownBundle({
      bundleId,
      version: payload.version,
      phase: 'activated',
      current: !isBack,
      ...(isBack ? { rolledBack: true } : { runs: false }),
    }),
    ownBundle({
      bundleId: before.bundleId,
      version: '4.13.6',
      phase: 'proven',
      current: isBack,
      ...(isBack && { runs: true }),
    }),
  ]);
};

const isInTrouble =
  (of: string) =>
  ({ name, trouble }: Peer) =>
    name === of && trouble !== undefined;

/** Real TLS, and the strict API server. */
describe.runIf(have('openssl'))('nodes that activate one after the other', () => {
  let cluster: TestCluster;
  let nodes: readonly PublishedNode[];

  beforeEach(async () => {
    cluster = await startTestCluster();
    cluster.server.apply(readFileSync('packaging/node/fleet.yaml', 'utf8'));
    nodes = await Promise.all(
      ['n1', 'n2', 'n3'].map((name) => startPublishedNode(cluster, name, reportOf('preloading'))),
    );
  });
  afterEach(async () => {
    await Promise.all(nodes.map((node) => node.stop()));
    await cluster[Symbol.asyncDispose]();
  });

  const phaseOf = (view: FleetView, name: string) =>
    view.nodes.find((node) => node.name === name)?.status?.releases[0]?.phase;
  const sees = (at: number, name: string, phase: Phase) =>
    nodes[at]?.process().until((view) => phaseOf(view, name) === phase, 60_000);
  const holds = async () => Promise.all(nodes.map(async (node) => holdOf(await node.process().view())));
  const settled = (...expected: readonly string[]) => eventually(async () => expect(await holds()).toEqual(expected));

  it('keep the order while the port of one is blocked after it was reached', async () => {
    for (const node of nodes) {
      await node
        .process()
        .until(({ peers }) => peers.length === 2 && peers.every(({ trouble }) => trouble === undefined));
    }
    await settled('fleet/not-ready n2', 'fleet/not-ready n1', 'fleet/not-ready n1');
    nodes[1]?.block();
    for (const at of [0, 2]) {
      await nodes[at]?.process().until(({ peers }) => peers.some(isInTrouble('n2')), 60_000);
    }
    for (const node of nodes) node.report(reportOf('ready'));
    await settled('goes', 'fleet/order n1', 'fleet/order n1');
    nodes[0]?.report(reportOf('activated'));
    await sees(2, 'n1', 'activated');
    await settled('goes', 'goes', 'fleet/order n2');
    nodes[1]?.report(reportOf('activated'));
    await settled('goes', 'goes', 'goes');
  }, 120_000);

  it('pause together while no API server answers, and go on with a lift on the one that said it', async () => {
    const now = NOON + 2 * HOUR;
    const said = nodes.map((): readonly Pause[] => []);
    const daemons = async () =>
      Promise.all(
        nodes.map(async (node, at) => {
          const view = await node.process().view();
          const context = { bundles: [before, bundle], policy, now, clockSynchronised: true, fleet: view };
          said[at] = pausesAfter({ ...context, pauses: said[at] });
          node.report({ ...reportOf('ready'), pauses: said[at] ?? [] });
          return holdOf(view, said[at]);
        }),
      );
    for (const node of nodes) node.report(reportOf('ready'));
    await settled('goes', 'fleet/order n1', 'fleet/order n1');
    await cluster.server.stop();
    const pause = newPause({ name: 'ocp', node: 'n1', by: 'uid 0', why: 'no power', atMs: now, forMs: HOUR });
    said[0] = [pause];
    await eventually(async () => expect(await daemons()).toEqual(Array(3).fill('fleet/paused n1')), 60_000, 200);
    const lift = (at: number) => {
      said[at] = (said[at] ?? []).map((one) => ({ ...one, lifted: { node: `n${at + 1}`, by: 'uid 0' } }));
    };
    const go = (...expected: readonly string[]) =>
      eventually(async () => expect(await daemons()).toEqual(expected), 60_000, 200);
    lift(1);
    await go('fleet/paused n1', 'fleet/order n1', 'fleet/paused n1');
    await eventually(async () => {
      const pauses = (await nodes[2]?.process().view())?.nodes.find(({ name }) => name === 'n2')?.status?.pauses;
      expect(pauses).toMatchObject([{ id: pause.id, lifted: { node: 'n2' } }]);
    }, 60_000);
    await go('fleet/paused n1', 'fleet/order n1', 'fleet/paused n1');
    lift(0);
    // What n1 said may come by n2 too.
    const passedOn = expect.stringMatching(/^n[12]$/);
    await go('goes', 'fleet/order n1', 'fleet/order n1');
    expect(said[2]).toMatchObject([{ id: pause.id, from: passedOn, lifted: { node: 'n1' }, liftedFrom: passedOn }]);
  }, 180_000);

  it('stop at one that goes back', async () => {
    for (const node of nodes) node.report(reportOf('ready'));
    await settled('goes', 'fleet/order n1', 'fleet/order n1');
    nodes[0]?.report(after('activation'));
    for (const at of [1, 2]) await sees(at, 'n1', 'activated');
    expect((await holds()).slice(1)).toEqual(['fleet/order n1', 'fleet/order n1']);
    nodes[0]?.report(after('rollback'));
    await settled('goes', 'fleet/failed n1', 'fleet/failed n1');
  }, 120_000);

  it('rest until one needs something, and read all Nodes before they activate', async () => {
    const { server } = cluster;
    const own = /fieldSelector=/;
    const watchesOfAll = () => server.seen.filter(({ line }) => /watch=true/.test(line) && !own.test(line)).length;
    for (const node of nodes) node.report(ownReport([]));
    for (const name of ['n1', 'n2', 'n3']) {
      const written = () => server.node(name).metadata.annotations['stickpin.io/status'];
      await eventually(() => expect(written()).toContain('"releases":[]'), 30_000);
    }
    server.endWatches();
    const views = () => Promise.all(nodes.map((node) => node.process().view()));
    await eventually(async () => expect((await views()).map(({ isOld }) => isOld)).toEqual([true, true, true]), 30_000);
    const before = watchesOfAll();
    expect(holdOf((await views())[0] as FleetView)).toBe('fleet/reading');
    nodes[0]?.report(reportOf('ready'));
    await nodes[0]?.process().until(({ isOld }) => isOld === undefined, 30_000);
    await eventually(() => expect(watchesOfAll()).toBe(before + 1));
    await settled('fleet/not-ready n2', 'fleet/reading', 'fleet/reading');
    for (const node of nodes) node.report(reportOf('ready'));
    await settled('goes', 'fleet/order n1', 'fleet/order n1');
  }, 120_000);

  it('keep the order over a restart while no API server answers and no port is reached', async () => {
    for (const node of nodes) node.block();
    for (const at of [0, 1]) nodes[at]?.report(reportOf('ready'));
    await sees(1, 'n1', 'ready');
    await settled('fleet/not-ready n3', 'fleet/not-ready n3', 'fleet/reading');
    await cluster.server.stop();
    await nodes[1]?.restart();
    const view = await nodes[1]?.process().view();
    expect(view?.nodes.map(({ name }) => name)).toEqual(['n1', 'n2', 'n3']);
    expect(view?.apiTrouble).toBeDefined();
    expect(view && holdOf(view)).toBe('fleet/not-ready n1');
    await cluster.server.restart();
    await sees(1, 'n1', 'ready');
    await settled('fleet/not-ready n3', 'fleet/not-ready n3', 'fleet/reading');
  }, 120_000);
});
