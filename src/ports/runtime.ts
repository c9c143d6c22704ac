import type { Digest } from '../domain/model/digest.ts';
import type {
  ExpectedImage,
  ImageContent,
  ImageUse,
  RuntimeContainer,
  RuntimeImage,
  RuntimeObservation,
} from '../domain/model/image.ts';
import type { Unsubscribe } from '../platform/subscription.ts';

/** A repository that the runtime pulls from our registry. */
interface Mirror {
  /** `registry/path` without tag or digest: `quay.io/coreos/etcd`. */
  readonly repository: string;
}

interface RuntimeObserver {
  /** An unreachable runtime is a result, not an error. */
  observe(signal: AbortSignal): Promise<RuntimeObservation>;
  /**
   * Calls `listener` when the runtime starts, stops, or its configuration files change. It has one
   * listener at a time.
   */
  onChange(listener: () => void): Unsubscribe;
}

export interface PinsPort {
  /**
   * Makes `references` the complete set of our pins. CRI-O: writes the drop-in, together with the
   * pins of other configuration, and reloads if it changed or `force` is set. A pin is in effect
   * only when a later {@link RuntimeObserver.observe} reports it. containerd: labels the present
   * images. Idempotent.
   */
  applyPins(references: readonly string[], options: ApplyPinsOptions, signal: AbortSignal): Promise<void>;
}

interface ApplyPinsOptions {
  /** Reload the runtime even if no byte changed. */
  readonly force: boolean;
  /** {@link MirrorsPort.applyMirrors} comes next, so one reload serves both. */
  readonly mirrorsFollow?: boolean;
}

export interface MirrorsPort {
  /** Makes our registry the first source of exactly these repositories. Idempotent. */
  applyMirrors(mirrors: readonly Mirror[], signal: AbortSignal): Promise<void>;
}

/** Images of the runtime and their names. Every method is idempotent. */
interface ImagesPort {
  /**
   * Pulls by digest, or `registry/repo:tag` at activation. @throws AppError {@link PullErrorCode}
   */
  pull(reference: string, signal: AbortSignal): Promise<void>;
  /** Finds it by id, tag or digest. @throws AppError `runtime/unreachable` and others */
  image(name: string, signal: AbortSignal): Promise<RuntimeImage | undefined>;
  /**
   * Makes `tag` name the present image `reference`, by digest or tag, without a pull. The runtime
   * lists the tag when it resolves. Returns false where CRI has no such call, or the runtime does
   * not know the image.
   */
  addTag(tag: string, reference: string, signal: AbortSignal): Promise<boolean>;
  /** The image keeps its other names if the runtime supports that. */
  removeTag(tag: string, signal: AbortSignal): Promise<void>;
}

export type RuntimePort = RuntimeObserver & PinsPort & MirrorsPort & ImagesPort;

/** Every method is idempotent. */
export interface ContainersPort {
  /** Lists any state. @throws AppError `runtime/unreachable` and others of the runtime room */
  containers(signal: AbortSignal): Promise<readonly RuntimeContainer[]>;
  /** The names with which the running containers were created. @throws errors of `containers` */
  containerImages(signal: AbortSignal): Promise<readonly ImageUse[]>;
  removeContainer(containerId: string, signal: AbortSignal): Promise<void>;
  /** Takes the id of an image, or the name of an artifact. */
  removeImage(name: string, signal: AbortSignal): Promise<void>;
}

export type PullErrorCode =
  | 'runtime/unreachable'
  /** The unit of the runtime is being stopped. The pull is repeated when it runs again. */
  | 'runtime/stopping'
  | 'runtime/no-space'
  | 'runtime/read-only'
  | 'runtime/digest-mismatch'
  | 'runtime/not-found'
  | 'runtime/policy'
  /** It can't unpack the image, or has no use for its form. */
  | 'runtime/unfit-image'
  | 'runtime/cancelled'
  | 'runtime/pull-failed';

/** One check of images. A result for a blob counts for all images that share it. */
export interface ContentCheck {
  /**
   * Changes nothing.
   *
   * @param onBytes called repeatedly with the number of bytes read since the last call
   * @throws AppError `runtime/unreachable` and others of the runtime room
   */
  check(image: ExpectedImage, onBytes: (bytes: number) => void, signal: AbortSignal): Promise<ImageContent>;
}

export interface ContentPort {
  openContentCheck(): ContentCheck;
  /**
   * Makes the runtime forget damaged blobs, so that the next pull transfers them. Idempotent. Does
   * nothing where the runtime has no such call.
   *
   * @throws AppError `runtime/unreachable` and others of the runtime room
   */
  forgetContent(digests: readonly Digest[], signal: AbortSignal): Promise<void>;
}

export interface StoragePort {
  /**
   * Syncs each filesystem that holds images or files of releases.
   * @throws AppError `host/sync` (`retry`); the reason of `signal`
   */
  sync(signal: AbortSignal): Promise<void>;
}

/** Records over boots whether images are to be checked: after a boot without a clean shutdown. */
export interface BootMark {
  /** No I/O. */
  isCheckDue(): boolean;
  /**
   * Durable when it resolves.
   *
   * @throws AppError `store/write`, `store/no-space`, `store/read-only` (`retry`); the value counts
   *   until the daemon ends
   */
  setCheckDue(isDue: boolean, signal: AbortSignal): Promise<void>;
  /** The end of this run is no clean shutdown: a check is due after the next boot. */
  keep(): void;
}
