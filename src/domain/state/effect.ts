import type { SignerRole } from '../model/bundle.ts';
import type { BundleId, Digest } from '../model/digest.ts';
import type { MediumId } from '../model/medium.ts';
import type { BadBlob } from './checks.ts';
import type { HookRun } from './hook.ts';
import type { RunningTask } from './memory.ts';
import type { Soak } from './release-record.ts';

/** Something to do, as plain data. Each is idempotent: done twice, the result is the same. */
export type Effect =
  | { readonly kind: 'mount-medium'; readonly mediumId: MediumId }
  /** Find and judge the bundles of a mounted medium, also after a change of the trusted keys. */
  | { readonly kind: 'read-medium'; readonly mediumId: MediumId }
  /**
   * Keep the documents and attachments of a verified bundle on the node's own disk, before it is
   * adopted. Long: its medium is busy meanwhile.
   */
  | { readonly kind: 'keep-documents'; readonly bundleId: BundleId; readonly mediumId: MediumId }
  /** Keep a verified bundle, whose documents are kept, in the database. */
  | { readonly kind: 'adopt-bundle'; readonly bundleId: BundleId; readonly mediumId: MediumId }
  /**
   * Make exactly these references our pins. `force` reloads the runtime even if no byte changed.
   */
  | {
      readonly kind: 'apply-pins';
      readonly references: readonly string[];
      readonly unpinned: string;
      readonly force: boolean;
      /**
       * An `apply-mirrors` comes next. A runtime that must be reloaded for both is reloaded once,
       * after that. Default false.
       */
      readonly mirrorsFollow?: boolean;
    }
  /** Make our registry the first source of exactly these repositories. */
  | { readonly kind: 'apply-mirrors'; readonly repositories: readonly string[] }
  | { readonly kind: 'record-ready'; readonly bundleId: BundleId }
  /** Undo the cancellation of a preload. */
  | { readonly kind: 'resume-preload'; readonly bundleId: BundleId }
  /** Keep which media of a cancellation have stayed plugged in since. */
  | { readonly kind: 'record-media-left'; readonly bundleId: BundleId; readonly media: readonly MediumId[] }
  /** Cancel a long effect. What it has done so far stays. */
  | { readonly kind: 'cancel'; readonly task: RunningTask }
  /** Keep the soak clock, which has been started, disturbed or has lost a container. */
  | { readonly kind: 'record-soak'; readonly bundleId: BundleId; readonly soak: Soak }
  | { readonly kind: 'record-active'; readonly bundleId: BundleId }
  /** `soak`: its clock, of one that counts as proven without evidence. */
  | { readonly kind: 'record-proven'; readonly bundleId: BundleId; readonly soak?: Soak }
  /**
   * It had been active, and `to` runs again: that one is to be activated, so that tags name what
   * runs.
   */
  | { readonly kind: 'record-rolled-back'; readonly bundleId: BundleId; readonly to: BundleId }
  /**
   * A release runs, by these components, without an activation: it is to be activated, so that tags
   * name what runs.
   */
  | { readonly kind: 'request-activation'; readonly bundleId: BundleId; readonly components: readonly string[] }
  /** A release with the same images as `from` continues in its state; `from` is retired. */
  | { readonly kind: 'take-over'; readonly bundleId: BundleId; readonly from: BundleId; readonly retireFrom: boolean }
  /** Give up the pins of a release; `roomFor` names the one that needs the space. */
  | {
      readonly kind: 'retire';
      readonly bundleId: BundleId;
      readonly removeImages: boolean;
      readonly roomFor?: BundleId;
      /** It was not complete for `retention.incomplete`. */
      readonly isIncomplete?: true;
    }
  /**
   * Remove images of a retired release, exited containers that still hold them first, and its tags
   * of images that stay, never the last one of an image.
   */
  | {
      readonly kind: 'remove-images';
      readonly bundleId: BundleId;
      readonly images: readonly Removal[];
      /** Default none. */
      readonly tags?: readonly string[];
    }
  /** Remove damaged images, to be pulled again. */
  | { readonly kind: 'heal-images'; readonly images: readonly Healing[] }
  /** Keep who signed an adopted bundle: a signature was added, or its key is trusted only now. */
  | {
      readonly kind: 'record-signers';
      readonly bundleId: BundleId;
      readonly signedBy: readonly string[];
      readonly signerKeyIds: readonly string[];
      readonly signerRoles?: readonly SignerRole[];
    }
  /** Keep what was found bad of a bundle on media, or forget it. */
  | { readonly kind: 'record-bad-blobs'; readonly bundleId: BundleId; readonly badBlobs: readonly BadBlob[] }
  /** Start the unit of a hook. Its end comes beside the rounds. */
  | { readonly kind: 'run-hook'; readonly run: HookRun }
  | { readonly kind: 'start'; readonly task: RunningTask };

/** With the exited containers that still hold the image. */
export interface Removal {
  readonly imageId: string;
  readonly containerIds: readonly string[];
}

export interface Healing {
  readonly reference: string;
  readonly bundleId: BundleId;
  /** Damaged blobs that the runtime has to forget. */
  readonly forget: readonly Digest[];
  /** Absent when the runtime does not list the image. */
  readonly removal?: Removal;
}
