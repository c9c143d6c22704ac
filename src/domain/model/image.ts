import type { ContentPointer } from './bundle.ts';
import type { Digest } from './digest.ts';
import type { ContentFault, Fault } from './reason.ts';

/** By its signed bundle and its own documents. */
export interface ExpectedImage {
  /** By digest. */
  readonly reference: string;
  /** Its manifest, the index above it if there is one, and its config. */
  readonly documents: readonly Digest[];
  /** The lowest first, for the platform of the node. */
  readonly layers: readonly ExpectedLayer[];
}

/** `size`: of the compressed blob, in bytes. */
export interface ExpectedLayer extends ContentPointer {
  /** The digest of the uncompressed layer. */
  readonly diffId: Digest;
}

/**
 * - `whole`: nothing is wrong. `bytes`: all blobs that the runtime keeps were read, and their
 *   digests are right; `records`: the runtime keeps no blobs, and its records of the unpacked
 *   layers fit;
 * - `broken`: something is;
 * - `absent`: the runtime does not list the image. `faults`: damaged blobs that it keeps of it all
 *   the same, by which the next pull would fail;
 * - `unknown`: it could not be checked.
 */
export type ImageContent =
  | { readonly kind: 'whole'; readonly by: 'bytes' | 'records' }
  | { readonly kind: 'broken'; readonly faults: readonly ContentFault[] }
  | { readonly kind: 'absent'; readonly faults: readonly ContentFault[] }
  | { readonly kind: 'unknown'; readonly reason: Fault };

/**
 * An image that a static pod, a running container, or the runtime itself for the sandbox of each
 * pod uses by name.
 */
export interface ImageUse {
  /** As `Pod kube-system/etcd, container etcd`. */
  readonly usedBy: string;
  /** As it is written there: `quay.io/coreos/etcd:v3.5`. Empty when it can't be read. */
  readonly image: string;
  /** `imagePullPolicy`. Absent where Kubernetes derives it from the tag, and of a container. */
  readonly pullPolicy?: string;
}

/** The images that static pods and running containers use. */
export interface ImageUses {
  readonly uses: readonly ImageUse[];
  /** Manifests and folders that could not be read. Each message names the path. */
  readonly faults: readonly Fault[];
  /** False when a folder of manifests or the list of containers is missing from `uses`. */
  readonly isComplete: boolean;
}

/** As the runtime's `ListContainers` and `ContainerStatus` report it (CRI v1). */
export interface RuntimeContainer {
  readonly containerId: string;
  /** Sandbox and name. A restart in its pod does not change it. */
  readonly key: string;
  /** Number of restarts, as counted by kubelet. */
  readonly attempt: number;
  /** The most reliable first: an id, or a name by digest. Without tags, which may have moved. */
  readonly imageNames: readonly string[];
  /**
   * The image as the pod names it. Absent where the runtime does not report that, as before
   * Kubernetes 1.28.
   */
  readonly podImage?: string;
  /**
   * Images that it mounts as volumes, by id or by name, also by tag. Default none. `unknown`: the
   * runtime does not report them.
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

/** As the runtime's `ListImages` reports it (CRI v1 `Image`). */
export interface RuntimeImage {
  readonly imageId: string;
  readonly repoTags: readonly string[];
  readonly repoDigests: readonly string[];
  readonly pinned: boolean;
}

/** As `ImageFsInfo` names it; sizes by statfs. */
export interface ImageFilesystem {
  readonly path: string;
  readonly totalBytes: number;
  readonly freeBytes: number;
  /** Absent where the filesystem makes inodes as it goes (btrfs). */
  readonly inodes?: { readonly total: number; readonly free: number };
}

/**
 * A filesystem other than that of the images, on which blobs are staged during a pull. Sizes are
 * from statfs.
 */
interface StagingFilesystem {
  readonly path: string;
  readonly totalBytes: number;
  readonly freeBytes: number;
}

/** Where a runtime stages blobs during a pull. */
export type StagingPlace = 'with-images' | StagingFilesystem;

/** What a runtime keeps of a layer: its files, its compressed blob, or both. */
export type LayerStorage = 'unpacked' | 'compressed' | 'both';

/**
 * When a runtime uses a mirror that was written: `at-once` and certainly; with its next pull,
 * unless its own configuration prevents it (docs/runtime-facts.md, fact 36); or `late`, some time
 * after its reload (docs/runtime-facts.md, fact 5).
 */
export type MirrorEffect = 'at-once' | 'next-pull' | 'late';

export interface RenderedMirrors {
  /** `quay.io/coreos/etcd`. */
  readonly repositories: readonly string[];
  readonly takeEffect: MirrorEffect;
}

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
      /** Absent when blobs are not staged, or when the place is not known. */
      readonly staging?: StagingPlace | undefined;
      /**
       * References that our rendered pins name now, sorted. For a runtime that pins by label: those
       * with the label.
       */
      readonly renderedPins: readonly string[];
      /**
       * Every reference that any file or label of ours shows as pinned, sorted, also where {@link
       * renderedPins} is empty since a copy has to be rendered again. Default: what is rendered.
       */
      readonly foundPins?: readonly string[];
      /**
       * The files with our pins can't be read, so that {@link foundPins} is not known. Default
       * false.
       */
      readonly arePinsUnread?: boolean;
      /**
       * What in the runtime's configuration takes our rendered pins away, now or with its next
       * reload; the message names the file.
       */
      readonly pinFault?: Fault | undefined;
      /**
       * What in the runtime's configuration hides our rendered mirrors, now or with its next
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
 * A runtime that answers CRI's `Status` and can't list its images: nothing is decided about them.
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
  /** systemd is stopping this unit, so that no request was sent to the runtime. */
  readonly stoppingUnit?: string;
  /** No runtime was found on this node: nothing can be started. */
  readonly isAbsent?: true;
}
