import type { ImageRequest } from '../bundle/image-request.ts';
import { isBundleTar } from '../bundle/read/open-bundle.ts';
import type { RegistryAccess } from '../distribution/registry-client.ts';
import type { Payload, UpdateRules } from '../domain/model/bundle.ts';
import type { StickFilesystem } from '../domain/model/machine.ts';
import type { ManifestImage } from '../domain/release/manifest-images.ts';
import type { ArchiveChoice } from './archive/read-archives.ts';
import type { ReferrerChoice } from './images/attached.ts';
import type { CacheChoice } from './images/image-cache.ts';
import type { FileSizeRules } from './layers/packed-file.ts';
import type { SignatureChoice } from './openshift/release-signatures.ts';
import type { AttachmentRequest } from './payload/attachments.ts';
import type { SigningKey } from './payload/sign-envelope.ts';
import type { ProgressListener } from './progress.ts';
import type { ImagePolicy } from './verify/policy-file.ts';

/** Texts have the form of the payload and are validated before anything is read. */
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
    | 'keep'
    | 'annotations'
    | 'advisories'
    | 'trust'
  > {
  /** Must be absent or empty. A name that ends in `.stickpin.tar` makes a tar file. */
  readonly out: string;
  readonly update?: Omit<UpdateRules, 'base'>;
  readonly base?: string;
  /** The images in load order. A bundle without images has only advisories or a key rotation. */
  readonly images: readonly ImageRequest[];
  /** Charts, models and others, but no container images. They need a release with images. */
  readonly artifacts?: readonly ImageRequest[];
  /** Paths of archives, whose chosen images are loaded after `images`. */
  readonly archives?: readonly string[];
  readonly archiveChoice?: ArchiveChoice;
  /** The registry of names without one in the storage of a registry. */
  readonly shortNames?: string;
  /** An OpenShift release image, loaded with its payload after `images`, under its names. */
  readonly release?: ImageRequest;
  /** The version and previous versions that the release names don't count for the bundle. */
  readonly withoutPrevious?: true;
  /** Signatures of the release image travel as an attachment. */
  readonly signatures?: SignatureChoice;
  /** Makes directories `1`, `2` … of at most this many bytes. A tar file can't have it. */
  readonly volumeBytes?: number;
  /**
   * Makes `out` (`*.img`) the image of a stick; with `volumeBytes` images `1.img`, `2.img` … of
   * that size below `out`.
   */
  readonly filesystem?: StickFilesystem;
  /** Allows layers of 4 GiB and more, for media that are not FAT. Default false. */
  readonly allowLargeBlobs?: boolean;
  /** Folders of Kubernetes manifests. An image that only they use gives a warning. */
  readonly manifests?: readonly string[];
  readonly used?: readonly ManifestImage[];
  readonly notes?: readonly string[];
  readonly strict?: boolean;
  /** Files that are delivered with the release, with distinct names. */
  readonly attachments?: readonly AttachmentRequest[];
  /** Each key adds a signature. A bundle without any must be signed later. */
  readonly keys: readonly SigningKey[];
  /** Default `signatures`. */
  readonly referrers?: ReferrerChoice;
  readonly access?: RegistryAccess;
  /** Images of registries are kept there for the next bundle. */
  readonly cache?: CacheChoice;
  /** If it is absent, images are not verified. */
  readonly imagePolicy?: ImagePolicy;
  readonly onProgress?: ProgressListener;
  /** Gets the warnings that are known before the first image is fetched. */
  readonly onWarning?: (warning: string) => void;
}

export function sizeRulesOf({ out, filesystem, allowLargeBlobs = false }: CreateOptions): FileSizeRules {
  if (filesystem !== undefined) return { isTar: false, allowLargeBlobs: filesystem === 'ext4', filesystem };
  return { isTar: isBundleTar(out), allowLargeBlobs };
}

export function listenerOf({ onProgress }: CreateOptions): ProgressListener {
  return onProgress ?? (() => undefined);
}
