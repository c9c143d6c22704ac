import { join } from 'node:path';
import {
  Server,
  ServerCredentials,
  type ServerUnaryCall,
  type ServerWritableStream,
  type ServiceDefinition,
  type sendUnaryData,
  status,
} from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Digest } from '../../../../src/domain/model/digest.ts';
import type { RuntimeImage } from '../../../../src/domain/model/image.ts';
import { ContentClient } from '../../../../src/runtime/containerd/content-client.ts';
import { UnpackedImages } from '../../../../src/runtime/containerd/unpacked-images.ts';
import { findProtoRoot } from '../../../../src/runtime/cri/grpc-client.ts';
import type { ListingClient } from '../../../../src/runtime/cri/observe.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';

const signal = AbortSignal.timeout(20_000);
const [app, other] = ['1', '2'].map((digit) => `sha256:${digit.repeat(64)}`) as [string, string];
const CONFIG = JSON.stringify({ rootfs: { type: 'layers', diff_ids: [`sha256:${'3'.repeat(64)}`] } });

function image(imageId: string): RuntimeImage {
  return { imageId, repoTags: [], repoDigests: [], pinned: false };
}

function listing(...imageIds: string[]): ListingClient {
  return {
    socketPath: '/cri.sock',
    status: () => Promise.reject(new Error('not asked')),
    version: () => Promise.reject(new Error('not asked')),
    imageFilesystemPath: async () => undefined,
    listImages: async () => imageIds.map(image),
  };
}

describe('a containerd that fails at one image', () => {
  const directory = folderForEach();
  let server: Server;
  let content: ContentClient;
  let list: () => Promise<RuntimeImage[]>;
  /** The snapshotters of each config, and what containerd answers for them. */
  let labels: Record<string, string[]>;
  let fails: Record<string, { code: number; details: string }>;

  beforeEach(async () => {
    [labels, fails] = [{}, {}];
    server = new Server();
    server.addService(serviceOf('Content'), {
      Info: ({ request: { digest } }: ServerUnaryCall<{ digest: string }, object>, callback: sendUnaryData<object>) => {
        const refs = (labels[digest] ?? []).map((name) => [`containerd.io/gc.ref.snapshot.${name}`, 'top']);
        callback(null, { info: { digest, size: CONFIG.length, labels: Object.fromEntries(refs) } });
      },
      Read: (call: ServerWritableStream<object, object>) => {
        call.write({ data: Buffer.from(CONFIG) });
        call.end();
      },
    });
    server.addService(serviceOf('Snapshots'), {
      Stat: (call: ServerUnaryCall<{ snapshotter: string }, object>, callback: sendUnaryData<object>) => {
        const failure = fails[call.request.snapshotter];
        if (failure === undefined) callback(null, { info: { kind: 'COMMITTED' } });
        else callback(failure);
      },
    });
    const socketPath = join(directory, 'containerd.sock');
    await new Promise<void>((resolve, reject) => {
      server.bindAsync(`unix:${socketPath}`, ServerCredentials.createInsecure(), (error) =>
        error === null ? resolve() : reject(error),
      );
    });
    content = new ContentClient({ socketPath });
    const listed = new UnpackedImages(content).listedBy(listing(app, other));
    list = async () => [...(await listed.listImages(signal))];
  });
  afterEach(() => {
    content.close();
    server.forceShutdown();
  });

  it('counts a snapshotter that is not loaded as one without the image', async () => {
    fails = { stargz: { code: status.INVALID_ARGUMENT, details: 'snapshotter not loaded: stargz: invalid argument' } };
    labels = { [app]: ['stargz'], [other]: ['overlayfs'] };
    expect(await list()).toEqual([{ ...image(app), isUnpacked: false }, image(other)]);
    labels = { [app]: ['stargz', 'overlayfs'], [other]: ['overlayfs'] };
    expect(await list()).toEqual([image(app), image(other)]);
  });

  it('does not say of an image whether it is unpacked when a snapshotter fails', async () => {
    fails = {
      devmapper: { code: status.UNKNOWN, details: 'failed to read metadata' },
      overlayfs: { code: status.NOT_FOUND, details: 'not found' },
    };
    labels = { [app]: ['devmapper', 'overlayfs'], [other]: ['overlayfs'] };
    expect(await list()).toEqual([image(app), { ...image(other), isUnpacked: false }]);
    labels = { [app]: ['devmapper', 'native'], [other]: ['native'] };
    expect(await list()).toEqual([image(app), image(other)]);
    expect(await content.isUnpacked(app as Digest, signal)).toBe(true);
  });

  it('passes on that it is not reachable', async () => {
    fails = { overlayfs: { code: status.UNAVAILABLE, details: 'closing' } };
    labels = { [other]: ['overlayfs', 'native'] };
    await expect(list()).rejects.toMatchObject({ code: 'runtime/unreachable' });
  });
});

it('examines no image again that it saw unpacked before the list was ended', async () => {
  const ended = new AbortController();
  const asked: string[] = [];
  const unpacked = new UnpackedImages({
    isUnpacked: async (config, inner) => {
      asked.push(config);
      if (config === other) ended.abort(new Error('too slow'));
      inner.throwIfAborted();
      return true;
    },
  }).listedBy(listing(app, other));
  await expect(unpacked.listImages(ended.signal)).rejects.toThrow('too slow');
  expect(await unpacked.listImages(signal)).toEqual([image(app), image(other)]);
  expect(asked).toEqual([app, other, other]);
});

function serviceOf(name: string): ServiceDefinition {
  const [root, folder] = [findProtoRoot(), name.toLowerCase()];
  const file = join(root, `containerd/services/${folder}/v1/${folder}.proto`);
  const options = { includeDirs: [root], longs: Number, enums: String };
  return loadSync(file, options)[`containerd.services.${folder}.v1.${name}`] as ServiceDefinition;
}
