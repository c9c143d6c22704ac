import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { KubernetesApi } from '../../../src/fleet/kubernetes/api.ts';
import { readCredentials } from '../../../src/fleet/kubernetes/credentials.ts';
import { KubernetesCluster } from '../../../src/fleet/kubernetes/kubernetes-cluster.ts';
import { Publisher } from '../../../src/fleet/kubernetes/publisher.ts';
import { EVENT_REASONS } from '../../../src/fleet/publish/events.ts';
import { healthOf } from '../../../src/fleet/publish/node-status.ts';
import type { OwnReport } from '../../../src/fleet/publish/own-report.ts';
import { readDoc } from '../../support/docs/doc-files.ts';
import { commandsOf, markedBlocks } from '../../support/docs/marked-blocks.ts';
import { runBlocks } from '../../support/docs/run-blocks.ts';
import { eventually } from '../../support/eventually.ts';
import { fastClock } from '../../support/kubernetes/fast-clock.ts';
import { ownBundle, ownReport } from '../../support/kubernetes/own-report.ts';
import { startTestCluster, type TestCluster } from '../../support/kubernetes/test-cluster.ts';
import { createRecordingLog } from '../../support/recording-log.ts';
import { have } from '../../support/requirements.ts';
import { kubectlPrograms } from '../../support/rootfs/kubectl.ts';

const PAGE = 'docs/fleet.md';
const NODES = ['worker-1', 'worker-2', 'worker-3'];

/** Three nodes that tell the API server about themselves, and kubectl as an administrator. */
interface Scene {
  readonly cluster: TestCluster;
  readonly programs: string;
  readonly kubeconfig: string;
  readonly clusters: readonly KubernetesCluster[];
  readonly publishers: readonly { readonly publisher: Publisher; report: OwnReport }[];
  readonly stopPublishers: () => Promise<void>;
  readonly stop: () => Promise<void>;
}

let scene: Scene;

async function startScene(): Promise<Scene> {
  const cluster = await startTestCluster(NODES);
  const stopping = new AbortController();
  const common = { clock: fastClock(200), random: () => 0.5, log: createRecordingLog() };
  const publishers: { publisher: Publisher; report: OwnReport }[] = [];
  const clusters: KubernetesCluster[] = [];
  const running: Promise<void>[] = [];
  for (const [at, name] of NODES.entries()) {
    const path = cluster.kubeconfigOf(name, cluster.authority.node(name));
    const api = new KubernetesApi((signal) => readCredentials(path, signal));
    const options = { ...common, api, cluster: new KubernetesCluster({ ...common, api, hostname: name }) };
    const report = () => publishers[at]?.report;
    const mark = { set: async () => undefined };
    const publisher = new Publisher({ ...options, report, isDaemonUp: () => true, serves: () => undefined, mark });
    clusters.push(options.cluster);
    publishers.push({ publisher, report: ownReport([]) });
    running.push(options.cluster.run(stopping.signal), publisher.run(stopping.signal));
  }
  const stopPublishers = async () => {
    stopping.abort();
    await Promise.all(running);
  };
  const admin = cluster.authority.sign({ subject: '/O=system:masters/CN=admin' });
  return {
    cluster,
    clusters,
    publishers,
    programs: await kubectlPrograms(),
    kubeconfig: cluster.kubeconfigOf('admin', admin),
    stopPublishers,
    stop: async () => {
      await stopPublishers();
      await cluster[Symbol.asyncDispose]();
    },
  };
}

function tell(report: OwnReport, nodes: readonly number[] = [0, 1, 2]): void {
  for (const at of nodes) {
    const node = scene.publishers[at];
    if (node === undefined) throw new Error(`no node ${at}`);
    node.report = report;
    node.publisher.changed();
  }
}

const run = (name: string) => {
  const { programs, kubeconfig, cluster } = scene;
  const env = { KUBECONFIG: kubeconfig, HOME: cluster.folder };
  return runBlocks([commandsOf(PAGE, name)], { directory: cluster.folder, programs, env });
};

describe.runIf(have('root', 'openssl', 'dbus-daemon', 'mmdebstrap'))(PAGE, () => {
  beforeAll(async () => {
    scene = await startScene();
  });
  afterAll(() => scene?.stop());

  it('lets nodes see each other', async () => {
    const seen = () => scene.clusters.map((cluster) => cluster.nodes().length);
    await eventually(() => expect(seen()).toEqual([1, 1, 1]));
    cpSync('packaging/node/fleet.yaml', join(scene.cluster.folder, 'fleet.yaml'));
    expect(await run('let nodes see each other')).toBe(
      'clusterrole.rbac.authorization.k8s.io/stickpin-fleet created\nclusterrolebinding.rbac.authorization.k8s.io/stickpin-fleet created\n',
    );
    // Each asks again when its watch ends, within a minute.
    scene.cluster.server.endWatches();
    await eventually(() => expect(seen()).toEqual([3, 3, 3]));
  });

  it('shows how kubectl follows the upgrade of three nodes', async () => {
    const proven = ownBundle({ version: '4.13.6', sequence: 6, phase: 'proven', current: true });
    tell(ownReport([proven, ownBundle()]));
    const ready = run('wait until ready');
    const before = run('get nodes');
    tell(ownReport([proven, ownBundle({ phase: 'ready' })]), [0, 1]);
    await before;
    tell(ownReport([proven, ownBundle({ phase: 'ready' })]), [2]);
    expect(await ready).toBe(NODES.map((name) => `node/${name} condition met\n`).join(''));
    expect((await run('watch an upgrade')).split('\n')[1]).toMatch(/^worker-1 +Ready +v1\.36\.2 +4\.13\.7$/);

    tell(
      ownReport([{ ...proven, phase: 'superseded', current: false }, ownBundle({ phase: 'active', current: true })]),
    );
    await run('wait until activated');
    const [head, ...rows] = (await run('get nodes')).trim().split('\n');
    expect(head).toMatch(/RELEASE-OCP +READY-OCP$/);
    expect(rows.map((row) => row.split(/ +/).slice(-2))).toEqual(NODES.map(() => ['4.13.7', '4.13.7']));
  });

  it('shows what kubectl describe says of a node', async () => {
    const text = await run('describe');
    expect(text).toMatch(
      /^ +StickpinHealthy +True .* AsExpected +ocp 4\.13\.6 is superseded, ocp 4\.13\.7 is active$/m,
    );
    expect(text).toMatch(/^Annotations: +stickpin\.io\/status:\s+\{"version":1,/m);
    expect(text).toMatch(/^ +Normal +ReleaseActivated .* stickpin +ocp 4\.13\.7 is activated/m);
  });

  it('shows how kubectl takes everything away', async () => {
    await scene.stopPublishers();
    await run('take everything away');
    const { metadata, status } = scene.cluster.server.node('worker-1');
    const texts = Object.keys({ ...metadata.annotations, ...metadata.labels });
    expect(texts.filter((key) => key.startsWith('stickpin.io/'))).toEqual([]);
    expect(status.conditions.map(({ type }) => type)).toEqual(['Ready']);
  });
});

it(`${PAGE} has a mark at each command, and lists all events and reasons of the condition`, () => {
  expect(markedBlocks(PAGE).filter(({ kind }) => kind === 'run').length).toBeGreaterThan(3);
  const { text } = readDoc(PAGE);
  for (const reason of EVENT_REASONS) expect(text).toContain(`| \`${reason}\` | `);
  const degraded = { type: 'Degraded', status: 'True', reason: 'ImageMissing', message: 'one' } as const;
  const problem = { code: 'store/damaged', message: 'state.db was damaged' };
  const reports = [
    undefined,
    ownReport([]),
    ownReport([], { runtime: { reachable: false } }),
    ownReport([ownBundle({ conditions: [degraded] })]),
    ownReport([], { stateProblems: [problem] }),
  ];
  for (const { status, reason } of reports.map(healthOf)) expect(text).toContain(`| \`${status}\` | \`${reason}\` |`);
});
