export interface NodeFacts {
  /** Build time of this program, milliseconds since the epoch. */
  readonly builtAt: number;
  /** 32 lower-case hex digits (machine-id(5)). It never leaves the node: only a hash is used. */
  readonly machineId: string | undefined;
  /** As `Europe/Berlin`. This program may not know it. */
  readonly timeZone: string;
  /** Why new settings are refused. The earlier ones are in force. */
  readonly settingsFault?: string;
}

export interface KubeletFacts {
  /** The last file of its KubeletConfiguration, which may be a drop-in. */
  readonly configFile: string | undefined;
  /** k3s runs it within its own process. */
  readonly isRunning: boolean;
  /** `imagePullCredentialsVerificationPolicy`. Undefined: the default of the kubelet's version. */
  readonly verificationPolicy: string | undefined;
  /** `preloadedImagesVerificationAllowlist`: repositories; the last part may be `*`. */
  readonly allowlist: readonly string[];
  /** `imageGCHighThresholdPercent`: how full the disk is when images are collected. Default 85. */
  readonly collectsAtPercent: number;
  /** `evictionHard` for `imagefs.available`, as `15%` or `10Gi`. */
  readonly evictsBelow?: string;
  /** The folder of its records of images. */
  readonly records: string;
  readonly pullIntents: readonly string[];
  /** Repositories of images that the kubelet pulled with the secret of a pod. */
  readonly secretRepositories: readonly string[];
}
