export interface NodeFacts {
  /** When this program was built, milliseconds since the epoch. */
  readonly builtAt: number;
  /**
   * 32 lower-case hex digits, as in machine-id(5); undefined when the node has none. It never
   * leaves the node: only a hash of it is used.
   */
  readonly machineId: string | undefined;
  /** As `Europe/Berlin`. This program may not know it. */
  readonly timeZone: string;
  /** Why new settings are refused; those from before are in force. */
  readonly settingsFault?: string;
}

/** What the kubelet does with images, as far as its files say. */
export interface KubeletFacts {
  /**
   * The last file of its KubeletConfiguration, which may be a drop-in. Undefined when it names
   * none, and none is in a usual place.
   */
  readonly configFile: string | undefined;
  /** k3s runs it within its own process. */
  readonly isRunning: boolean;
  /** `imagePullCredentialsVerificationPolicy`. Undefined: the default of the kubelet's version. */
  readonly verificationPolicy: string | undefined;
  /** `preloadedImagesVerificationAllowlist`: repositories, the last part of which may be `*`. */
  readonly allowlist: readonly string[];
  /** `imageGCHighThresholdPercent`: how full the disk is when images are collected. Default 85. */
  readonly collectsAtPercent: number;
  /**
   * `evictionHard` for `imagefs.available`: how little space makes the kubelet remove unused images
   * and end pods, as `15%` or `10Gi`. Absent where it has no such mark.
   */
  readonly evictsBelow?: string;
  /** The folder of its records of images. */
  readonly records: string;
  /** Images whose pull was begun by the kubelet and not recorded as ended. */
  readonly pullIntents: readonly string[];
  /** Repositories of images that the kubelet pulled with the secret of a pod. */
  readonly secretRepositories: readonly string[];
}
