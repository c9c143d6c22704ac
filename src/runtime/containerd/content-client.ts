import type { Digest } from '../../domain/model/digest.ts';
import type { BlobSource } from '../../ports/blobs.ts';
import { createGrpcClient, type GrpcClient } from '../cri/grpc-client.ts';
import { grpcCodeOf, toRuntimeError } from '../cri/runtime-error.ts';

/** Each throws AppError with a `PullErrorCode`, unless it says otherwise. */
export interface ContentClient {
  /** In bytes as the record says. Undefined when there is none. */
  sizeOf(digest: Digest, signal: AbortSignal): Promise<number | undefined>;
  /** No deadline. @throws the unchanged `ServiceError`, whose code tells a lost file */
  read(digest: Digest, signal: AbortSignal, startByte?: number): AsyncIterable<Buffer>;
  /** The file stays until {@link collectGarbage} (docs/runtime-facts.md, fact 40). */
  remove(digest: Digest, signal: AbortSignal): Promise<void>;
  /** Removes unused blobs and snapshots. Takes up to a minute. */
  collectGarbage(signal: AbortSignal): Promise<void>;
  /** Only committed snapshots count. */
  hasSnapshot(snapshotter: string, name: string, signal: AbortSignal): Promise<boolean>;
  close(): void;
}

const GRPC_NOT_FOUND = 5;
const GRPC_ALREADY_EXISTS = 6;
const CONTENT = 'containerd.services.content.v1.Content';
const HEADERS = { 'containerd-namespace': 'k8s.io' };
const TIMEOUT_MS = 10_000;
const COLLECT_MS = 60_000;
/** An empty lease: containerd collects garbage when it is deleted. */
const LEASE = 'io.stickpin.collect-garbage';

export function createContentClient(options: {
  readonly socketPath: string;
  readonly protoRoot?: string;
}): ContentClient {
  const { socketPath, protoRoot } = options;
  const clientOf = (protoFile: string) => createGrpcClient({ socketPath, protoFile, ...(protoRoot && { protoRoot }) });
  const content = clientOf('containerd/services/content/v1/content.proto');
  const snapshots = clientOf('containerd/services/snapshots/v1/snapshots.proto');
  const leases = clientOf('containerd/services/leases/v1/leases.proto');
  /** Undefined when the object does not exist, or exists already. */
  const request = async (
    grpc: GrpcClient,
    service: string,
    method: string,
    request: object,
    signal: AbortSignal,
    timeoutMs = TIMEOUT_MS,
  ) => {
    try {
      return await grpc.call(service, method, request, { signal, timeoutMs, headers: HEADERS });
    } catch (error) {
      const code = grpcCodeOf(error);
      if (code === GRPC_NOT_FOUND || code === GRPC_ALREADY_EXISTS) return undefined;
      throw toRuntimeError(error, `containerd ${method} on ${socketPath}`, signal);
    }
  };
  return {
    close: () => {
      content.close();
      snapshots.close();
      leases.close();
    },
    sizeOf: async (digest, signal) => {
      const found = (await request(content, CONTENT, 'Info', { digest }, signal)) as
        | { info: { size: number } }
        | undefined;
      return found?.info.size;
    },
    read: (digest, signal, startByte = 0) => readBlob(content, { digest, offset: startByte }, signal),
    remove: async (digest, signal) => {
      await request(content, CONTENT, 'Delete', { digest }, signal);
    },
    collectGarbage: async (signal) => {
      const service = 'containerd.services.leases.v1.Leases';
      await request(leases, service, 'Create', { id: LEASE }, signal);
      await request(leases, service, 'Delete', { id: LEASE, sync: true }, signal, COLLECT_MS);
    },
    hasSnapshot: async (snapshotter, key, signal) => {
      const service = 'containerd.services.snapshots.v1.Snapshots';
      const found = (await request(snapshots, service, 'Stat', { snapshotter, key }, signal)) as
        | { info: { kind: string } }
        | undefined;
      return found?.info.kind === 'COMMITTED';
    },
  };
}

export function storedBlobs(content: Pick<ContentClient, 'sizeOf' | 'read'>): BlobSource {
  return {
    sizeOf: content.sizeOf,
    read: (digest, startByte, signal) => content.read(digest, signal, startByte),
  };
}

async function* readBlob(
  content: GrpcClient,
  part: { readonly digest: Digest; readonly offset: number },
  signal: AbortSignal,
): AsyncGenerator<Buffer> {
  for await (const message of content.stream(CONTENT, 'Read', part, { signal, headers: HEADERS })) {
    yield (message as { readonly data: Buffer }).data;
  }
}
