import type { Digest } from '../../domain/model/digest.ts';
import { createGrpcClient } from '../cri/grpc-client.ts';
import { toRuntimeError } from '../cri/runtime-error.ts';
import type { ImageRecord, LabelChange } from './pin-label.ts';

/**
 * containerd's own Images service in the namespace of Kubernetes. Every call has a deadline and
 * throws AppError with a `PullErrorCode`.
 */
export interface ImagesClient {
  /** Records of all names, or only those with `label`. */
  list(signal: AbortSignal, label?: string): Promise<ImageRecord[]>;
  /** A record that names the content with this digest, or undefined when there is none. */
  withDigest(digest: Digest, signal: AbortSignal): Promise<ImageRecord | undefined>;
  /** Makes a name point to a target. A record of that name points there afterwards. */
  point(record: ImageRecord, signal: AbortSignal): Promise<void>;
  /** The record of one name, or undefined when there is none. */
  get(name: string, signal: AbortSignal): Promise<ImageRecord | undefined>;
  /** Sets and removes single labels; the others stay. A missing record is not an error. */
  changeLabels(change: LabelChange, signal: AbortSignal): Promise<void>;
  /** Removes one name. A missing one is not an error. */
  remove(name: string, signal: AbortSignal): Promise<void>;
  close(): void;
}

const GRPC_NOT_FOUND = 5;
const GRPC_ALREADY_EXISTS = 6;
/** Answers that are a result of their call, not a failure. */
const EXPECTED: Readonly<Record<string, number>> = {
  Update: GRPC_NOT_FOUND,
  Delete: GRPC_NOT_FOUND,
  Create: GRPC_ALREADY_EXISTS,
};

/**
 * An {@link ImagesClient} on containerd's socket. `timeoutMs` is the deadline of each call. Default
 * 10 s.
 */
export function createImagesClient(options: {
  readonly socketPath: string;
  readonly timeoutMs?: number;
  readonly protoRoot?: string;
}): ImagesClient {
  const { socketPath, timeoutMs = 10_000, protoRoot } = options;
  const protoFile = 'containerd/services/images/v1/images.proto';
  const grpc = createGrpcClient({ socketPath, protoFile, ...(protoRoot && { protoRoot }) });
  const call = async (method: string, request: object, signal: AbortSignal): Promise<unknown> => {
    try {
      const headers = { 'containerd-namespace': 'k8s.io' };
      return await grpc.call('containerd.services.images.v1.Images', method, request, { signal, timeoutMs, headers });
    } catch (error) {
      if (error instanceof Error && 'code' in error && error.code === EXPECTED[method]) return undefined;
      throw toRuntimeError(error, `containerd Images.${method} on ${socketPath}`, signal);
    }
  };
  return {
    close: grpc.close,
    list: async (signal, label) => {
      const filters = label === undefined ? [] : [`labels.${JSON.stringify(label)}`];
      return ((await call('List', { filters }, signal)) as { images: ImageRecord[] }).images;
    },
    withDigest: async (digest, signal) => {
      const filters = [`target.digest==${JSON.stringify(digest)}`];
      return ((await call('List', { filters }, signal)) as { images: ImageRecord[] }).images[0];
    },
    point: async ({ name, target, labels }, signal) => {
      const image = { name, target, labels };
      if ((await call('Create', { image }, signal)) !== undefined) return;
      await call('Update', { image, updateMask: { paths: ['target'] } }, signal);
    },
    get: async (name, signal) => {
      const filters = [`name==${JSON.stringify(name)}`];
      return ((await call('List', { filters }, signal)) as { images: ImageRecord[] }).images[0];
    },
    changeLabels: async ({ name, target, labels }, signal) => {
      // A label in the mask but not in the record is removed.
      const set = Object.fromEntries(Object.entries(labels).filter(([, value]) => value !== undefined));
      const updateMask = { paths: Object.keys(labels).map((key) => `labels.${key}`) };
      // containerd 1.7.24 crashes (nil pointer) on an update without a target, even if the mask
      // does not contain it.
      await call('Update', { image: { name, target, labels: set }, updateMask }, signal);
    },
    remove: async (name, signal) => {
      await call('Delete', { name, sync: false }, signal);
    },
  };
}
