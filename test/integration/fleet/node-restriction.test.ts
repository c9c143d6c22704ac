import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ApiRequest, isKubernetesError, KubernetesApi } from '../../../src/fleet/kubernetes/api.ts';
import { readCredentials } from '../../../src/fleet/kubernetes/credentials.ts';
import { NEVER_ABORTED } from '../../../src/platform/async/abort.ts';
import { startTestCluster, type TestCluster } from '../../support/kubernetes/test-cluster.ts';
import { have } from '../../support/requirements.ts';

let cluster: TestCluster;
let kubeconfig: string;
beforeAll(async () => {
  cluster = await startTestCluster();
  kubeconfig = cluster.kubeconfigOf('n1', cluster.authority.node('n1'));
});
afterAll(() => cluster[Symbol.asyncDispose]());

const N1 = '/api/v1/nodes/n1';
const METADATA = { accept: 'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1' };
const apply = (metadata: object, more: object = {}): Partial<ApiRequest> => ({
  method: 'PATCH',
  contentType: 'application/apply-patch+yaml',
  query: { fieldManager: 'test', force: 'true' },
  body: { apiVersion: 'v1', kind: 'Node', metadata: { name: 'n1', ...metadata }, ...more },
});
const condition = { type: 'Own', status: 'True', reason: 'A', message: 'b' };
const UNFORCED = { fieldManager: 'test' };
const conditionByApply = (reason: string) => apply({}, { status: { conditions: [{ ...condition, reason }] } });
const event = (apiVersion: string, node = 'n1') => ({
  apiVersion,
  kind: 'Event',
  metadata: { name: `${node}.1`, namespace: 'default' },
  involvedObject: { kind: 'Node', name: node },
  reason: 'A',
  message: 'b',
  type: 'Normal',
});
const lease = (name: string) => ({ method: 'POST', body: { metadata: { name } } }) as const;
const LEASES = (space: string) => `/apis/coordination.k8s.io/v1/namespaces/${space}/leases`;

/** The status code of a request with a kubelet's certificate. */
async function codeOf(path: string, more: Partial<ApiRequest> = {}): Promise<number> {
  const api = new KubernetesApi((signal) => readCredentials(kubeconfig, signal));
  try {
    await api.send({ method: 'GET', path, ...more }, NEVER_ABORTED);
  } catch (error) {
    if (!isKubernetesError(error)) throw error;
  }
  return cluster.server.seen.at(-1)?.code ?? 0;
}

describe.runIf(have('openssl'))('the server of the tests answers a kubelet as kube-apiserver 1.36 does', () => {
  it.each<[number, string, string, Partial<ApiRequest>]>([
    [200, 'get of the own Node', N1, {}],
    [200, 'list of the own Node', '/api/v1/nodes', { query: { fieldSelector: 'metadata.name=n1' } }],
    [200, 'apply of an annotation', N1, apply({ annotations: { 'stickpin.io/x': '{}' } })],
    [200, 'apply of a label', N1, apply({ labels: { 'stickpin.io/x': '4.13.7' } })],
    [200, 'apply of a label of node.kubernetes.io', N1, apply({ labels: { 'node.kubernetes.io/x': 'y' } })],
    [403, 'label of node-restriction', N1, apply({ labels: { 'node-restriction.kubernetes.io/x': 'y' } })],
    [403, 'label of another sub-domain', N1, apply({ labels: { 'other.kubernetes.io/x': 'y' } })],
    [403, 'taints', N1, apply({}, { spec: { taints: [{ key: 'a', effect: 'NoSchedule' }] } })],
    [422, 'label value with +', N1, apply({ labels: { 'stickpin.io/x': '1.2+3' } })],
    [422, 'apply without a field manager', N1, { ...apply({}), query: {} }],
    [403, 'delete', N1, { method: 'DELETE' as ApiRequest['method'] }],
    [
      200,
      'condition by strategic merge',
      `${N1}/status`,
      {
        method: 'PATCH',
        contentType: 'application/strategic-merge-patch+json',
        body: { status: { conditions: [condition] } },
      },
    ],
    [200, 'the same condition by apply', `${N1}/status`, { ...conditionByApply('A'), query: UNFORCED }],
    [409, "somebody else's condition by apply", `${N1}/status`, { ...conditionByApply('B'), query: UNFORCED }],
    [200, 'the same by force', `${N1}/status`, conditionByApply('B')],
    [201, 'event', '/api/v1/namespaces/default/events', { method: 'POST', body: event('v1') }],
    [409, 'the same event', '/api/v1/namespaces/default/events', { method: 'POST', body: event('v1') }],
    [201, 'event about another Node', '/api/v1/namespaces/default/events', { method: 'POST', body: event('v1', 'n2') }],
    [403, 'get of another Node', '/api/v1/nodes/n2', {}],
    [403, 'list of all Nodes', '/api/v1/nodes', {}],
    [403, 'patch of another Node', '/api/v1/nodes/n2', apply({ name: 'n2' })],
    [201, 'own lease', LEASES('kube-node-lease'), lease('n1')],
    [403, 'lease of another', LEASES('kube-node-lease'), lease('n2')],
    [403, 'lease elsewhere', LEASES('default'), lease('n1')],
    [403, 'ConfigMaps', '/api/v1/namespaces/default/configmaps', {}],
  ])('%i: %s', async (code, _, path, request) => {
    expect(await codeOf(path, request)).toBe(code);
  });

  it('takes away what an apply leaves out', async () => {
    await codeOf(N1, apply({ labels: { 'stickpin.io/x': 'y' } }));
    expect(cluster.server.node('n1').metadata.labels).toHaveProperty(['stickpin.io/x'], 'y');
    await codeOf(N1, apply({}));
    expect(cluster.server.node('n1').metadata.labels).not.toHaveProperty(['stickpin.io/x']);
  });

  it('answers 401 to a certificate of another authority', async () => {
    const foreign = await startTestCluster();
    cluster.rotate('n1', foreign.authority.node('n1'));
    expect(await codeOf(N1)).toBe(401);
    cluster.rotate('n1', cluster.authority.node('n1'));
    expect(await codeOf(N1)).toBe(200);
    await foreign[Symbol.asyncDispose]();
  });

  it('shows all Nodes with the ClusterRole of fleet.yaml, and still lets no node change another', async () => {
    const { readFile } = await import('node:fs/promises');
    cluster.server.apply(await readFile('packaging/node/fleet.yaml', 'utf8'));
    expect(await codeOf('/api/v1/nodes', METADATA)).toBe(200);
    expect(await codeOf('/api/v1/nodes/n2', apply({ name: 'n2' }))).toBe(403);
    cluster.server.clearRules();
    expect(await codeOf('/api/v1/nodes', METADATA)).toBe(403);
  });
});
