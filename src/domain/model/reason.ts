import type { BundleId, Digest } from './digest.ts';

/** `reasonText` in report/ makes the sentence. A code stays the same when its data changes. */
export type Reason = Fault | AdoptionReason | TrustReason | MediaReason | ImageReason | RuntimeReason | ReleaseReason;

/** Code and message of an adapter's `AppError`. Only adapters know the foreign error. */
export interface Fault {
  readonly code: string;
  /** A full sentence, without full stop. */
  readonly message: string;
}

interface Conclusion<Code extends string, Data> {
  readonly code: Code;
  readonly data: Readonly<Data>;
}

export interface BundleLabel {
  readonly name: string;
  readonly version: string;
}

export type AdoptionReason =
  | Conclusion<'bundle/arch', { bundle: BundleLabel; bundleArch: string; nodeArch: string }>
  | Conclusion<
      'bundle/sequence',
      | { kind: 'below-floor'; bundle: BundleLabel; sequence: number; floor: number }
      /** `highest` is the stream's highest known sequence. `step` is the allowed step above it. */
      | { kind: 'step'; bundle: BundleLabel; sequence: number; highest: number; step: number }
      | {
          kind: 'same';
          bundle: BundleLabel;
          bundleId: BundleId;
          sequence: number;
          known: BundleLabel;
          knownId: BundleId;
        }
    >
  | Conclusion<'bundle/version', { bundle: BundleLabel; scheme: 'semver' | 'three-tag' }>
  /** A delta builds on a bundle of another stream, and the node would have to keep that bundle. */
  | Conclusion<'bundle/base', { bundle: BundleLabel; base: BundleLabel }>
  | Conclusion<'bundle/expired', { bundle: BundleLabel; expires: string }>
  | Conclusion<'bundle/from-the-future', { bundle: BundleLabel; created: string }>;

/** Why a bundle is not trusted, or not yet. `signedBy` names keys. */
export type TrustReason =
  | Conclusion<
      'trust/approval',
      | { kind: 'found'; bundleId: BundleId; bundle: BundleLabel; medium: string; signedBy: readonly string[] }
      /** No trusted key signed the bundle, so its name is not known. */
      | { kind: 'found-unsigned'; bundleId: BundleId; medium: string }
      | { kind: 'adopted'; bundleId: BundleId; bundle: BundleLabel }
    >
  | Conclusion<
      'trust/rejected',
      /** `bundle` is absent when its name is not known. `why` is the person's text. */
      | { kind: 'found'; bundleId: BundleId; bundle?: BundleLabel; why?: string }
      | { kind: 'adopted'; bundleId: BundleId; bundle: BundleLabel; why?: string }
    >
  | Conclusion<'trust/blind', { bundle: BundleLabel; cause?: string }>
  | Conclusion<'trust/threshold', { bundle: BundleLabel; signedBy: readonly string[]; threshold: number }>
  /** `left` is how many keys of the role that signed are not revoked. */
  | Conclusion<
      'trust/role',
      {
        bundle: BundleLabel;
        signedBy: readonly string[];
        role: string;
        why:
          | { kind: 'no-role' }
          | { kind: 'threshold'; threshold: number; left: number }
          | { kind: 'stream'; stream: string }
          | { kind: 'repository'; stream: string; repository: string };
      }
    >
  | Conclusion<'trust/key-revoked', { bundle: BundleLabel; signedBy: readonly string[]; keyIds: readonly string[] }>;

export interface ImageCount {
  readonly present: number;
  readonly total: number;
  /** Set only while one artifact is absent. */
  readonly artifacts?: { readonly present: number; readonly total: number };
}

/** Names one bad blob of the copies that were read, and how many more there are. */
export interface Flaws {
  readonly digest: Digest;
  readonly why: 'damaged' | 'unreadable' | 'truncated' | 'absent';
  readonly medium: string;
  readonly more: number;
}

export type Interruption =
  | { readonly kind: 'unmounted'; readonly medium: string }
  /** Taken out of a folder. `folder` is absent for the drop folder. */
  | { readonly kind: 'taken-out'; readonly folder?: string }
  | { readonly kind: 'unplugged' }
  | { readonly kind: 'peer-away'; readonly peer: string };

/** Sizes are in bytes. `needed` is the size beyond what the role has. */
export interface RoleShortage {
  readonly role: string;
  readonly needed: number;
  readonly used: number;
  readonly max: number;
}

/** Bytes, or a number of inodes. `staging` is room on a separate filesystem. */
export interface ShortOf {
  readonly kind: 'bytes' | 'inodes' | 'staging';
  readonly path: string;
  readonly needed: number;
  readonly free: number;
  /** The room that must stay free. `percent` is its share of the filesystem. */
  readonly reserved: number;
  readonly percent: number;
  readonly isKeptForKubelet?: boolean;
}

export type MediaReason =
  /** `layers` is how many are missing. `name` is `ocp@4.13.6` where it is known. */
  | Conclusion<
      'engine/no-base',
      /** `holders` are known bundles that carry all these layers themselves, the base first. */
      {
        bundle: BundleLabel;
        layers: number;
        base: { bundleId?: BundleId; name?: string; isAdopted: boolean; isRetired?: true };
        holders?: readonly string[];
      }
    >
  | Conclusion<'engine/cancelled', { bundle: BundleLabel; images: ImageCount }>
  /** The medium has an envelope without blobs, and `preload.online` is off. */
  | Conclusion<'engine/offline', { bundle: BundleLabel; media: readonly string[] }>
  | Conclusion<
      'bundle/blob-missing',
      | {
          kind: 'on-all-media';
          bundle: BundleLabel;
          images: ImageCount;
          media: readonly string[];
          blobs: number;
          /** A missing blob, or else an image that can't be pulled. */
          first: { digest: Digest; why: 'absent' | 'truncated' | 'damaged' } | { reference: string };
        }
      | {
          kind: 'rest';
          bundle: BundleLabel;
          images: ImageCount;
          layers: number;
          sizeBytes: number;
          first: Digest;
        }
    >
  | Conclusion<'engine/needs-copy', { bundle: BundleLabel; images: ImageCount; flaws: Flaws }>
  | Conclusion<'engine/no-source', { bundle: BundleLabel; images: ImageCount; how: Interruption }>
  /** The node that should give it serves others or does not answer now. */
  | Conclusion<
      'media/peer-waited-for',
      {
        bundle: BundleLabel;
        images: ImageCount;
        peer: string;
        queue?: QueuePlace;
      }
    >
  /** The daemon has just started, and media were not read yet. */
  | Conclusion<'media/looking', { bundle: BundleLabel; images: ImageCount }>
  /** The last medium of the bundle is plugged in and read again. */
  | Conclusion<'media/reading', { bundle: BundleLabel; images: ImageCount; medium: string }>;

export type ImageReason =
  | Conclusion<
      'engine/image-missing',
      {
        bundle: BundleLabel;
        missing: number;
        total: number;
        /** The count includes artifacts. */
        isMixed?: boolean;
        /** Some references. `list` means that all these names matter, else only the first one. */
        named: readonly string[];
        isList: boolean;
        next:
          | { kind: 'pull' }
          | { kind: 'look' }
          | { kind: 'copy'; flaws: Flaws }
          /** `base` names the bundle with the layers that a delta left out. */
          | { kind: 'plug-in'; base?: string };
      }
    >
  /** `reference`, `fault` and `next` belong to one of the damaged images. */
  | Conclusion<
      'engine/image-damaged',
      {
        bundle: BundleLabel;
        damaged: number;
        total: number;
        reference: string;
        fault: ContentFault;
        next: DamageOutcome;
        base?: string;
      }
    >
  /** Manifests or configs are lost, so pulls can't be answered. `reference` is one image. */
  | Conclusion<
      'engine/documents-missing',
      { bundle: BundleLabel; lacking: number; total: number; isMixed?: boolean; reference: string }
    >
  /** `images` is how many are present but may not be on the disk. */
  | Conclusion<'runtime/sync-pending', { bundle: BundleLabel; images: number }>
  /** `images` is how many are present since before a boot without a clean shutdown. */
  | Conclusion<'engine/unchecked', { bundle: BundleLabel; images: number }>
  | Conclusion<'runtime/pins-pending', { bundle: BundleLabel; unpinned: number; total: number }>
  | Conclusion<
      'runtime/pins-ignored',
      {
        bundle: BundleLabel;
        unpinned: number;
        total: number;
        cause: { kind: 'fault'; fault: Fault } | { kind: 'not-reported'; attempts: number; first: string };
      }
    >;

export type RuntimeReason =
  | Conclusion<'engine/no-space', { bundle: BundleLabel; shortage: ShortOf }>
  /** The limit is `max_bytes` of the role that signed the bundle. */
  | Conclusion<'engine/over-share', { bundle: BundleLabel; share: RoleShortage }>
  /** policy.json refuses several images. `first` is the refusal of the first one. */
  | Conclusion<'runtime/policy', { bundle: BundleLabel; images: number; isMixed?: boolean; first: Fault }>
  /** Both have the runtime's form: `containerd 1.6.20`. */
  | Conclusion<'runtime/version', { runtime: string; needed: string }>;

export type ReleaseReason =
  /** `names` is the image that the tag names now. `times` is how often it was restored. */
  | Conclusion<
      'engine/tag-contested',
      { bundle: BundleLabel; tag: string; reference: string; names?: string; times: number }
    >
  /** `recorded` is the stored text. `to` is the earlier release until its activation is done. */
  | Conclusion<'engine/rolled-back', { bundle: BundleLabel; recorded: string; isByHand?: boolean; to?: BundleLabel }>;

export function labelOf({ name, version }: BundleLabel): BundleLabel {
  return { name, version };
}

interface Found {
  readonly subject: string;
  readonly message: string;
}

/** A `fault` does not work. A `warning` may fail later. Both name the remedy. */
export type Finding =
  | (Found & { readonly verdict: 'ok' })
  | (Found & { readonly verdict: 'warning' | 'fault'; readonly remedy: string });

export function findingsOn(subject: string) {
  return {
    ok: (message: string): Finding => ({ subject, verdict: 'ok', message }),
    warning: (message: string, remedy: string): Finding => ({ subject, verdict: 'warning', message, remedy }),
    fault: (message: string, remedy: string): Finding => ({ subject, verdict: 'fault', message, remedy }),
  };
}

/**
 * Rules that hold an activation until a person or running containers override them (bundle format,
 * "Update rules").
 */
export const RULE_CODES = [
  'rule/from',
  'rule/barrier',
  'rule/downgrade',
  'rule/deadend',
  'rule/rollout',
  'rule/end-of-life',
  'window',
  'clock',
] as const;

export type RuleCode = (typeof RULE_CODES)[number];

export interface QueuePlace {
  /** 0 when no node comes before this one and it only waits for a time. */
  readonly place: number;
  readonly waiting: number;
  /** An estimate in milliseconds. Absent before the first turn has ended. */
  readonly waitMs?: number;
  /** The longest wait in milliseconds, when nothing more is known. */
  readonly mostMs?: number;
}

export type ContentFault =
  /** `lost` means that the runtime has a record of the blob but no file. */
  | { readonly kind: 'blob'; readonly digest: Digest; readonly why: 'lost' | 'truncated' | 'altered' | 'unreadable' }
  | { readonly kind: 'document-absent'; readonly digest: Digest }
  | { readonly kind: 'layer-absent'; readonly digest: Digest }
  /** All blobs are present. The image counts as absent, and is pulled again. */
  | { readonly kind: 'not-unpacked' }
  /** The records of an unpacked layer don't fit the storage. `what` is a clause. */
  | { readonly kind: 'records'; readonly what: string };

/**
 * - `heal`: its blobs are at hand, so it is removed and pulled again;
 * - `plug-in`: no plugged medium and no disk has all its blobs;
 * - `cancelled`: the preload of its release was cancelled;
 * - `in-use`: a container that has not exited uses it;
 * - `shared`: the damage also belongs to another image, which stays;
 * - `look`: the containers are not known;
 * - `give-up`: it was removed and pulled again, and is still damaged.
 */
export type DamageOutcome = 'heal' | 'plug-in' | 'cancelled' | 'in-use' | 'shared' | 'look' | 'give-up';
