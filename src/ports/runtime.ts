import type { RuntimeContainer } from '../domain/model/runtime-container.ts';
import type { RuntimeImage, RuntimeObservation } from '../domain/model/runtime-image.ts';
import type { Unsubscribe } from '../platform/subscription.ts';

/** Where one repository is to be found while a preload runs. */
export interface Mirror {
  /** `registry/path` without tag or digest: `quay.io/coreos/etcd`. */
  readonly repository: string;
}

/** Sees the container runtime. */
export interface RuntimeObserver {
  /** Images, pins and mirrors as they are now. Not reachable is an answer, not an error. */
  observe(signal: AbortSignal): Promise<RuntimeObservation>;
  /** Calls `listener` when the runtime came, went or its configuration changed on disk. */
  onChange(listener: () => void): Unsubscribe;
}

/** Keeps images from the runtime's own clean-up. */
export interface PinsPort {
  /**
   * Makes exactly `references` the pins that are ours. CRI-O: renders the drop-in (with the pins
   * that others configured) and reloads if bytes changed or `force`; it counts only when a later
   * {@link RuntimeObserver.observe} reports the images pinned. containerd: labels those that are
   * present. Idempotent.
   */
  applyPins(references: readonly string[], options: { readonly force: boolean }, signal: AbortSignal): Promise<void>;
}

/** Has the runtime ask our registry first. */
export interface MirrorsPort {
  /**
   * Makes our registry the first source of exactly these repositories; an empty list takes every
   * mirror of ours away. Idempotent.
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
   * The image that has this name (`registry/repo:tag`, or by digest) now; undefined when none has.
   *
   * @throws AppError `runtime/unreachable` and others of the runtime room
   */
  image(name: string, signal: AbortSignal): Promise<RuntimeImage | undefined>;
  /**
   * Takes one name (`registry/repo:tag`) off its image; the image stays under its other names where
   * the runtime can do so.
   */
  removeTag(tag: string, signal: AbortSignal): Promise<void>;
}

/** All that brings images and keeps them, for the one that wires it. */
export type RuntimePort = RuntimeObserver & PinsPort & MirrorsPort & ImagesPort;

/**
 * Containers of the runtime, and the removal of what is not needed any more. Every method is
 * idempotent.
 */
export interface ContainersPort {
  /**
   * Every container in whatever state. @throws AppError `runtime/unreachable` and others of the
   * runtime room
   */
  containers(signal: AbortSignal): Promise<readonly RuntimeContainer[]>;
  /** Removes an exited container. */
  removeContainer(containerId: string, signal: AbortSignal): Promise<void>;
  /** Removes the image of this id with all its names. */
  removeImage(imageId: string, signal: AbortSignal): Promise<void>;
}

/** Why a pull failed, as far as the runtime's status tells. */
export type PullErrorCode =
  | 'runtime/unreachable'
  /** Its unit is being stopped. Nothing failed: the pull is made again when it runs. */
  | 'runtime/stopping'
  | 'runtime/no-space'
  | 'runtime/read-only'
  | 'runtime/digest-mismatch'
  | 'runtime/not-found'
  | 'runtime/policy'
  | 'runtime/cancelled'
  | 'runtime/pull-failed';
