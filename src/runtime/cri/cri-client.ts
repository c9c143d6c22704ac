import type { RuntimeImage } from '../../domain/model/image.ts';
import { AppError } from '../../platform/app-error.ts';
import { createGrpcClient } from './grpc-client.ts';
import { toRuntimeError } from './runtime-error.ts';

const RUNTIME_SERVICE = 'runtime.v1.RuntimeService';
const IMAGE_SERVICE = 'runtime.v1.ImageService';

/** CRI version 1. Every method throws AppError with a `PullErrorCode`. */
export interface CriClient {
  readonly socketPath: string;
  /** Name and version of the runtime: `cri-o 1.36.3`. */
  version(signal: AbortSignal): Promise<string>;
  listImages(signal: AbortSignal): Promise<RuntimeImage[]>;
  imageStatus(reference: string, signal: AbortSignal): Promise<RuntimeImage | undefined>;
  /** The first filesystem of `ImageFsInfo`. */
  imageFilesystemPath(signal: AbortSignal): Promise<string | undefined>;
  /** Resolves when the runtime is alive. */
  status(signal: AbortSignal): Promise<void>;
  /** `Status` with verbose: JSON documents by name, in the runtime's own shape. */
  statusInfo(signal: AbortSignal): Promise<Readonly<Record<string, string>>>;
  /** Has no deadline, because a pull may be slow. Resolves with the image's id or name. */
  pullImage(reference: string, signal: AbortSignal): Promise<string>;
  /** A missing image is not an error. */
  removeImage(reference: string, signal: AbortSignal): Promise<void>;
  listContainers(signal: AbortSignal): Promise<readonly ListedContainer[]>;
  /** Undefined when the container is gone. */
  containerTimes(containerId: string, signal: AbortSignal): Promise<ContainerTimes | undefined>;
  removeContainer(containerId: string, signal: AbortSignal): Promise<void>;
  close(): void;
}

/** `timeoutMs`: of each call, default 10 s. `protoRoot`: default the package's `proto/`. */
export interface CriClientOptions {
  readonly socketPath: string;
  readonly timeoutMs?: number;
  readonly protoRoot?: string;
}

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

const GRPC_NOT_FOUND = 5;

interface WireImage extends RuntimeImage {
  readonly id: string;
}

interface CallOptions {
  /** Default the image service. */
  readonly service?: string;
  /** Subject of an error message. Default: the method and the socket. */
  readonly what?: string;
  /** Default true. */
  readonly hasDeadline?: boolean;
}

type Call = <Response>(
  method: string,
  request: object,
  signal: AbortSignal,
  options?: CallOptions,
) => Promise<Response>;

export function createCriClient({ socketPath, timeoutMs = 10_000, protoRoot }: CriClientOptions): CriClient {
  const grpc = createGrpcClient({ socketPath, protoFile: 'runtime/v1/api.proto', ...(protoRoot && { protoRoot }) });
  const call: Call = async <Response>(
    method: string,
    request: object,
    signal: AbortSignal,
    { service = IMAGE_SERVICE, what = `${method} on ${socketPath}`, hasDeadline = true }: CallOptions = {},
  ) => {
    try {
      const options = { signal, ...(hasDeadline && { timeoutMs }) };
      return (await grpc.call(service, method, request, options)) as Response;
    } catch (error) {
      throw toRuntimeError(error, what, signal);
    }
  };
  return { socketPath, close: grpc.close, ...imageCalls(call), ...statusCalls(call), ...containerCalls(call) };
}

type ImageCalls = Pick<CriClient, 'listImages' | 'imageStatus' | 'imageFilesystemPath' | 'pullImage' | 'removeImage'>;

function imageCalls(call: Call): ImageCalls {
  const image = (reference: string) => ({ image: { image: reference } });
  return {
    listImages: async (signal) => {
      const { images } = await call<{ images: WireImage[] }>('ListImages', {}, signal);
      return images.map(toRuntimeImage);
    },
    imageStatus: async (reference, signal) => {
      const found = await call<{ image: WireImage | null }>('ImageStatus', image(reference), signal);
      return found.image === null ? undefined : toRuntimeImage(found.image);
    },
    imageFilesystemPath: async (signal) => {
      interface Usage {
        readonly fsId: { readonly mountpoint: string } | null;
      }
      const { imageFilesystems } = await call<{ imageFilesystems: Usage[] }>('ImageFsInfo', {}, signal);
      return imageFilesystems[0]?.fsId?.mountpoint || undefined;
    },
    pullImage: async (reference, signal) => {
      const how = { what: `Pull of ${reference}`, hasDeadline: false };
      return (await call<{ imageRef: string }>('PullImage', image(reference), signal, how)).imageRef;
    },
    removeImage: async (reference, signal) => {
      await call('RemoveImage', image(reference), signal, { what: `Removal of ${reference}` });
    },
  };
}

function statusCalls(call: Call): Pick<CriClient, 'version' | 'status' | 'statusInfo'> {
  const ofRuntime = { service: RUNTIME_SERVICE };
  return {
    version: async (signal) => {
      const found = await call<{ runtimeName: string; runtimeVersion: string }>('Version', {}, signal, ofRuntime);
      return `${found.runtimeName} ${found.runtimeVersion}`;
    },
    status: async (signal) => {
      await call('Status', {}, signal, ofRuntime);
    },
    statusInfo: async (signal) =>
      (await call<{ info: Record<string, string> }>('Status', { verbose: true }, signal, ofRuntime)).info,
  };
}

function containerCalls(call: Call): Pick<CriClient, 'listContainers' | 'containerTimes' | 'removeContainer'> {
  const ofRuntime = { service: RUNTIME_SERVICE };
  return {
    listContainers: async (signal) =>
      (await call<{ containers: ListedContainer[] }>('ListContainers', {}, signal, ofRuntime)).containers,
    containerTimes: async (containerId, signal) => {
      interface Found {
        readonly status: {
          readonly startedAt: number;
          readonly exitCode: number;
          readonly mounts: readonly { readonly image: { readonly image: string } | null }[];
        } | null;
      }
      try {
        const { status } = await call<Found>('ContainerStatus', { containerId }, signal, ofRuntime);
        if (status === null) return undefined;
        const volumeImages = status.mounts.flatMap(({ image }) => (image?.image ? [image.image] : []));
        return { startedAt: Math.floor(status.startedAt / 1_000_000), exitCode: status.exitCode, volumeImages };
      } catch (error) {
        if (error instanceof AppError && isNotFound(error.cause)) return undefined;
        throw error;
      }
    },
    removeContainer: async (containerId, signal) => {
      await call('RemoveContainer', { containerId }, signal, {
        ...ofRuntime,
        what: `Removal of container ${containerId}`,
      });
    },
  };
}

function toRuntimeImage({ id, repoTags, repoDigests, pinned }: WireImage): RuntimeImage {
  return { imageId: id, repoTags, repoDigests, pinned };
}

function isNotFound(cause: unknown): boolean {
  return cause instanceof Error && 'code' in cause && cause.code === GRPC_NOT_FOUND;
}
