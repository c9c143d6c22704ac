import type { ContentPointer } from './bundle.ts';
import type { Digest } from './digest.ts';
import type { ContentFault, Fault } from './reason.ts';

/** What an image must consist of, as its signed bundle and its own documents say. */
export interface ExpectedImage {
  /** By digest. */
  readonly reference: string;
  /** Its manifest, the index above it if there is one, and its config. */
  readonly documents: readonly Digest[];
  /** The lowest first, for the platform of the node. */
  readonly layers: readonly ExpectedLayer[];
}

/** A layer of an {@link ExpectedImage}. `size`: of the compressed blob, in bytes. */
export interface ExpectedLayer extends ContentPointer {
  /** The digest of the uncompressed layer. */
  readonly diffId: Digest;
}

/**
 * What a look at the content of an image has shown.
 *
 * - `whole`: nothing is wrong. `bytes`: all blobs that the runtime keeps were read, and their
 *   digests are right; `records`: the runtime keeps no blobs, and its records of the unpacked
 *   layers fit;
 * - `broken`: something is;
 * - `absent`: the runtime does not list the image. `faults`: damaged blobs that it keeps of it all
 *   the same, by which the next pull would fail;
 * - `unknown`: it could not be looked at.
 */
export type ImageContent =
  | { readonly kind: 'whole'; readonly by: 'bytes' | 'records' }
  | { readonly kind: 'broken'; readonly faults: readonly ContentFault[] }
  | { readonly kind: 'absent'; readonly faults: readonly ContentFault[] }
  | { readonly kind: 'unknown'; readonly reason: Fault };

/**
 * An image that something on the node asks for by name: a static pod, a running container, or the
 * runtime itself for the sandbox of each pod.
 */
export interface ImageUse {
  /** Who asks for it, as `Pod kube-system/etcd, container etcd`. */
  readonly usedBy: string;
  /** As it is written there: `quay.io/coreos/etcd:v3.5`. Empty when it can't be read. */
  readonly image: string;
  /** `imagePullPolicy`. Absent where Kubernetes derives it from the tag, and of a container. */
  readonly pullPolicy?: string;
}

/** The images that static pods and running containers ask for, seen in one look. */
export interface ImageUses {
  readonly uses: readonly ImageUse[];
  /** Manifests and folders that could not be read. Each message names the path. */
  readonly faults: readonly Fault[];
  /** False when a folder of manifests or the list of containers is missing from `uses`. */
  readonly isComplete: boolean;
}

/** A container as the runtime's `ListContainers` and `ContainerStatus` report it (CRI v1). */
export interface RuntimeContainer {
  readonly containerId: string;
  /** Sandbox and name, which stay the same when a container is restarted in its pod. */
  readonly key: string;
  /** How often it was restarted, as counted by kubelet. */
  readonly attempt: number;
  /**
   * Names of its image, the most reliable first: an id, or a name by digest. Names by tag are left
   * out, because tags may have moved.
   */
  readonly imageNames: readonly string[];
  /**
   * The image as the pod names it. Absent where the runtime does not report that, as before
   * Kubernetes 1.28.
   */
  readonly podImage?: string;
  /**
   * Images that it mounts as volumes, by id or by name, also by tag. Default none. `unknown`: the
   * runtime did not tell.
   */
  readonly volumeImages?: readonly string[] | 'unknown';
  /** `other`: made and not started, or unknown. */
  readonly state: 'running' | 'exited' | 'other';
  /** Milliseconds since the epoch by the runtime's clock; 0 when it never started. */
  readonly startedAt: number;
  /** Means something only when it has exited. */
  readonly exitCode: number;
}

/**
 * The time since the machine booted. It never jumps, and continues while the daemon is stopped or
 * the machine sleeps.
 */
export interface BootTime {
  /** Another one after each boot. */
  readonly bootId: string;
  readonly uptimeMs: number;
}

/** An image as the runtime's `ListImages` reports it (CRI v1 `Image`). */
export interface RuntimeImage {
  readonly imageId: string;
  readonly repoTags: readonly string[];
  readonly repoDigests: readonly string[];
  readonly pinned: boolean;
}

/**
 * The filesystem on which the runtime keeps its images, as `ImageFsInfo` names it; sizes by statfs.
 */
export interface ImageFilesystem {
  readonly path: string;
  readonly totalBytes: number;
  readonly freeBytes: number;
  /** Absent where the filesystem makes inodes as it goes (btrfs). */
  readonly inodes?: { readonly total: number; readonly free: number };
}

/**
 * A filesystem other than that of the images, on which the runtime stages blobs during a pull.
 * Sizes are from statfs.
 */
interface StagingFilesystem {
  readonly path: string;
  readonly totalBytes: number;
  readonly freeBytes: number;
}

/**
 * Where a runtime stages blobs during a pull: on the filesystem of the images, or on another one.
 */
export type StagingPlace = 'with-images' | StagingFilesystem;

/** What a runtime keeps of a layer: its files, its compressed blob, or both. */
export type LayerStorage = 'unpacked' | 'compressed' | 'both';

/**
 * When a runtime uses a mirror that was written: `at-once` and certainly; with its next pull,
 * unless its own configuration has it look elsewhere (docs/runtime-facts.md, fact 36); or `late`,
 * some time after it was told to reload (docs/runtime-facts.md, fact 5).
 */
export type MirrorEffect = 'at-once' | 'next-pull' | 'late';

/** The mirrors of ours that are written now. */
export interface RenderedMirrors {
  /** `quay.io/coreos/etcd`. */
  readonly repositories: readonly string[];
  readonly takeEffect: MirrorEffect;
}

/** The runtime as observed in one round. */
export type RuntimeObservation =
  | {
      readonly kind: 'reachable';
      /** As the runtime names itself: `cri-o 1.36.3`. */
      readonly name: string;
      readonly images: readonly RuntimeImage[];
      readonly filesystem: ImageFilesystem | undefined;
      /** Default `unpacked`. */
      readonly layerStorage?: LayerStorage;
      /** Default `at-once`. */
      readonly mirrorsTakeEffect?: MirrorEffect;
      /** Absent when blobs are not staged, or when it can't be told where. */
      readonly staging?: StagingPlace | undefined;
      /**
       * References that our rendered pins name now, sorted. For a runtime that pins by label: those
       * labelled.
       */
      readonly renderedPins: readonly string[];
      /**
       * Every reference that any file or label of ours still shows as pinned, sorted, also where
       * {@link renderedPins} is empty since a copy has to be rendered again. Default: what is
       * rendered.
       */
      readonly foundPins?: readonly string[];
      /**
       * Whether the files with our pins can't be read, so that {@link foundPins} is not known.
       * Default false.
       */
      readonly arePinsUnread?: boolean;
      /**
       * What in the runtime's configuration takes our rendered pins away, now or with its next
       * reload; the message names the file.
       */
      readonly pinFault?: Fault | undefined;
      /**
       * What in the runtime's configuration hides rendered mirrors of ours, now or with its next
       * reload. Default: nothing does.
       */
      readonly hiddenMirrors?: HiddenMirrors | undefined;
      /**
       * Whether a pull of a pinned image takes its pin away (docs/runtime-facts.md, fact 22).
       * Default false.
       */
      readonly arePinsLostByPulls?: boolean;
      /** Repositories (`quay.io/coreos/etcd`) that our rendered mirrors cover now, sorted. */
      readonly renderedMirrors: readonly string[];
    }
  | UnlistedRuntime
  | UnreachableRuntime;

/** Mirrors that are rendered and without effect. */
export interface HiddenMirrors {
  readonly repositories: readonly string[];
  /** The message names the files. */
  readonly fault: Fault;
}

/**
 * A runtime that answers CRI's `Status` and can't say which images it has, so that nothing is
 * decided about them.
 */
export interface UnlistedRuntime {
  readonly kind: 'unlisted';
  /** As the runtime names itself. */
  readonly name: string;
  readonly reason: string;
  /** Its records of images or layers contradict each other: CRI-O's storage. Default false. */
  readonly isStorageDamaged?: true;
}

/** A runtime that does not answer CRI's `Status`. */
export interface UnreachableRuntime {
  readonly kind: 'unreachable';
  readonly reason: string;
  /** systemd is stopping this unit, so that the runtime was not even asked. */
  readonly stoppingUnit?: string;
  /** No runtime was found on this node, so that there is nothing to start. */
  readonly isAbsent?: true;
}
