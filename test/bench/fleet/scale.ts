import { gzipSync } from 'node:zlib';
import { hexOf } from '../../../src/domain/model/digest.ts';
import type { ApiRequest, KubernetesApi } from '../../../src/fleet/kubernetes/api.ts';
import { KubernetesCluster } from '../../../src/fleet/kubernetes/kubernetes-cluster.ts';
import type { Clock } from '../../../src/platform/clock.ts';
import { digestOf } from '../../../src/platform/digest.ts';
import { silentLog } from '../../../src/platform/log.ts';
import { newNode } from '../../support/kubernetes/api-server/node-object.ts';
import { seededRandom } from '../../support/seeded-random.ts';
import { SimulatedClock } from '../../support/simulated-clock.ts';
import { markdownTable } from '../markdown-table.ts';
import { sized } from '../size.ts';

const SIZES = sized([50, 500, 5_000], [5]);
const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;
/** A kubelet writes its Node so often when nothing changes (`nodeStatusReportFrequency`). */
const HEARTBEAT_MS = 300_000;
const SELF = 'worker-0';

/**
 * Prints what one node reads of the Kubernetes API: the actual class, with a simulated clock and
 * API server. No load of the machine changes the figures.
 */
export async function benchScale(print: (text: string) => void): Promise<void> {
  const rows: string[][] = [];
  for (const size of SIZES) {
    // Four lists and more.
    const idle = await simulate(size, false, Math.max(DAY_MS, size * 100_000));
    const working = await simulate(size, true, 20 * MINUTE_MS);
    rows.push([`${size}`, ...columns(size, idle), ...columns(size, working), `${idle.listKiB.toFixed(0)} KiB`]);
  }
  const kibOf = (body: object) => (JSON.stringify(body).length / 1_024).toFixed(1);
  print(`\nA Node has ${kibOf(nodeAt(1))} KiB, its metadata ${kibOf(metadataAt(1))} KiB\n\n`);
  const columnsOf = (what: string) => [`${what}: requests a minute`, 'KiB a minute', 'KiB/s of all nodes'];
  print(markdownTable(['nodes', ...columnsOf('idle'), ...columnsOf('working'), 'a list, compressed'], rows));
}

interface Counts {
  readonly minutes: number;
  readonly requests: number;
  readonly bytes: number;
  readonly listKiB: number;
}

function columns(size: number, { minutes, requests, bytes }: Counts): string[] {
  const kib = bytes / 1_024 / minutes;
  return [(requests / minutes).toFixed(2), kib.toFixed(1), ((kib * size) / 60).toFixed(0)];
}

/** From when the node has settled. */
async function simulate(size: number, isNeeded: boolean, forMs: number): Promise<Counts> {
  const clock = new SimulatedClock();
  const api = new SimulatedApi(size, clock);
  const random = seededRandom(size);
  const cluster = new KubernetesCluster({ api, hostname: SELF, clock, random, log: silentLog });
  const stop = new AbortController();
  const running = cluster.run(stop.signal);
  cluster.need(isNeeded);
  await clock.passUntil(MINUTE_MS);
  const { requests, bytes } = api;
  await clock.passUntil(MINUTE_MS + forMs);
  const counts = { minutes: forMs / MINUTE_MS, requests: api.requests - requests, bytes: api.bytes - bytes };
  stop.abort();
  await running;
  return { ...counts, listKiB: api.listBytes / 1_024 };
}

/** All Nodes are alive, and nothing else changes. Counts answers, not heads and TLS. */
class SimulatedApi implements KubernetesApi {
  requests = 0;
  bytes = 0;
  readonly listBytes: number;
  private readonly items: readonly object[];

  constructor(
    private readonly size: number,
    private readonly clock: Clock,
  ) {
    this.items = Array.from({ length: size }, (_none, at) => metadataAt(at));
    // As kube-apiserver compresses (`defaultGzipContentEncodingLevel`).
    this.listBytes = gzipSync(JSON.stringify({ items: this.items }), { level: 1 }).length;
  }

  async credentials() {
    return { path: 'kubelet.conf', server: 'https://10.0.0.1:6443', isUnverified: false, nodeName: SELF };
  }

  async send(): Promise<unknown> {
    return this.answer(nodeAt(0));
  }

  async list({ query = {} }: ApiRequest, onItem: (item: unknown) => void): Promise<unknown> {
    const items = query.fieldSelector === undefined ? this.items : [metadataAt(0)];
    this.requests += 1;
    this.bytes += items.length === 1 ? JSON.stringify(items).length : this.listBytes;
    for (const item of items) onItem(item);
    return { metadata: { resourceVersion: '1' } };
  }

  /** Heartbeats of all Nodes, or of the own one. */
  async *watch({ query = {} }: ApiRequest, forMs: number, signal: AbortSignal): AsyncGenerator<unknown> {
    this.requests += 1;
    const seconds = Number(query.timeoutSeconds);
    const untilMs = this.clock.monotonic() + Math.min(forMs, seconds * 1_000);
    const others = query.fieldSelector === undefined ? this.size : 1;
    for (let at = 0; ; at = (at + 1) % others) {
      const waitMs = Math.min(HEARTBEAT_MS / others, untilMs - this.clock.monotonic());
      await this.clock.sleep(waitMs, signal);
      if (this.clock.monotonic() >= untilMs) return;
      const event = { type: 'MODIFIED', object: metadataAt(at) };
      this.bytes += JSON.stringify(event).length;
      yield event;
    }
  }

  private answer(body: object): object {
    this.requests += 1;
    this.bytes += JSON.stringify(body).length;
    return body;
  }
}

/** With what a kubelet, a network plugin and stickpin write. */
function nodeAt(at: number) {
  const node = newNode(`worker-${at}`, `10.0.${at >> 8}.${at % 256}`);
  const hex = hexOf(digestOf(`${at}`));
  const status = {
    version: 1,
    arch: 'amd64',
    releases: [{ name: 'ocp', version: '4.13.7', bundle: hex.slice(0, 16), phase: 'proven' }],
  };
  const others = Array.from({ length: 14 }, (_none, key) => [`example.org/fact-${key}`, digestOf(`${at}/${key}`)]);
  const annotations = { ...Object.fromEntries(others), 'stickpin.io/status': JSON.stringify(status) };
  const fields = Object.fromEntries(Object.keys(annotations).map((key) => [`f:${key}`, {}]));
  const managedFields = ['kubelet', 'network', 'stickpin'].map((manager) => ({
    manager,
    operation: 'Update',
    apiVersion: 'v1',
    time: '2026-01-01T00:00:00Z',
    fieldsType: 'FieldsV1',
    fieldsV1: { 'f:metadata': { 'f:annotations': fields } },
  }));
  const images = Array.from({ length: 50 }, (_none, one) => ({
    names: [`quay.example.com/release/image-${one}@sha256:${hex}`],
    sizeBytes: 1,
  }));
  return { ...node, metadata: { ...node.metadata, annotations, managedFields }, status: { ...node.status, images } };
}

function metadataAt(at: number): object {
  return { kind: 'PartialObjectMetadata', apiVersion: 'meta.k8s.io/v1', metadata: nodeAt(at).metadata };
}
