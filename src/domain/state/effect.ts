import type { SignerRole } from '../model/bundle.ts';
import type { BundleId, Digest } from '../model/digest.ts';
import type { MediumId } from '../model/medium.ts';
import type { BadBlob } from './checks.ts';
import type { ReleaseRun } from './hook.ts';
import type { RunningTask } from './memory.ts';
import type { Soak } from './release-record.ts';

/** A task as plain data. Idempotent. */
export type Effect =
  | { readonly kind: 'mount-medium'; readonly mediumId: MediumId }
  /** Find and judge the bundles of a mounted medium, also after a change of the trusted keys. */
  | { readonly kind: 'read-medium'; readonly mediumId: MediumId }
  /**
   * Keep documents and attachments on the node's own disk before the adoption. Those of the
   * medium's next bundles are kept too.
   */
  | { readonly kind: 'keep-documents'; readonly bundleId: BundleId; readonly mediumId: MediumId }
  /** Record a verified bundle, whose documents are kept, in the database. */
  | { readonly kind: 'adopt-bundle'; readonly bundleId: BundleId; readonly mediumId: MediumId }
  /** Render exactly these references as pins. `force` reloads even if no byte changed. */
  | {
      readonly kind: 'apply-pins';
      readonly references: readonly string[];
      readonly unpinned: string;
      readonly force: boolean;
      /** An `apply-mirrors` follows, so one reload serves both. */
      readonly mirrorsFollow?: boolean;
    }
  | { readonly kind: 'apply-mirrors'; readonly repositories: readonly string[] }
  | { readonly kind: 'record-ready'; readonly bundleId: BundleId }
  | { readonly kind: 'resume-preload'; readonly bundleId: BundleId }
  /** Record which media of a cancellation have stayed plugged in. */
  | { readonly kind: 'record-media-left'; readonly bundleId: BundleId; readonly media: readonly MediumId[] }
  | { readonly kind: 'cancel'; readonly task: RunningTask }
  | { readonly kind: 'record-soak'; readonly bundleId: BundleId; readonly soak: Soak }
  | { readonly kind: 'record-active'; readonly bundleId: BundleId }
  /** `soak` is the clock of a release that counts as proven without evidence. */
  | { readonly kind: 'record-proven'; readonly bundleId: BundleId; readonly soak?: Soak }
  /** `to` runs again and is to be activated, so that tags name the running release. */
  | { readonly kind: 'record-rolled-back'; readonly bundleId: BundleId; readonly to: BundleId }
  /** These components of a release run without an activation, which then moves its tags. */
  | { readonly kind: 'request-activation'; readonly bundleId: BundleId; readonly components: readonly string[] }
  /** A release with the same images as `from` gets its state, and `from` is retired. */
  | { readonly kind: 'take-over'; readonly bundleId: BundleId; readonly from: BundleId; readonly retireFrom: boolean }
  /** Give up the pins of a release. `roomFor` is the release that needs the space. */
  | {
      readonly kind: 'retire';
      readonly bundleId: BundleId;
      readonly removeImages: boolean;
      readonly roomFor?: BundleId;
      readonly isIncomplete?: true;
    }
  /**
   * Remove unused images and tags of a retired release, never the last tag of an image, or stopped
   * containers that a proven release replaces.
   */
  | {
      readonly kind: 'remove-images';
      readonly bundleId: BundleId;
      readonly images: readonly Removal[];
      /** The node came with the images. */
      readonly areOfNode?: true;
      readonly tags?: readonly string[];
      readonly stopped?: readonly StoppedContainer[];
    }
  /** Nothing of a retired release remains: it becomes one line, and its documents are removed. */
  | { readonly kind: 'forget-release'; readonly bundleId: BundleId }
  | { readonly kind: 'heal-images'; readonly images: readonly Healing[] }
  /** Record the signers of an adopted bundle: a signature or a trusted key is new. */
  | {
      readonly kind: 'record-signers';
      readonly bundleId: BundleId;
      readonly signedBy: readonly string[];
      readonly signerKeyIds: readonly string[];
      readonly signerRoles?: readonly SignerRole[];
    }
  | { readonly kind: 'record-bad-blobs'; readonly bundleId: BundleId; readonly badBlobs: readonly BadBlob[] }
  | { readonly kind: 'run-hook'; readonly run: ReleaseRun }
  | { readonly kind: 'start'; readonly task: RunningTask };

/** Includes the exited containers that still hold the image. */
export interface Removal {
  readonly imageId: string;
  /** CRI-O removes an artifact only by this name (docs/runtime-facts.md, fact 51). */
  readonly name?: string;
  readonly containerIds: readonly string[];
}

export interface StoppedContainer {
  readonly containerId: string;
  readonly name: string;
}

export interface Healing {
  readonly reference: string;
  readonly bundleId: BundleId;
  /** The runtime has to forget these damaged blobs. */
  readonly forget: readonly Digest[];
  /** Absent when the runtime does not list the image. */
  readonly removal?: Removal;
}

/** A conclusion about a release after its activation, or that runs without one. */
export type LifecycleFinding =
  | {
      readonly kind: 'same-images';
      readonly bundleId: BundleId;
      readonly twin: BundleId;
      /** The twin is protected, or has other artifacts. */
      readonly isTwinKept: boolean;
    }
  | { readonly kind: 'clock-changed'; readonly bundleId: BundleId; readonly soak: Soak }
  | { readonly kind: 'runs'; readonly bundleId: BundleId }
  | { readonly kind: 'soaked'; readonly bundleId: BundleId }
  | { readonly kind: 'unseen-for-long'; readonly bundleId: BundleId; readonly soak: Soak }
  | { readonly kind: 'went-back'; readonly bundleId: BundleId; readonly to: BundleId }
  | { readonly kind: 'runs-unrequested'; readonly bundleId: BundleId; readonly components: readonly string[] }
  | { readonly kind: 'spare'; readonly bundleId: BundleId; readonly roomFor?: BundleId }
  | { readonly kind: 'incomplete'; readonly bundleId: BundleId }
  /** The node has no part of the release. */
  | { readonly kind: 'over'; readonly bundleId: BundleId }
  | {
      readonly kind: 'removable';
      readonly bundleId: BundleId;
      readonly images: readonly Removal[];
      /** The node came with the images. */
      readonly areOfNode?: true;
      readonly tags?: readonly string[];
      readonly stopped?: readonly StoppedContainer[];
    };
