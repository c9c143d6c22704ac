import type { Payload, UpdateRules } from '../../domain/model/bundle.ts';
import type { ManifestImage } from '../../domain/release/manifest-warnings.ts';
import type { SigningKey } from '../keys/signing.ts';
import { isBundleTar } from '../read/open-bundle.ts';
import type { ImageFilesystem } from './image/image-layout.ts';
import type { ImageRequest } from './images/images-file.ts';
import type { RegistryAccess } from './images/registry-access.ts';
import type { FileSizeRules } from './layers/packed-file.ts';
import type { AttachmentRequest } from './payload/attachments.ts';
import type { ProgressListener } from './progress.ts';

/**
 * What a new bundle is made of. Texts have the form of the payload and are validated before
 * anything is read.
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
   * The directory of the new bundle; it must be absent or empty. A name that ends in
   * `.stickpin.tar` makes a tar file, which must not exist.
   */
  readonly out: string;
  /** Without `base`, which follows from {@link base}. */
  readonly update?: Omit<UpdateRules, 'base'>;
  /** Path of a bundle whose layers are left out. */
  readonly base?: string;
  /** In load order. Without images the bundle holds only advisories or a key rotation. */
  readonly images: readonly ImageRequest[];
  /**
   * Paths of archives of images, all of whose images are loaded after `images`: `docker save`, OCI
   * layouts; plain, gzip or zstd.
   */
  readonly archives?: readonly string[];
  /**
   * An OpenShift release image: it and its whole payload are loaded after `images`, under the names
   * that they have in the release.
   */
  readonly release?: ImageRequest;
  /**
   * Spreads the bundle over directories `1`, `2` … below `out`, each of at most this many bytes.
   * Not for a tar file.
   */
  readonly volumeBytes?: number;
  /**
   * Makes `out` the image of a stick with this filesystem; its name must end in `.img`. With
   * `volumeBytes` images `1.img`, `2.img` … are made below `out`, and the size is that of an image.
   */
  readonly filesystem?: ImageFilesystem;
  /** Allows layers of 4 GiB and more, for media that are not FAT. Default false. */
  readonly allowLargeBlobs?: boolean;
  /**
   * Folders of Kubernetes manifests. An image that they use and that the bundle lacks gives a
   * warning.
   */
  readonly manifests?: readonly string[];
  /** Places of manifests that were read already, which are compared with the bundle too. */
  readonly used?: readonly ManifestImage[];
  /** Warnings about the options themselves, which stand before all others. */
  readonly notes?: readonly string[];
  /** A warning is the error `bundle/warnings`, and nothing is written. Default false. */
  readonly strict?: boolean;
  /** Files that are delivered with the release, with distinct names. */
  readonly attachments?: readonly AttachmentRequest[];
  /** Each adds a signature. Without any the bundle must be signed later. */
  readonly keys: readonly SigningKey[];
  /** Leaves sigstore signatures out. Default: they are copied with their images. */
  readonly withoutSignatures?: boolean;
  /** How registries are reached. Default: as skopeo does. */
  readonly access?: RegistryAccess;
  readonly onProgress?: ProgressListener;
}

/** Limits of the bundle's files. */
export function sizeRulesOf({ out, filesystem, allowLargeBlobs = false }: CreateOptions): FileSizeRules {
  if (filesystem !== undefined) return { isTar: false, allowLargeBlobs: filesystem === 'ext4', filesystem };
  return { isTar: isBundleTar(out), allowLargeBlobs };
}

/** Receives the progress. */
export function listenerOf({ onProgress }: CreateOptions): ProgressListener {
  return onProgress ?? (() => undefined);
}
