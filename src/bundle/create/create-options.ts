import type { Payload, UpdateRules } from '../../domain/model/bundle.ts';
import type { PrivateKey } from '../keys/keys.ts';
import { isBundleTar } from '../read/open-bundle.ts';
import type { ImageRequest } from './images/image-request.ts';
import type { FileSizeRules } from './layers/blob-sizes.ts';
import type { ProgressListener } from './output/progress.ts';
import type { AttachmentRequest } from './payload/attachments.ts';

/**
 * What a new bundle is made of. Texts are as in the payload; they are validated before anything is
 * read.
 */
export interface CreateOptions
  extends Pick<
    Payload,
    | 'name'
    | 'version'
    | 'versionScheme'
    | 'arch'
    | 'sequence'
    | 'created'
    | 'expires'
    | 'schedule'
    | 'annotations'
    | 'advisories'
    | 'trust'
  > {
  /**
   * The directory that becomes the bundle; must not be there, or be empty. With a name
   * `*.stickpin.tar`, the tar file; must not be there.
   */
  readonly out: string;
  /** Without `base`, which follows from {@link base}. */
  readonly update?: Omit<UpdateRules, 'base'>;
  /** Path of a bundle whose layers are left out. */
  readonly base?: string;
  /** In load order. None makes a bundle of advisories, or for the rotation of keys, alone. */
  readonly images: readonly ImageRequest[];
  /**
   * An OpenShift release image: it and its whole payload load behind `images`, by the names that
   * they have there.
   */
  readonly release?: ImageRequest;
  /**
   * Spreads the bundle over directories `1`, `2` … below `out`, of at most so many bytes each. Not
   * for a tar file.
   */
  readonly volumeBytes?: number;
  /** Takes layers of 4 GiB and more, for media that are not FAT. Default false. */
  readonly allowLargeBlobs?: boolean;
  /**
   * Folders of Kubernetes manifests that are held against what the bundle carries; what does not
   * fit becomes a warning.
   */
  readonly manifests?: readonly string[];
  /** A warning ends it with `bundle/warnings`, and nothing is written. Default false. */
  readonly strict?: boolean;
  /** Files that travel with the release, by distinct names. */
  readonly attachments?: readonly AttachmentRequest[];
  /** Each adds a signature; without one the bundle must be signed later. */
  readonly keys: readonly PrivateKey[];
  /** Leaves sigstore signatures in the registry. Default: they travel with their images. */
  readonly withoutSignatures?: boolean;
  readonly onProgress?: ProgressListener;
}

/** What files of the bundle may be like. */
export function sizeRulesOf({ out, allowLargeBlobs = false }: CreateOptions): FileSizeRules {
  return { isTar: isBundleTar(out), allowLargeBlobs };
}

/** Who hears of the progress. */
export function listenerOf({ onProgress }: CreateOptions): ProgressListener {
  return onProgress ?? (() => undefined);
}
