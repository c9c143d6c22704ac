import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { KubernetesApi } from '../../../src/fleet/kubernetes/api.ts';
import { readCredentials } from '../../../src/fleet/kubernetes/credentials.ts';
import { KubernetesCluster } from '../../../src/fleet/kubernetes/kubernetes-cluster.ts';
import { PublishedMark } from '../../../src/fleet/kubernetes/own-node.ts';
import { Publisher } from '../../../src/fleet/kubernetes/publisher.ts';
import { nodeStatusOf } from '../../../src/fleet/publish/node-status.ts';
import { labelsToRead, type OwnReport } from '../../../src/fleet/publish/own-report.ts';
import type { ClusterNode } from '../../../src/fleet/trouble.ts';
import { systemClock } from '../../../src/platform/clock.ts';
import { silentLog } from '../../../src/platform/log.ts';
import { type Listeners, listen, notifyAll } from '../../../src/platform/subscription.ts';
import { freePort } from '../free-port.ts';
import { fastClock } from '../kubernetes/fast-clock.ts';
import type { TestCluster } from '../kubernetes/test-cluster.ts';
import { openDoor } from './door.ts';
import { layKubeletFiles } from './kubelet-files.ts';
import { startTestNode, type TestNode } from './test-node.ts';

/** A {@link TestNode} that tells the cluster about itself, and that others reach through a door. */
export interface PublishedNode {
  /** The fleet process that runs now. */
  process(): TestNode;
  /** What its daemon reports from now on. */
  report(report: OwnReport): void;
  /** Nobody reaches its port any more. */
  block(): void;
  /** Ends the fleet process and starts it again, with the files that it left. */
  restart(): Promise<void>;
  stop(): Promise<void>;
}

/** How much faster the publisher writes: at most once in 1.2 s. */
const PUBLISHER_SPEED = 50;

/**
 * The address that nodes tell each other here. They listen on loopback, which a node refuses to be
 * told (fleet/publish/serves.ts).
 */
const TOLD_ADDRESS = '192.0.2.1';

/** Its nodes are reached on loopback. */
class LoopbackCluster extends KubernetesCluster {
  override nodes(): readonly ClusterNode[] {
    return super
      .nodes()
      .map((node) => ({ ...node, ...(node.endpoint && { endpoint: { ...node.endpoint, host: '127.0.0.1' } }) }));
  }
}

/** Starts a node of a cluster. */
export async function startPublishedNode(cluster: TestCluster, name: string, first: OwnReport): Promise<PublishedNode> {
  const certificate = cluster.authority.node(name);
  const kubeconfig = cluster.kubeconfigOf(name, certificate);
  const kubelet = layKubeletFiles(join(cluster.folder, name, 'root'), certificate, cluster.authority).root;
  const folder = join(cluster.folder, name);
  mkdirSync(folder, { recursive: true });
  const port = await freePort();
  const door = await openDoor(port);
  const listeners: Listeners = new Set();
  let report = first;
  const own = {
    status: () => nodeStatusOf(report),
    onChange: (listener: () => void) => listen(listeners, listener),
  };
  const begin = async () => {
    const api = new KubernetesApi((signal) => readCredentials(kubeconfig, signal));
    const common = { api, random: Math.random, log: silentLog };
    const nodes = new LoopbackCluster({ ...common, hostname: name, clock: systemClock });
    const node = await startTestNode({
      name,
      base: cluster.folder,
      folder,
      kubelet,
      cluster: nodes,
      own,
      readLabels: () => labelsToRead(report),
      fleet: { listen: `127.0.0.1:${port}` },
    });
    const publisher = new Publisher({
      ...common,
      cluster: nodes,
      clock: fastClock(PUBLISHER_SPEED),
      report: () => report,
      mark: new PublishedMark(folder, silentLog),
      isDaemonUp: () => true,
      serves: () => {
        const serves = node.fleet.serves();
        return serves === undefined || serves === 'unknown'
          ? serves
          : { ...serves, address: TOLD_ADDRESS, port: door.port };
      },
    });
    const unsubscribe = own.onChange(() => publisher.changed());
    const ended = new AbortController();
    const published = publisher.run(ended.signal);
    const end = async () => {
      unsubscribe();
      ended.abort();
      await published;
      await node.stop();
    };
    return { node, end };
  };
  let running = await begin();
  return {
    process: () => running.node,
    report: (next) => {
      report = next;
      notifyAll(listeners);
    },
    block: door.block,
    restart: async () => {
      await running.end();
      running = await begin();
    },
    stop: async () => {
      await running.end();
      await door.close();
    },
  };
}
