/** What the kubelet of this node does with images, as far as its files tell. */
export interface KubeletFacts {
  /** The file of its KubeletConfiguration. Undefined when none is in a usual place. */
  readonly configFile: string | undefined;
  /** `imagePullCredentialsVerificationPolicy`. Undefined: the default of the kubelet's version. */
  readonly verificationPolicy: string | undefined;
  /** `preloadedImagesVerificationAllowlist`: repositories, the last part of which may be `*`. */
  readonly allowlist: readonly string[];
  /** `imageGCHighThresholdPercent`: how full the disk is when images are collected. Default 85. */
  readonly collectsAtPercent: number;
  /** Images whose pull was begun by the kubelet and not recorded as ended. */
  readonly pullIntents: readonly string[];
  /** Repositories of images that the kubelet pulled with the secret of a pod. */
  readonly secretRepositories: readonly string[];
}
