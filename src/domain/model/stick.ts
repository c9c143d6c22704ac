/** Of the image that is written to a stick. */
export const STICK_FILESYSTEMS = ['vfat', 'ext4'] as const;

export type StickFilesystem = (typeof STICK_FILESYSTEMS)[number];

export interface StickPart {
  /** `sdb1`. */
  readonly name: string;
  readonly sizeBytes: number;
  /** Empty when unknown. */
  readonly filesystem: string;
  readonly label: string;
}

export interface StickFacts {
  /** `/dev/sdb`. */
  readonly node: string;
  /** `major:minor`. */
  readonly number: string;
  /** A partition has no room for a partition table. */
  readonly kind: 'disk' | 'partition';
  /** The whole disk, for a partition. */
  readonly disk: string;
  readonly sizeBytes: number;
  /** Vendor and model, for people; may be empty. */
  readonly model: string;
  readonly serial: string;
  /** Removable for the kernel, on USB, or an SD card. */
  readonly isRemovable: boolean;
  readonly isReadOnly: boolean;
  /** Filesystems of this machine are on it, whatever it is plugged into. */
  readonly isSystem: boolean;
  /** fstab(5) says what it is for. */
  readonly isInFstab: boolean;
  /** Mounted filesystems and swap of the disk and its partitions. */
  readonly uses: readonly { readonly name: string; readonly what: string }[];
  /** Partitions in use by device-mapper, md or a similar driver. */
  readonly held: readonly string[];
  readonly parts: readonly StickPart[];
}
