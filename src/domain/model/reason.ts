import type { BundleId, Digest } from './digest.ts';

/**
 * A code with data; `reasonText` in report/ makes the sentence. Codes are shown to people and
 * programs, so a code stays the same when its data changes.
 */
export type Reason = Fault | AdoptionReason | TrustReason | MediaReason | ImageReason | RuntimeReason | ReleaseReason;

/**
 * Code and message of an adapter's `AppError`. The only reason that has its sentence from the
 * beginning, since it was made where the foreign error was known.
 */
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

/** Why a verified bundle may not be adopted. */
export type AdoptionReason =
  | Conclusion<'bundle/arch', { bundle: BundleLabel; bundleArch: string; nodeArch: string }>
  | Conclusion<
      'bundle/sequence',
      | { kind: 'below-floor'; bundle: BundleLabel; sequence: number; floor: number }
      /**
       * `highest`: of the bundles of the stream that are known; `step`: what is allowed above it.
       */
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
  /** `scheme`: that of the stream. */
  | Conclusion<'bundle/version', { bundle: BundleLabel; scheme: 'semver' | 'three-tag' }>
  /** A delta builds on a bundle of another stream, which would have to be kept for it. */
  | Conclusion<'bundle/base', { bundle: BundleLabel; base: BundleLabel }>
  /** As in the payload. */
  | Conclusion<'bundle/expired', { bundle: BundleLabel; expires: string }>
  /** As in the payload. */
  | Conclusion<'bundle/from-the-future', { bundle: BundleLabel; created: string }>;

/** Why a bundle is not trusted, or not yet. `signedBy`: names of keys. */
export type TrustReason =
  | Conclusion<
      'trust/approval',
      | { kind: 'found'; bundleId: BundleId; bundle: BundleLabel; medium: string; signedBy: readonly string[] }
      /** No trusted key signed it, so that its name is not known. */
      | { kind: 'found-unsigned'; bundleId: BundleId; medium: string }
      | { kind: 'adopted'; bundleId: BundleId; bundle: BundleLabel }
    >
  | Conclusion<
      'trust/rejected',
      /**
       * `bundle`: absent when its name is not known. `why`: in the words of the person who rejected
       * it.
       */
      | { kind: 'found'; bundleId: BundleId; bundle?: BundleLabel; why?: string }
      | { kind: 'adopted'; bundleId: BundleId; bundle: BundleLabel; why?: string }
    >
  /** Revocations can't be read. `cause`: a message of an adapter; absent when it is not known. */
  | Conclusion<'trust/blind', { bundle: BundleLabel; cause?: string }>
  | Conclusion<'trust/threshold', { bundle: BundleLabel; signedBy: readonly string[]; threshold: number }>
  /**
   * It was trusted by keys of a role, and these no longer count for it. `left`: how many of the
   * role's keys that signed it are not revoked.
   */
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
  /** `keyIds`: those of its signers that are revoked. */
  | Conclusion<'trust/key-revoked', { bundle: BundleLabel; signedBy: readonly string[]; keyIds: readonly string[] }>;

export interface ImageCount {
  readonly present: number;
  readonly total: number;
}

/** One bad blob of the copies that were seen, and how many more there are. */
export interface Flaws {
  readonly digest: Digest;
  readonly why: 'damaged' | 'unreadable' | 'truncated' | 'absent';
  /** Label of the medium. */
  readonly medium: string;
  readonly more: number;
}

/** How a preload lost its medium. */
export type Interruption =
  | { readonly kind: 'unmounted'; readonly medium: string }
  /** Out of a folder. `folder`: absent for the drop folder. */
  | { readonly kind: 'taken-out'; readonly folder?: string }
  | { readonly kind: 'unplugged' }
  /** Another node no longer gives it. `peer`: its name. */
  | { readonly kind: 'peer-away'; readonly peer: string };

/** Bytes, or a number of inodes. */
export interface ShortOf {
  readonly kind: 'bytes' | 'inodes' | 'staging';
  readonly path: string;
  readonly needed: number;
  readonly free: number;
  /** Part of what is free that must stay free. */
  readonly reserved: number;
}

export type MediaReason =
  /** `layers`: how many are missing. `name`: `ocp@4.13.6` where it is known. */
  | Conclusion<
      'engine/no-base',
      /** `holders`: known bundles that carry all of these layers themselves, the base first. */
      {
        bundle: BundleLabel;
        layers: number;
        base: { bundleId?: BundleId; name?: string; isAdopted: boolean; isRetired?: true };
        holders?: readonly string[];
      }
    >
  | Conclusion<'engine/cancelled', { bundle: BundleLabel; images: ImageCount }>
  /** An envelope without blobs, and `preload.online` is off. */
  | Conclusion<'engine/offline', { bundle: BundleLabel; media: readonly string[] }>
  | Conclusion<
      'bundle/blob-missing',
      | {
          kind: 'on-all-media';
          bundle: BundleLabel;
          images: ImageCount;
          media: readonly string[];
          blobs: number;
          /** A blob that is missing; where none is, an image that can't be pulled. */
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
  /** Another node is to give it, and serves others or does not answer now. */
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
  /** What carried the bundle last is plugged in and read again. */
  | Conclusion<'media/reading', { bundle: BundleLabel; images: ImageCount; medium: string }>;

export type ImageReason =
  | Conclusion<
      'engine/image-missing',
      {
        bundle: BundleLabel;
        missing: number;
        total: number;
        /** References of some of them; `list`: all these names matter, else the first one. */
        named: readonly string[];
        isList: boolean;
        next:
          | { kind: 'pull' }
          | { kind: 'look' }
          | { kind: 'copy'; flaws: Flaws }
          /** `base`: what has the layers that a delta left out, by its name. */
          | { kind: 'plug-in'; base?: string };
      }
    >
  /** Images that the runtime lists are damaged. `reference`, `fault`, `next`: of one of them. */
  | Conclusion<
      'engine/image-damaged',
      {
        bundle: BundleLabel;
        damaged: number;
        total: number;
        reference: string;
        fault: ContentFault;
        next: DamageOutcome;
        /** What has the layers of it that a delta left out, by its name. */
        base?: string;
      }
    >
  /**
   * The manifest or config of images is lost, so that pulls of them can't be answered. `reference`:
   * of one of them.
   */
  | Conclusion<'engine/documents-missing', { bundle: BundleLabel; lacking: number; total: number; reference: string }>
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

/** Why the runtime, or its disk, takes no images. */
export type RuntimeReason =
  | Conclusion<'engine/no-space', { bundle: BundleLabel; shortage: ShortOf }>
  /** policy.json refuses several images. `first`: the refusal of the first one. */
  | Conclusion<'runtime/policy', { bundle: BundleLabel; images: number; first: Fault }>
  /** It is too old. Both as the runtime names itself: `containerd 1.6.20`. */
  | Conclusion<'runtime/version', { runtime: string; needed: string }>;

/** What became of a release after its activation. */
export type ReleaseReason =
  /**
   * `names`: what the tag names now; absent when it names nothing. `times`: how often it was
   * restored.
   */
  | Conclusion<
      'engine/tag-contested',
      { bundle: BundleLabel; tag: string; reference: string; names?: string; times: number }
    >
  /**
   * `recorded`: the sentence that was stored when it was given up. `open`: while the release to
   * which it goes back is not activated.
   */
  | Conclusion<
      'engine/rolled-back',
      { recorded: string; open?: { readonly from: BundleLabel; readonly to: BundleLabel } }
    >;

export function labelOf({ name, version }: BundleLabel): BundleLabel {
  return { name, version };
}

/** The result of one check of the node, in one line. */
interface Found {
  /** In a word or two: `crio link`. */
  readonly subject: string;
  readonly message: string;
}

/**
 * `fault`: something does not work. `warning`: it works now, but may fail later. Both say what to
 * do.
 */
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
 * What holds the activation of a release until a person confirms it: a rule of the release or of
 * its stream (bundle format, "Update rules"), a window of the node, or an unusable clock.
 */
export type RuleCode =
  | 'rule/from'
  | 'rule/barrier'
  | 'rule/downgrade'
  | 'rule/deadend'
  | 'rule/rollout'
  | 'rule/end-of-life'
  | 'window'
  | 'clock';

/** What a confirmation or running containers may override. */
export const RULE_CODES: readonly RuleCode[] = [
  'rule/from',
  'rule/barrier',
  'rule/downgrade',
  'rule/deadend',
  'rule/rollout',
  'rule/end-of-life',
  'window',
  'clock',
];

/** The place of this node in the queue of a peer. */
export interface QueuePlace {
  /** 1: next. */
  readonly place: number;
  readonly waiting: number;
  /** About how long until its turn, in milliseconds; absent while no turn has ended there. */
  readonly waitMs?: number;
  /** The longest time until its turn, in milliseconds, when nothing more is known. */
  readonly mostMs?: number;
}

export type ContentFault =
  /** `lost`: the runtime has a record of the blob and no file. */
  | { readonly kind: 'blob'; readonly digest: Digest; readonly why: 'lost' | 'truncated' | 'altered' | 'unreadable' }
  /** A manifest, an index or a config of which the runtime has no record. */
  | { readonly kind: 'document-absent'; readonly digest: Digest }
  /** A layer without unpacked files and without blob. */
  | { readonly kind: 'layer-absent'; readonly digest: Digest }
  /** The runtime's own records of an unpacked layer don't fit its storage. `what`: a clause. */
  | { readonly kind: 'records'; readonly what: string };

/**
 * - `heal`: its blobs are at hand, so that it is removed and pulled again;
 * - `plug-in`: no plugged medium and no disk has all its blobs;
 * - `cancelled`: the preload of its release was cancelled;
 * - `in-use`: a container that has not exited uses it;
 * - `shared`: what is damaged belongs to another image too, which stays;
 * - `look`: the containers are not known;
 * - `give-up`: it was removed and pulled again, and is still damaged.
 */
export type DamageOutcome = 'heal' | 'plug-in' | 'cancelled' | 'in-use' | 'shared' | 'look' | 'give-up';
