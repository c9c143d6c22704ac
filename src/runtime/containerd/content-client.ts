import { parseConfig } from '../../bundle/format/oci-schema.ts';
import { limits } from '../../bundle/limits.ts';
import type { Digest } from '../../domain/model/digest.ts';
import { AppError } from '../../platform/app-error.ts';
import type { BlobSource } from '../../ports/blobs.ts';
import { GrpcClient } from '../cri/grpc-client.ts';
import {
  GRPC_ALREADY_EXISTS,
  GRPC_INVALID_ARGUMENT,
  GRPC_NOT_FOUND,
  grpcCodeOf,
  isUnreachable,
  toRuntimeError,
} from '../cri/runtime-error.ts';

const TIMEOUT_MS = 10_000;
const HEADERS = { 'containerd-namespace': 'k8s.io' };

export interface ContainerdAddress {
  readonly socketPath: string;
  readonly protoRoot?: string | undefined;
}

/** A service of containerd, in the namespace of Kubernetes. */
export class ContainerdService {
  private readonly grpc: GrpcClient;
  private readonly service: string;

  /** @param name as `Images` @param title of it in errors, before the method */
  constructor(
    private readonly address: ContainerdAddress,
    name: string,
    private readonly title = '',
  ) {
    const folder = name.toLowerCase();
    this.service = `containerd.services.${folder}.v1.${name}`;
    this.grpc = new GrpcClient({ ...address, protoFile: `containerd/services/${folder}/v1/${folder}.proto` });
  }

  /**
   * Returns undefined when the object does not exist, or exists already.
   * @throws AppError with a `PullErrorCode`
   */
  async call<Response>(
    method: string,
    request: object,
    signal: AbortSignal,
    timeoutMs = TIMEOUT_MS,
  ): Promise<Response | undefined> {
    try {
      return (await this.grpc.call(this.service, method, request, { signal, timeoutMs, headers: HEADERS })) as Response;
    } catch (error) {
      const code = grpcCodeOf(error);
      if (code === GRPC_NOT_FOUND || code === GRPC_ALREADY_EXISTS) return undefined;
      throw toRuntimeError(error, `containerd ${this.title}${method} on ${this.address.socketPath}`, signal);
    }
  }

  /** Has no deadline. @throws the unchanged `ServiceError` */
  stream(method: string, request: object, signal: AbortSignal): AsyncIterable<unknown> {
    return this.grpc.stream(this.service, method, request, { signal, headers: HEADERS });
  }

  close(): void {
    this.grpc.close();
  }
}

const COLLECT_MS = 60_000;
/** An empty lease: containerd collects garbage when it is deleted. */
const LEASE = 'io.stickpin.collect-garbage';

interface ContentInfo {
  readonly size: number;
  readonly labels: Readonly<Record<string, string>>;
}

/** A label on the config of an unpacked image. The value is the snapshot of its top layer. */
const SNAPSHOT_LABEL = /^containerd\.io\/gc\.ref\.snapshot\.(.+)$/;

/** The label stays when containerd does not load the snapshotter any more. */
function isSnapshotterAbsent(thrown: unknown): boolean {
  return thrown instanceof AppError && grpcCodeOf(thrown.cause) === GRPC_INVALID_ARGUMENT;
}

/** Each throws AppError with a `PullErrorCode`, unless it says otherwise. */
export class ContentClient implements BlobSource {
  private readonly content: ContainerdService;
  private readonly snapshots: ContainerdService;
  private readonly leases: ContainerdService;

  constructor(address: ContainerdAddress) {
    this.content = new ContainerdService(address, 'Content');
    this.snapshots = new ContainerdService(address, 'Snapshots');
    this.leases = new ContainerdService(address, 'Leases');
  }

  /** The size in bytes that the record has. Returns undefined when there is none. */
  async sizeOf(digest: Digest, signal: AbortSignal): Promise<number | undefined> {
    return (await this.content.call<{ info: ContentInfo }>('Info', { digest }, signal))?.info.size;
  }

  /** Has no deadline. @throws the unchanged `ServiceError`, whose code identifies a lost file */
  async *read(digest: Digest, startByte: number, signal: AbortSignal): AsyncGenerator<Buffer> {
    for await (const message of this.content.stream('Read', { digest, offset: startByte }, signal)) {
      yield (message as { readonly data: Buffer }).data;
    }
  }

  /**
   * Removes these blobs, then unused blobs and snapshots: the file of a removed one stays until
   * then (docs/runtime-facts.md, fact 40). Takes up to a minute.
   */
  async forget(digests: readonly Digest[], signal: AbortSignal): Promise<void> {
    if (digests.length === 0) return;
    for (const digest of digests) await this.content.call('Delete', { digest }, signal);
    await this.leases.call('Create', { id: LEASE }, signal);
    await this.leases.call('Delete', { id: LEASE, sync: true }, signal, COLLECT_MS);
  }

  /**
   * Whether the image with this config is unpacked, in any snapshotter: containerd records that on
   * the config. An image without layers needs no snapshot.
   */
  async isUnpacked(config: Digest, signal: AbortSignal): Promise<boolean> {
    const found = await this.content.call<{ info: ContentInfo }>('Info', { digest: config }, signal);
    if (found === undefined) return false;
    let failure: unknown;
    for (const [name, key] of Object.entries(found.info.labels)) {
      const snapshotter = SNAPSHOT_LABEL.exec(name)?.[1];
      if (snapshotter === undefined) continue;
      try {
        if (await this.hasSnapshot(snapshotter, key, signal)) return true;
      } catch (error) {
        if (signal.aborted || isUnreachable(error)) throw error;
        if (!isSnapshotterAbsent(error)) failure ??= error;
      }
    }
    if (failure !== undefined) throw failure;
    return found.info.size <= limits.manifestBytes && (await this.hasNoLayers(config, signal));
  }

  /** Only committed snapshots count. */
  async hasSnapshot(snapshotter: string, key: string, signal: AbortSignal): Promise<boolean> {
    const found = await this.snapshots.call<{ info: { kind: string } }>('Stat', { snapshotter, key }, signal);
    return found?.info.kind === 'COMMITTED';
  }

  private async hasNoLayers(config: Digest, signal: AbortSignal): Promise<boolean> {
    const chunks: Buffer[] = [];
    try {
      for await (const chunk of this.read(config, 0, signal)) chunks.push(chunk);
      return parseConfig(Buffer.concat(chunks), `config ${config}`, 'bundle/source').rootfs.diff_ids.length === 0;
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof AppError || grpcCodeOf(error) === GRPC_NOT_FOUND) return false;
      throw toRuntimeError(error, `Reading ${config} from containerd`, signal);
    }
  }

  close(): void {
    for (const service of [this.content, this.snapshots, this.leases]) service.close();
  }
}
