import type { RuntimeImage } from '../../domain/model/image.ts';
import { AppError } from '../../platform/app-error.ts';
import { GrpcClient } from './grpc-client.ts';
import { GRPC_NOT_FOUND, grpcCodeOf, toRuntimeError } from './runtime-error.ts';

export interface ListedContainer {
  readonly id: string;
  readonly podSandboxId: string;
  readonly metadata: { readonly name: string; readonly attempt: number } | null;
  /** `userSpecifiedImage`: as the pod has it; empty before Kubernetes 1.28. */
  readonly image: { readonly image: string; readonly userSpecifiedImage?: string } | null;
  readonly labels?: Readonly<Record<string, string>>;
  readonly imageRef: string;
  readonly imageId: string;
  /** Name of a `ContainerState`. */
  readonly state: string;
}

export interface ContainerTimes {
  /** Milliseconds since the epoch; 0 when it has not started. */
  readonly startedAt: number;
  readonly exitCode: number;
  /**
   * Mounted as volumes (docs/runtime-facts.md, fact 38): ids or names, as the kubelet gave them.
   */
  readonly volumeImages: readonly string[];
}

interface WireImage extends RuntimeImage {
  readonly id: string;
}

interface WireStatus {
  readonly startedAt: number;
  readonly exitCode: number;
  readonly mounts: readonly { readonly image: { readonly image: string } | null }[];
}

interface FilesystemInfo {
  readonly imageFilesystems: readonly ListedFilesystem[];
  readonly containerFilesystems: readonly ListedFilesystem[];
}

interface ListedFilesystem {
  readonly fsId: { readonly mountpoint: string } | null;
}

interface CallOptions {
  /** Subject of an error message. Default: the method and the socket. */
  readonly what?: string;
  /** Default true. */
  readonly hasDeadline?: boolean;
}

/** CRI version 1. Every method throws AppError with a `PullErrorCode`. */
export class CriClient {
  readonly socketPath: string;
  private readonly grpc: GrpcClient;
  private readonly timeoutMs: number;

  /** `timeoutMs`: of each call, default 10 s. `protoRoot`: default the package's `proto/`. */
  constructor(options: {
    readonly socketPath: string;
    readonly timeoutMs?: number;
    readonly protoRoot?: string | undefined;
  }) {
    const { socketPath, timeoutMs = 10_000, protoRoot } = options;
    this.socketPath = socketPath;
    this.timeoutMs = timeoutMs;
    this.grpc = new GrpcClient({ socketPath, protoFile: 'runtime/v1/api.proto', protoRoot });
  }

  async listImages(signal: AbortSignal): Promise<RuntimeImage[]> {
    const { images } = await this.call<{ images: WireImage[] }>('ImageService', 'ListImages', {}, signal);
    return images.map(toRuntimeImage);
  }

  async imageStatus(reference: string, signal: AbortSignal): Promise<RuntimeImage | undefined> {
    const wanted = named(reference);
    const { image } = await this.call<{ image: WireImage | null }>('ImageService', 'ImageStatus', wanted, signal);
    return image === null ? undefined : toRuntimeImage(image);
  }

  /** The first filesystem of `ImageFsInfo`. */
  async imageFilesystemPath(signal: AbortSignal): Promise<string | undefined> {
    const { imageFilesystems } = await this.imageFsInfo(signal);
    return imageFilesystems[0]?.fsId?.mountpoint || undefined;
  }

  /** All filesystems of `ImageFsInfo`: with `imagestore` CRI-O has two. */
  async storagePaths(signal: AbortSignal): Promise<readonly string[]> {
    const { imageFilesystems, containerFilesystems } = await this.imageFsInfo(signal);
    return [...imageFilesystems, ...containerFilesystems].flatMap(({ fsId }) => fsId?.mountpoint || []);
  }

  private imageFsInfo(signal: AbortSignal): Promise<FilesystemInfo> {
    return this.call<FilesystemInfo>('ImageService', 'ImageFsInfo', {}, signal);
  }

  /** Has no deadline, because a pull may be slow. Resolves with the image's id or name. */
  async pullImage(reference: string, signal: AbortSignal): Promise<string> {
    const how = { what: `Pull of ${reference}`, hasDeadline: false };
    const wanted = named(reference);
    return (await this.call<{ imageRef: string }>('ImageService', 'PullImage', wanted, signal, how)).imageRef;
  }

  /** A missing image is not an error. */
  async removeImage(reference: string, signal: AbortSignal): Promise<void> {
    await this.call('ImageService', 'RemoveImage', named(reference), signal, { what: `Removal of ${reference}` });
  }

  /** Name and version of the runtime: `cri-o 1.36.3`. */
  async version(signal: AbortSignal): Promise<string> {
    interface Version {
      readonly runtimeName: string;
      readonly runtimeVersion: string;
    }
    const { runtimeName, runtimeVersion } = await this.call<Version>('RuntimeService', 'Version', {}, signal);
    return `${runtimeName} ${runtimeVersion}`;
  }

  /** Resolves when the runtime is alive. */
  async status(signal: AbortSignal): Promise<void> {
    await this.call('RuntimeService', 'Status', {}, signal);
  }

  /** The verbose `Status`: JSON documents by name, in the form of the runtime. */
  async statusInfo(signal: AbortSignal): Promise<Readonly<Record<string, string>>> {
    const request = { verbose: true };
    return (await this.call<{ info: Record<string, string> }>('RuntimeService', 'Status', request, signal)).info;
  }

  async listContainers(signal: AbortSignal): Promise<readonly ListedContainer[]> {
    const request = this.call<{ containers: ListedContainer[] }>('RuntimeService', 'ListContainers', {}, signal);
    return (await request).containers;
  }

  /** Returns undefined when the container is gone. */
  async containerTimes(containerId: string, signal: AbortSignal): Promise<ContainerTimes | undefined> {
    const request = { containerId };
    try {
      const answer = this.call<{ status: WireStatus | null }>('RuntimeService', 'ContainerStatus', request, signal);
      const { status } = await answer;
      if (status === null) return undefined;
      const volumeImages = status.mounts.flatMap(({ image }) => (image?.image ? [image.image] : []));
      return { startedAt: Math.floor(status.startedAt / 1_000_000), exitCode: status.exitCode, volumeImages };
    } catch (error) {
      if (error instanceof AppError && grpcCodeOf(error.cause) === GRPC_NOT_FOUND) return undefined;
      throw error;
    }
  }

  async removeContainer(containerId: string, signal: AbortSignal): Promise<void> {
    const what = `Removal of container ${containerId}`;
    await this.call('RuntimeService', 'RemoveContainer', { containerId }, signal, { what });
  }

  close(): void {
    this.grpc.close();
  }

  private async call<Response>(
    service: 'RuntimeService' | 'ImageService',
    method: string,
    request: object,
    signal: AbortSignal,
    { what = `${method} on ${this.socketPath}`, hasDeadline = true }: CallOptions = {},
  ): Promise<Response> {
    try {
      const options = { signal, timeoutMs: hasDeadline ? this.timeoutMs : undefined };
      return (await this.grpc.call(`runtime.v1.${service}`, method, request, options)) as Response;
    } catch (error) {
      throw toRuntimeError(error, what, signal);
    }
  }
}

function named(reference: string) {
  return { image: { image: reference } };
}

function toRuntimeImage({ id, repoTags, repoDigests, pinned }: WireImage): RuntimeImage {
  return { imageId: id, repoTags, repoDigests, pinned };
}
