/** A container as the runtime's `ListContainers` and `ContainerStatus` report it (CRI v1). */
export interface RuntimeContainer {
  readonly containerId: string;
  /** What stays the same when a container is started anew in its pod: sandbox and name. */
  readonly key: string;
  /** How often it was started anew before, as kubelet counts. */
  readonly attempt: number;
  /**
   * What tells its image, surest first: an id, or a name by digest. Names by tag are left out,
   * since they may have moved.
   */
  readonly imageNames: readonly string[];
  /** `other`: made and not started, or unknown. */
  readonly state: 'running' | 'exited' | 'other';
  /** Milliseconds since the epoch by the runtime's clock; 0 when it never started. */
  readonly startedAt: number;
  /** Means something only when it has exited. */
  readonly exitCode: number;
}

/**
 * The machine's own time since it booted: it knows no jumps, and goes on while the daemon is down
 * or the machine sleeps.
 */
export interface BootTime {
  /** Another one after each boot. */
  readonly bootId: string;
  readonly uptimeMs: number;
}
