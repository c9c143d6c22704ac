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
