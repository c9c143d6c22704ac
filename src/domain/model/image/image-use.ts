import type { Fault } from '../reason.ts';

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
