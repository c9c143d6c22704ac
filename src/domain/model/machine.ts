export interface NodeFacts {
  /** Build time of this program, in milliseconds since the epoch. */
  readonly builtAt: number;
  /** 32 lower-case hex digits (machine-id(5)). It never leaves the node: only a hash is used. */
  readonly machineId: string | undefined;
  /** A name such as `Europe/Berlin`. This program may not know it. */
  readonly timeZone: string;
  /** Undefined counts as yes, so that more stays free. */
  readonly hasKubelet?: boolean;
  /** Why the settings are refused. The earlier ones are in force, unless `keepsOnly`. */
  readonly settingsFault?: string;
  /** The settings were wrong at the start. Recorded state is kept, and nothing is changed. */
  readonly keepsOnly?: true;
}

export interface KubeletFacts {
  /** The last file of its KubeletConfiguration, which may be a drop-in. */
  readonly configFile: string | undefined;
  /** k3s runs it within its own process. */
  readonly isRunning: boolean;
  /** `imagePullCredentialsVerificationPolicy`. Undefined: the default of the kubelet's version. */
  readonly verificationPolicy: string | undefined;
  /** `preloadedImagesVerificationAllowlist`: repositories. The last part may be `*`. */
  readonly allowlist: readonly string[];
  /** `imageGCHighThresholdPercent`: the disk use that starts image collection. Default 85. */
  readonly collectsAtPercent: number;
  /** `imageMinimumGCAge`: how long the kubelet leaves an image that it sees for the first time. */
  readonly collectsAfter: string;
  /** `imageMaximumGCAge`: unused images go at this age. Undefined: at no age. */
  readonly collectsOlderThan?: string;
  /** `evictionHard` for `imagefs.available`, such as `15%` or `10Gi`. */
  readonly evictsBelow?: string;
  /** The pins of the cri-dockerd that runs, or that the kubelet's endpoint names. */
  readonly criDockerd?: CriDockerdPins;
  /** The folder of the kubelet's records of images. */
  readonly records: string;
  readonly pullIntents: readonly string[];
  /** Repositories of images that the kubelet pulled with the secret of a pod. */
  readonly secretRepositories: readonly string[];
}

/** Options that cri-dockerd has after 0.4.4. Without them it pins the image of the sandbox only. */
export interface CriDockerdPins {
  /** `--pinned-images`: names as Docker has them, repositories, or prefixes that end in `*`. */
  readonly images: readonly string[];
  /** `--pinned-image-labels`: `key` or `key=value`. */
  readonly labels: readonly string[];
}

/** The image that is written to a stick has one of these. */
export const STICK_FILESYSTEMS = ['vfat', 'ext4'] as const;

export type StickFilesystem = (typeof STICK_FILESYSTEMS)[number];

export interface StickPart {
  /** The kernel name, such as `sdb1`. */
  readonly name: string;
  readonly sizeBytes: number;
  /** Empty when unknown. */
  readonly filesystem: string;
  readonly label: string;
}

export interface StickFacts {
  /** The device file, such as `/dev/sdb`. */
  readonly node: string;
  /** `major:minor`. */
  readonly number: string;
  /** A partition has no room for a partition table. */
  readonly kind: 'disk' | 'partition';
  /** The whole disk of a partition. */
  readonly disk: string;
  readonly sizeBytes: number;
  /** Vendor and model, for people. May be empty. */
  readonly model: string;
  readonly serial: string;
  /** The kernel reports it removable, or it is on USB or an SD card. */
  readonly isRemovable: boolean;
  readonly isReadOnly: boolean;
  /** The disk has filesystems of this machine, whatever it is plugged into. */
  readonly isSystem: boolean;
  /** fstab(5) names the device. */
  readonly isInFstab: boolean;
  /** Mounted filesystems and swap of the disk and its partitions. */
  readonly uses: readonly { readonly name: string; readonly what: string }[];
  /** Partitions in use by device-mapper, md or a similar driver. */
  readonly held: readonly string[];
  readonly parts: readonly StickPart[];
}
