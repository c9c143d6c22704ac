import type { ImageUse, RuntimeContainer, RuntimeImage, RuntimeObservation } from '../domain/model/image.ts';
import type { Unsubscribe } from '../platform/subscription.ts';

/** A repository that the runtime pulls from our registry. */
export interface Mirror {
  /** `registry/path` without tag or digest: `quay.io/coreos/etcd`. */
  readonly repository: string;
}

/** Observes the container runtime. */
export interface RuntimeObserver {
  /** The current images, pins and mirrors. An unreachable runtime is a result, not an error. */
  observe(signal: AbortSignal): Promise<RuntimeObservation>;
  /** Calls `listener` when the runtime starts, stops, or its configuration files change. */
  onChange(listener: () => void): Unsubscribe;
}

/** Protects images from the garbage collection of the runtime. */
export interface PinsPort {
  /**
   * Makes `references` the complete set of our pins. CRI-O: writes the drop-in, together with the
   * pins of other configuration, and reloads if it changed or `force` is set. A pin is in effect
   * only when a later {@link RuntimeObserver.observe} reports it. containerd: labels the images
   * that are present. Idempotent.
   */
  applyPins(references: readonly string[], options: ApplyPinsOptions, signal: AbortSignal): Promise<void>;
}

/** How pins are applied. */
export interface ApplyPinsOptions {
  /** Reload the runtime even if no byte changed. */
  readonly force: boolean;
  /**
   * {@link MirrorsPort.applyMirrors} is called next. It makes the reload that the pins need, so
   * that there is one reload for both. Default false.
   */
  readonly mirrorsFollow?: boolean;
}

/** Makes the runtime ask our registry first. */
export interface MirrorsPort {
  /**
   * Makes our registry the first source of exactly these repositories. An empty list removes all
   * our mirrors. Idempotent.
   */
  applyMirrors(mirrors: readonly Mirror[], signal: AbortSignal): Promise<void>;
}

/** Images of the runtime and their names. Every method is idempotent. */
export interface ImagesPort {
  /**
   * CRI `PullImage` of `reference` (by digest, or `registry/repo:tag` at activation). Aborting
   * cancels the call.
   *
   * @throws AppError with a {@link PullErrorCode}.
   */
  pull(reference: string, signal: AbortSignal): Promise<void>;
  /**
   * The image that has this name (`registry/repo:tag`, or by digest) now. Undefined when there is
   * none.
   *
   * @throws AppError `runtime/unreachable` and others of the runtime room
   */
  image(name: string, signal: AbortSignal): Promise<RuntimeImage | undefined>;
  /**
   * Makes `tag` (`registry/repo:tag`) name the present image `reference` (by digest) without a
   * pull. The runtime lists the tag when it resolves. False where that is not possible: CRI has no
   * such call, or the runtime does not know the image. Then the tag must be pulled.
   */
  addTag(tag: string, reference: string, signal: AbortSignal): Promise<boolean>;
  /**
   * Removes one name (`registry/repo:tag`) of an image. The image keeps its other names if the
   * runtime supports that.
   */
  removeTag(tag: string, signal: AbortSignal): Promise<void>;
}

/** All ports of images, pins and mirrors. */
export type RuntimePort = RuntimeObserver & PinsPort & MirrorsPort & ImagesPort;

/**
 * Containers of the runtime, and the removal of containers and images. Every method is idempotent.
 */
export interface ContainersPort {
  /**
   * All containers, in any state. @throws AppError `runtime/unreachable` and others of the runtime
   * room
   */
  containers(signal: AbortSignal): Promise<readonly RuntimeContainer[]>;
  /** The images by whose names the running containers were made. @throws as `containers` */
  imagesAskedFor(signal: AbortSignal): Promise<readonly ImageUse[]>;
  /** Removes an exited container. */
  removeContainer(containerId: string, signal: AbortSignal): Promise<void>;
  /** Removes the image of this id with all its names. */
  removeImage(imageId: string, signal: AbortSignal): Promise<void>;
}

/** Why a pull failed, from the status of the runtime. */
export type PullErrorCode =
  | 'runtime/unreachable'
  /** The unit of the runtime is being stopped. The pull is repeated when it runs again. */
  | 'runtime/stopping'
  | 'runtime/no-space'
  | 'runtime/read-only'
  | 'runtime/digest-mismatch'
  | 'runtime/not-found'
  | 'runtime/policy'
  | 'runtime/cancelled'
  | 'runtime/pull-failed';
