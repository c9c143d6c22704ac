import { formatBytes } from '../../../platform/sizes.ts';

/** A partition of a stick, or the filesystem on the bare disk. */
export interface StickPart {
  /** `sdb1`. */
  readonly name: string;
  readonly sizeBytes: number;
  /** Empty when there is none, or it is unknown. */
  readonly filesystem: string;
  readonly label: string;
}

/** What the machine says of a block device. */
export interface StickFacts {
  /** `/dev/sdb`. */
  readonly node: string;
  /** `major:minor`. */
  readonly number: string;
  /** A partition can't be written to: it has no room for a partition table. */
  readonly kind: 'disk' | 'partition';
  /** The whole disk, for a partition. */
  readonly disk: string;
  readonly sizeBytes: number;
  /** Vendor and model, for people; may be empty. */
  readonly model: string;
  readonly serial: string;
  /** The kernel calls it removable, it is on USB, or it is an SD card. */
  readonly isRemovable: boolean;
  readonly isReadOnly: boolean;
  /** Filesystems of this machine are on it, whatever it is plugged into. */
  readonly isSystem: boolean;
  /** fstab(5) says what it is for. */
  readonly isInFstab: boolean;
  /** Mounted filesystems, and swap, of the disk and of its partitions. */
  readonly uses: readonly { readonly name: string; readonly what: string }[];
  /** Partitions that device-mapper, md or a similar driver uses. */
  readonly held: readonly string[];
  /** What would be lost. */
  readonly parts: readonly StickPart[];
}

/**
 * Why an image must not be written to a device, as a sentence with what to do; undefined when it
 * may.
 */
export function refusalOf(facts: StickFacts, imageBytes: number): string | undefined {
  const { node, disk } = facts;
  const [use] = facts.uses;
  const [held] = facts.held;
  if (facts.isSystem) return `${node} holds filesystems of this machine: name the device of the stick`;
  if (facts.kind === 'partition') return `${node} is a partition: name the whole stick, /dev/${disk}`;
  if (!facts.isRemovable) return `${node} is not removable, not on USB and no SD card: name the device of a stick`;
  if (facts.isInFstab) return `${node} is in /etc/fstab, so this machine needs it: name another stick`;
  if (use !== undefined) return `${use.name} is ${use.what}: run umount or swapoff first, or use another stick`;
  if (held !== undefined) return `device-mapper or md uses ${held}: stop that first, or use another stick`;
  if (facts.isReadOnly) return `${node} is read-only: move its switch, or use another stick`;
  if (facts.sizeBytes === 0) return `${node} has no medium: plug in a stick`;
  if (facts.sizeBytes >= imageBytes) return undefined;
  return `${node} has ${formatBytes(facts.sizeBytes)}, and ${formatBytes(imageBytes)} are needed: use a larger stick, or make volumes`;
}

/** What a device is and what is on it, in lines for people. */
export function describeStick({ node, model, serial, sizeBytes, parts }: StickFacts): string[] {
  const name = model === '' ? 'unknown model' : model;
  const number = serial === '' ? '' : `, serial ${serial}`;
  const first = `${node}: ${name}, ${formatBytes(sizeBytes)}${number}`;
  if (parts.length === 0) return [first, '  no partition and no known filesystem'];
  return [
    first,
    ...parts.map((part) => {
      const words = [part.filesystem || 'unknown content', part.label === '' ? '' : `'${part.label}'`];
      return `  ${part.name}: ${formatBytes(part.sizeBytes)}, ${words.filter((word) => word !== '').join(' ')}`;
    }),
  ];
}
