import { cpSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import {
  Server,
  ServerCredentials,
  type ServerUnaryCall,
  type ServiceDefinition,
  type sendUnaryData,
  type UntypedHandleCall,
} from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CriClient } from '../../../src/runtime/cri/cri-client.ts';
import { criProtoFile } from '../../support/crio-double/bundle.ts';
import { eventually } from '../../support/eventually.ts';
import { folderForEach } from '../../support/files/temporary-folder.ts';

const MIB = 1024 * 1024;
const signal = AbortSignal.timeout(120_000);

/**
 * A CRI on a real socket whose answers each test sets; a method without an answer never answers.
 */
describe('the CRI client', () => {
  const directory = folderForEach();
  let socketPath: string;
  let server: Server;
  let answers: Partial<Record<string, object | Error>>;
  let requests: Record<string, unknown>[];
  let cancelled: string[];
  let cri: CriClient;

  const start = async (): Promise<void> => {
    const definition = loadSync(criProtoFile, { longs: Number });
    server = new Server({ 'grpc.max_send_message_length': -1 });
    for (const name of ['runtime.v1.RuntimeService', 'runtime.v1.ImageService']) {
      const service = definition[name] as ServiceDefinition;
      const handlers = Object.keys(service).map((method) => [method, handler(method)]);
      server.addService(service, Object.fromEntries(handlers));
    }
    await new Promise<void>((resolve, reject) => {
      const credentials = ServerCredentials.createInsecure();
      server.bindAsync(`unix:${socketPath}`, credentials, (error) => (error === null ? resolve() : reject(error)));
    });
  };
  const handler = (method: string): UntypedHandleCall => {
    const answer = (call: ServerUnaryCall<object, object>, callback: sendUnaryData<object>) => {
      requests.push({ method, ...call.request });
      call.on('cancelled', () => cancelled.push(method));
      const set = answers[method];
      if (set instanceof Error) callback(set);
      else if (set !== undefined) callback(null, set);
    };
    return answer as UntypedHandleCall;
  };

  beforeEach(async () => {
    socketPath = join(directory, 'cri.sock');
    [answers, requests, cancelled] = [{}, [], []];
    await start();
    cri = new CriClient({ socketPath, timeoutMs: 30_000 });
  });
  afterEach(() => {
    cri.close();
    server.forceShutdown();
    rmSync(directory, { recursive: true });
  });

  it('reads the protocol files once for all clients', () => {
    const protoRoot = join(directory, 'proto');
    cpSync(dirname(criProtoFile), join(protoRoot, 'runtime/v1'), { recursive: true });
    new CriClient({ socketPath, protoRoot }).close();
    rmSync(protoRoot, { recursive: true });
    new CriClient({ socketPath, protoRoot }).close();
  });

  it('gives every call but a pull a deadline', async () => {
    const impatient = new CriClient({ socketPath, timeoutMs: 200 });
    const calls = [
      impatient.version(signal),
      impatient.listImages(signal),
      impatient.imageFilesystemPath(signal),
      impatient.statusInfo(signal),
      impatient.imageStatus('a', signal),
      impatient.removeImage('a', signal),
    ];
    for (const outcome of await Promise.allSettled(calls)) {
      expect(outcome).toMatchObject({
        status: 'rejected',
        reason: { code: 'runtime/unreachable', disposition: 'retry' },
      });
    }
    const stop = new AbortController();
    const pull = impatient.pullImage('a', stop.signal).catch((error: unknown) => error);
    await expect(impatient.version(signal)).rejects.toMatchObject({ code: 'runtime/unreachable' });
    expect(cancelled).not.toContain('PullImage');
    stop.abort();
    expect(await pull).toMatchObject({ code: 'runtime/cancelled' });
    await eventually(() => expect(cancelled).toContain('PullImage'));
    impatient.close();
  });

  it('makes no call when its signal has aborted before', async () => {
    await expect(cri.pullImage('a', AbortSignal.abort())).rejects.toMatchObject({ code: 'runtime/cancelled' });
    expect(requests).toEqual([]);
  });

  it('takes lists of up to 16 MiB', async () => {
    const image = { id: 'i', repoDigests: ['x'.repeat(15 * MIB)], pinned: true };
    answers.ListImages = { images: [image] };
    const [found] = await cri.listImages(signal);
    expect(found).toMatchObject({ imageId: 'i', repoTags: [], pinned: true });
    expect(found?.repoDigests[0]).toHaveLength(15 * MIB);
  });

  it('reads what the runtime says', async () => {
    answers.Version = { runtimeName: 'cri-o', runtimeVersion: '1.36.3' };
    answers.ImageStatus = {};
    answers.ImageFsInfo = { imageFilesystems: [{ fsId: { mountpoint: '/var/lib/x' } }] };
    answers.Status = { info: { config: '{}' } };
    answers.PullImage = { imageRef: 'ref' };
    expect(await cri.version(signal)).toBe('cri-o 1.36.3');
    expect(await cri.imageStatus('a', signal)).toBeUndefined();
    expect(await cri.imageFilesystemPath(signal)).toBe('/var/lib/x');
    expect(await cri.statusInfo(signal)).toEqual({ config: '{}' });
    expect(await cri.pullImage('quay.io/a@b', signal)).toBe('ref');
    expect(requests).toContainEqual(
      expect.objectContaining({ method: 'PullImage', image: expect.objectContaining({ image: 'quay.io/a@b' }) }),
    );
    answers.ImageFsInfo = {};
    expect(await cri.imageFilesystemPath(signal)).toBeUndefined();
  });

  it('turns a status into an error that says what failed', async () => {
    answers.PullImage = Object.assign(new Error(), { code: 2, details: 'writing blob: no space left\n on device' });
    await expect(cri.pullImage('quay.io/a', signal)).rejects.toMatchObject({
      code: 'runtime/no-space',
      disposition: 'wait',
      message: expect.stringMatching(/^Pull of quay\.io\/a failed: writing blob: no space left on device\. Free space/),
    });
  });

  it('finds the runtime again when it is back', async () => {
    answers.Version = { runtimeName: 'cri-o', runtimeVersion: '1' };
    server.forceShutdown();
    await expect(cri.version(signal)).rejects.toMatchObject({ code: 'runtime/unreachable' });
    await start();
    await eventually(async () => expect(await cri.version(signal)).toBe('cri-o 1'));
  });
});
