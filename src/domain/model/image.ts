import type { ContentPointer } from './bundle.ts';
import type { Digest } from './digest.ts';
import type { ContentFault, Fault } from './reason.ts';

export interface ExpectedImage {
  readonly reference: string;
  /** Its manifest, the index above it if there is one, and its config. */
  readonly documents: readonly Digest[];
  /** For the platform of the node, the lowest first. */
  readonly layers: readonly ExpectedLayer[];
}

/** `size`: of the compressed blob, in bytes. */
export interface ExpectedLayer extends ContentPointer {
  /** The digest of the uncompressed layer. */
  readonly diffId: Digest;
}

/**
 * - `whole`: `bytes`: all kept blobs were read and their digests match; `records`: the runtime
 *   keeps   no blobs, and its records of the unpacked layers fit;
 * - `absent`: not listed. `faults`: damaged blobs that the runtime still keeps of it, by which the
 *   next   pull would fail;
 * - `unknown`: it could not be checked.
 */
export type ImageContent =
  | { readonly kind: 'whole'; readonly by: 'bytes' | 'records' }
  | { readonly kind: 'broken'; readonly faults: readonly ContentFault[] }
  | { readonly kind: 'absent'; readonly faults: readonly ContentFault[] }
  | { readonly kind: 'unknown'; readonly reason: Fault };

/** An image name that a static pod, a running container, or the sandbox of each pod uses. */
export interface ImageUse {
  /** As `Pod kube-system/etcd, container etcd`. */
  readonly usedBy: string;
  /** As written: `quay.io/coreos/etcd:v3.5`. Empty when it can't be read. */
  readonly image: string;
  /** `imagePullPolicy`. Absent where Kubernetes derives it from the tag, and of a container. */
  readonly pullPolicy?: string;
}

export interface ImageUses {
  readonly uses: readonly ImageUse[];
  /** Manifests and folders that could not be read. Each message names the path. */
  readonly faults: readonly Fault[];
  /** False when a folder of manifests or the list of containers is missing from `uses`. */
  readonly isComplete: boolean;
}

/** As in `ListContainers` and `ContainerStatus` (CRI v1). */
export interface RuntimeContainer {
  readonly containerId: string;
  /** Sandbox and name. A restart in its pod does not change it. */
  readonly key: string;
  /** Number of restarts, as counted by kubelet. */
  readonly attempt: number;
  /** Ids and names by digest, the most reliable first. No tags, which may have moved. */
  readonly imageNames: readonly string[];
  /** The image as the pod names it. Absent before Kubernetes 1.28. */
  readonly podImage?: string;
  /** Images that it mounts as volumes, by id or by any name. `unknown`: not reported. */
  readonly volumeImages?: readonly string[] | 'unknown';
  /** `other`: made and not started, or unknown. */
  readonly state: 'running' | 'exited' | 'other';
  /** Milliseconds since the epoch by the runtime's clock; 0 when it never started. */
  readonly startedAt: number;
  readonly exitCode: number;
  /** Somebody may start it again, so that it is not removed with its image. None of the kubelet. */
  readonly isStartable?: boolean;
}

/** The time since the machine booted. It never jumps, and includes sleep. */
export interface BootTime {
  /** Another one after each boot. */
  readonly bootId: string;
  readonly uptimeMs: number;
}

/** As in `ListImages` (CRI v1 `Image`). */
export interface RuntimeImage {
  readonly imageId: string;
  readonly repoTags: readonly string[];
  readonly repoDigests: readonly string[];
  readonly pinned: boolean;
  /**
   * Listed, and without the files of its layers, so that no container can start from it. Absent
   * where the runtime does not say so.
   */
  readonly isUnpacked?: false;
}

/** A container can start from them, as far as the runtime says. */
export function usableImages(images: readonly RuntimeImage[]): readonly RuntimeImage[] {
  return images.filter(({ isUnpacked }) => isUnpacked !== false);
}

/** The path is from `ImageFsInfo`, sizes are from statfs. */
export interface ImageFilesystem {
  readonly path: string;
  readonly totalBytes: number;
  readonly freeBytes: number;
  /** Absent where the filesystem makes inodes as needed (btrfs). */
  readonly inodes?: { readonly total: number; readonly free: number };
}

interface StagingFilesystem {
  readonly path: string;
  readonly totalBytes: number;
  readonly freeBytes: number;
}

export type StagingPlace = 'with-images' | StagingFilesystem;

export type LayerStorage = 'unpacked' | 'compressed' | 'both';

/**
 * When a runtime uses a new mirror (docs/runtime-facts.md, facts 5 and 36). `own-pulls`: only for
 * what stickpin pulls, and at once.
 */
export type MirrorEffect = 'at-once' | 'next-pull' | 'late' | 'own-pulls';

export interface RenderedMirrors {
  /** `quay.io/coreos/etcd`. */
  readonly repositories: readonly string[];
  readonly takeEffect: MirrorEffect;
}

export type RuntimeObservation =
  | {
      readonly kind: 'reachable';
      readonly name: string;
      readonly images: readonly RuntimeImage[];
      readonly filesystem: ImageFilesystem | undefined;
      /** Default `unpacked`. */
      readonly layerStorage?: LayerStorage;
      /** Default `at-once`. */
      readonly mirrorsTakeEffect?: MirrorEffect;
      /** Absent when blobs are not staged, or when the place is not known. */
      readonly staging?: StagingPlace | undefined;
      /** References that our rendered pins, or our pin labels, name now. Sorted. */
      readonly renderedPins: readonly string[];
      /** All references in files or labels of ours, sorted. Default: what is rendered. */
      readonly foundPins?: readonly string[];
      /** Files with our pins can't be read, so {@link foundPins} is not known. */
      readonly arePinsUnread?: boolean;
      /** What in the runtime's configuration overrides our pins, now or after a reload. */
      readonly pinFault?: Fault | undefined;
      /** What in the runtime's configuration hides our mirrors, now or after a reload. */
      readonly hiddenMirrors?: HiddenMirrors | undefined;
      /** A pull of a pinned image takes its pin away (docs/runtime-facts.md, fact 22). */
      readonly arePinsLostByPulls?: boolean;
      /** Repositories (`quay.io/coreos/etcd`) that our rendered mirrors cover now, sorted. */
      readonly renderedMirrors: readonly string[];
    }
  | UnlistedRuntime
  | UnreachableRuntime;

export interface HiddenMirrors {
  readonly repositories: readonly string[];
  readonly fault: Fault;
}

/** A runtime that answers CRI's `Status` and can't list its images. */
export interface UnlistedRuntime {
  readonly kind: 'unlisted';
  readonly name: string;
  readonly reason: string;
  /** CRI-O's records of images or layers contradict each other. */
  readonly isStorageDamaged?: true;
}

/** A runtime that does not answer CRI's `Status`. */
export interface UnreachableRuntime {
  readonly kind: 'unreachable';
  readonly reason: string;
  /** systemd is stopping this unit, so no request was sent to the runtime. */
  readonly stoppingUnit?: string;
  readonly isAbsent?: true;
  /** It may only be busy or start: nobody is called yet. */
  readonly isBrief?: true;
}

/** Codes of a runtime that can't be used now. */
export const AWAY_CODES = [
  'runtime/absent',
  'runtime/unreachable',
  'runtime/unlisted',
  'runtime/storage-damaged',
  'runtime/stopping',
] as const;

export function awayCode(runtime: UnlistedRuntime | UnreachableRuntime): (typeof AWAY_CODES)[number] {
  if (runtime.kind === 'unlisted') return runtime.isStorageDamaged ? 'runtime/storage-damaged' : 'runtime/unlisted';
  if (runtime.stoppingUnit !== undefined) return 'runtime/stopping';
  return runtime.isAbsent ? 'runtime/absent' : 'runtime/unreachable';
}

/**
 * CRI-O keeps artifacts beside images, and lists and pins both (docs/runtime-facts.md, fact 51).
 */
export function takesArtifacts(runtime: RuntimeObservation): boolean {
  if (runtime.kind !== 'reachable') return false;
  const [, major, minor] = /^cri-o\s+v?(\d{1,6})\.(\d{1,6})/i.exec(runtime.name) ?? [];
  return Number(major) > 1 || Number(minor) >= 36;
}
