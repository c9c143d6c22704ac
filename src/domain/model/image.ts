import type { ContentPointer } from './bundle.ts';
import type { Digest } from './digest.ts';
import type { ContentFault, Fault } from './reason.ts';

export interface ExpectedImage {
  readonly reference: string;
  /** Digests of the manifest, the index above it if there is one, and the config. */
  readonly documents: readonly Digest[];
  /** Layers for the platform of the node, the lowest first. */
  readonly layers: readonly ExpectedLayer[];
}

/** `size` is that of the compressed blob, in bytes. */
export interface ExpectedLayer extends ContentPointer {
  /** The digest of the uncompressed layer. */
  readonly diffId: Digest;
}

/**
 * - `whole`: `bytes` means that all kept blobs were read and their digests match. `records` means
 *   that the runtime keeps no blobs, and its records of the unpacked layers fit.
 * - `absent`: the image is not listed. `faults` are damaged blobs that the runtime still keeps.
 *   They would make the next pull fail.
 * - `unknown`: it could not be checked.
 */
export type ImageContent =
  | { readonly kind: 'whole'; readonly by: 'bytes' | 'records' }
  | { readonly kind: 'broken'; readonly faults: readonly ContentFault[] }
  | { readonly kind: 'absent'; readonly faults: readonly ContentFault[] }
  | { readonly kind: 'unknown'; readonly reason: Fault };

/** An image name that a static pod, a running container, or the sandbox of each pod uses. */
export interface ImageUse {
  /** `Pod kube-system/etcd, container etcd` is one. */
  readonly usedBy: string;
  /** The name as written: `quay.io/coreos/etcd:v3.5`. Empty when it can't be read. */
  readonly image: string;
  /** `imagePullPolicy`. Absent for a container, and where Kubernetes derives it from the tag. */
  readonly pullPolicy?: string;
}

export interface ImageUses {
  readonly uses: readonly ImageUse[];
  /** Manifests and folders that could not be read. Each message names the path. */
  readonly faults: readonly Fault[];
  /** False when a folder of manifests or the list of containers is missing from `uses`. */
  readonly isComplete: boolean;
}

/** Fields come from `ListContainers` and `ContainerStatus` (CRI v1). */
export interface RuntimeContainer {
  readonly containerId: string;
  /** Made of sandbox and name. A restart within its pod does not change it. */
  readonly key: string;
  /** Number of restarts, as the kubelet counts them. */
  readonly attempt: number;
  /** Ids and names by digest, the most reliable first. Tags may have moved and are left out. */
  readonly imageNames: readonly string[];
  /** The image as the pod names it. Absent before Kubernetes 1.28. */
  readonly podImage?: string;
  /** Images that it mounts as volumes, by id or by any name. `unknown`: not reported. */
  readonly volumeImages?: readonly string[] | 'unknown';
  /** `other` means created but not started, or unknown. */
  readonly state: 'running' | 'exited' | 'other';
  /** Milliseconds since the epoch by the runtime's clock; 0 when it never started. */
  readonly startedAt: number;
  readonly exitCode: number;
  /** Somebody may start it again, so its image stays. Never set for the kubelet's containers. */
  readonly isStartable?: boolean;
}

/** The time since the machine booted. It never jumps, and includes sleep. */
export interface BootTime {
  /** Each boot has another id. */
  readonly bootId: string;
  readonly uptimeMs: number;
}

/** Fields come from `ListImages` (CRI v1 `Image`). */
export interface RuntimeImage {
  readonly imageId: string;
  readonly repoTags: readonly string[];
  readonly repoDigests: readonly string[];
  readonly pinned: boolean;
  /**
   * The image is listed without the files of its layers, so no container can start from it. Absent
   * when the runtime does not report it.
   */
  readonly isUnpacked?: false;
}

/** Returns images that can start a container, as far as the runtime reports. */
export function usableImages(images: readonly RuntimeImage[]): readonly RuntimeImage[] {
  return images.filter(({ isUnpacked }) => isUnpacked !== false);
}

/** `ImageFsInfo` gives the path, and statfs gives the sizes. */
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
 * When a runtime uses a new mirror (docs/runtime-facts.md, facts 5 and 36). `own-pulls` means that
 * only pulls by stickpin use it, at once.
 */
export type MirrorEffect = 'at-once' | 'next-pull' | 'late' | 'own-pulls';

export interface RenderedMirrors {
  /** Repositories such as `quay.io/coreos/etcd`. */
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
      /** Absent when blobs are not staged or the place is unknown. */
      readonly staging?: StagingPlace | undefined;
      /** References that stickpin's rendered pins or pin labels name now. Sorted. */
      readonly renderedPins: readonly string[];
      /** All references in stickpin's files or labels, sorted. Default: what is rendered. */
      readonly foundPins?: readonly string[];
      /** Files with stickpin's pins can't be read, so {@link foundPins} is not known. */
      readonly arePinsUnread?: boolean;
      /** The part of the runtime's configuration that overrides the pins, now or after a reload. */
      readonly pinFault?: Fault | undefined;
      /** The part of the runtime's configuration that hides the mirrors, now or after a reload. */
      readonly hiddenMirrors?: HiddenMirrors | undefined;
      /** A pull of a pinned image takes its pin away (docs/runtime-facts.md, fact 22). */
      readonly arePinsLostByPulls?: boolean;
      /** Repositories (`quay.io/coreos/etcd`) that the rendered mirrors cover now, sorted. */
      readonly renderedMirrors: readonly string[];
    }
  | UnlistedRuntime
  | UnreachableRuntime;

export interface HiddenMirrors {
  readonly repositories: readonly string[];
  readonly fault: Fault;
}

/** The runtime answers CRI's `Status` but can't list its images. */
export interface UnlistedRuntime {
  readonly kind: 'unlisted';
  readonly name: string;
  readonly reason: string;
  /** CRI-O's records of images or layers contradict each other. */
  readonly isStorageDamaged?: true;
}

/** The runtime does not answer CRI's `Status`. */
export interface UnreachableRuntime {
  readonly kind: 'unreachable';
  readonly reason: string;
  /** systemd is stopping this unit, so no request was sent to the runtime. */
  readonly stoppingUnit?: string;
  readonly isAbsent?: true;
  /** The runtime may only be busy or starting, so no person is called yet. */
  readonly isBrief?: true;
}

/** These codes mean that the runtime can't be used now. */
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
