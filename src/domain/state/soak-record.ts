/** One container that runs, and since when it is known to. */
export interface SoakRun {
  readonly key: string;
  readonly containerId: string;
  readonly startedAt: number;
  /** Uptime of the machine, in milliseconds, when it was first seen. */
  readonly sinceMs: number;
}

/** What is known of one component of an activated release. */
export interface ComponentSoak {
  readonly component: string;
  /**
   * Whether its images distinguish the release; others are followed only because
   * `lifecycle.require` names them.
   */
  readonly counts: boolean;
  readonly runs: readonly SoakRun[];
  /** Containers that ended with an error and were not started again yet. */
  readonly failed: readonly string[];
  /** Uptime when it last failed or was started again. */
  readonly disturbedMs?: number;
  /** When its newest container started, by the runtime's clock. */
  readonly startedAt: number;
}

/**
 * The soak clock of one activation. It counts the machine's uptime, not the wall clock, which may
 * jump: a container that still is the same one after the daemon was down has run on meanwhile.
 * Nothing of it outlives a reboot, since no container does.
 */
export interface Soak {
  /** Of which activation. */
  readonly activatedAt: number;
  readonly bootId: string;
  readonly components: readonly ComponentSoak[];
  /** Uptime since which the release before runs again and nothing of this one. */
  readonly backSinceMs?: number;
  /** How long nothing told whether the release works; absent once something did. */
  readonly unseen?: UnseenTime;
  /**
   * Why it counts as proven, where that was not the soak time: a person said so, or nothing told
   * for long enough (`lifecycle.without_evidence`).
   */
  readonly proof?: 'hand' | 'without-evidence';
}

/** Time between looks at the containers in which no container of a release was seen. */
export interface UnseenTime {
  /** So far, over reboots. */
  readonly totalMs: number;
  /** Uptime of the machine at the look up to which it was counted. */
  readonly atMs: number;
}
