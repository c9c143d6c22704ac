import { join } from 'node:path';
import {
  Server,
  ServerCredentials,
  type ServerUnaryCall,
  type ServiceDefinition,
  type sendUnaryData,
  status,
} from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { ContainersPort } from '../../../src/ports/runtime.ts';
import { createContainers } from '../../../src/runtime/cri/containers.ts';
import { CriClient } from '../../../src/runtime/cri/cri-client.ts';
import { criProtoFile } from '../../support/crio-double/bundle.ts';
import { folderForEach } from '../../support/files/temporary-folder.ts';

const signal = AbortSignal.timeout(60_000);
const ID = 'a'.repeat(64);

const directory = folderForEach();
let server: Server;
let cri: CriClient;
let port: ContainersPort;
let listed: object[];
let asked: string[];
let gone: ReadonlySet<string>;
let broken: ReadonlySet<string>;
let mounts: object[];

beforeEach(async () => {
  const socketPath = join(directory, 'cri.sock');
  [listed, asked, gone, broken, mounts] = [[], [], new Set(), new Set(), []];
  server = new Server();
  const service = loadSync(criProtoFile, { longs: Number })['runtime.v1.RuntimeService'] as ServiceDefinition;
  server.addService(service, {
    ListContainers: (_call: unknown, callback: sendUnaryData<object>) => callback(null, { containers: listed }),
    ContainerStatus: (call: ServerUnaryCall<{ containerId: string }, object>, callback: sendUnaryData<object>) => {
      const { containerId } = call.request;
      asked.push(containerId);
      if (broken.has(containerId)) return callback({ code: status.UNKNOWN, details: 'no state' });
      if (gone.has(containerId)) callback({ code: status.NOT_FOUND, details: 'could not find container' });
      else callback(null, { status: { id: containerId, startedAt: 1_773_144_000_123_000_000, exitCode: 3, mounts } });
    },
  });
  await new Promise<void>((resolve, reject) => {
    server.bindAsync(`unix:${socketPath}`, ServerCredentials.createInsecure(), (error) =>
      error === null ? resolve() : reject(error),
    );
  });
  cri = new CriClient({ socketPath });
  port = createContainers(cri, { setting: 'pause_image', read: async () => undefined });
});
afterEach(() => {
  cri.close();
  server.forceShutdown();
});

it('asks for the times of each container once, and knows nothing of one that has no status', async () => {
  const metadata = { name: 'main', attempt: 2 };
  listed = [
    {
      id: 'c1',
      podSandboxId: 'p1',
      metadata,
      imageId: ID,
      imageRef: `quay.io/a@sha256:${ID}`,
      image: { image: 'quay.io/a:1', userSpecifiedImage: 'quay.io/a:2' },
      state: 1,
    },
    { id: 'c2', podSandboxId: 'p2', imageRef: `sha256:${ID}`, state: 2 },
    { id: 'c3', podSandboxId: 'p3', state: 0 },
    { id: 'c4', podSandboxId: 'p4', state: 1 },
  ];
  gone = new Set(['c4']);
  const times = { startedAt: 1_773_144_000_123, exitCode: 3 };
  const none = { attempt: 0, imageNames: [], state: 'other', startedAt: 0, exitCode: 0 };
  const expected = [
    {
      containerId: 'c1',
      key: 'p1/main',
      attempt: 2,
      imageNames: [ID, `quay.io/a@sha256:${ID}`],
      podImage: 'quay.io/a:2',
      state: 'running',
      ...times,
    },
    { containerId: 'c2', key: 'p2/c2', attempt: 0, imageNames: [`sha256:${ID}`], state: 'exited', ...times },
    { ...none, containerId: 'c3', key: 'p3/c3' },
    { ...none, containerId: 'c4', key: 'p4/c4', volumeImages: 'unknown' },
  ];
  expect(await port.containers(signal)).toEqual(expected);
  expect([...asked].sort()).toEqual(['c1', 'c2', 'c3', 'c4']);
  asked.length = 0;
  expect(await port.containers(signal)).toEqual(expected);
  expect(asked).toEqual(['c4']);
});

it('reports which images are mounted as volumes, also in a container that has not started', async () => {
  mounts = [{ hostPath: '/etc' }, { image: { image: `sha256:${ID}` } }, { image: { image: 'quay.io/data:1' } }];
  listed = [
    { id: 'c1', podSandboxId: 'p1', state: 1 },
    { id: 'c2', podSandboxId: 'p2', state: 0 },
    { id: 'c3', podSandboxId: 'p3', state: 0 },
  ];
  broken = new Set(['c3']);
  const volumeImages = [`sha256:${ID}`, 'quay.io/data:1'];
  expect(await port.containers(signal)).toMatchObject([
    { containerId: 'c1', volumeImages },
    { containerId: 'c2', volumeImages },
    { containerId: 'c3', volumeImages: 'unknown' },
  ]);
});

it('lists the names by which running containers were made, as the pod has them', async () => {
  const labels = { 'io.kubernetes.pod.name': 'etcd-n1', 'io.kubernetes.pod.namespace': 'kube-system' };
  const metadata = { name: 'etcd', attempt: 0 };
  listed = [
    {
      id: 'c1',
      metadata,
      labels,
      image: { image: `sha256:${ID}`, userSpecifiedImage: 'quay.io/coreos/etcd:v3.5' },
      state: 1,
    },
    { id: 'c2', image: { image: `quay.io/${'x'.repeat(600)}` }, state: 1 },
    { id: 'c3', image: { image: 'quay.io/exited:1' }, state: 2 },
    { id: 'c4', state: 1 },
  ];
  expect(await port.containerImages(signal)).toEqual([
    { usedBy: 'every pod, by pause_image', image: '', pullPolicy: 'Never' },
    { usedBy: 'Pod kube-system/etcd-n1, container etcd', image: 'quay.io/coreos/etcd:v3.5' },
    { usedBy: 'container c2', image: `quay.io/${'x'.repeat(504)}` },
  ]);
  expect(asked).toEqual([]);
});
