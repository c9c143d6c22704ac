const KiB = 1024;
const MiB = 1024 * KiB;

/**
 * Every limit of the bundle format, version 1, stated once. Sizes in bytes, the others are counts.
 */
export const limits = {
  /** `bundle.dsse.json` as it lies on the medium. */
  envelopeBytes: MiB,
  /** The payload after base64. */
  payloadBytes: 256 * KiB,
  /** Signatures of one envelope. */
  signatures: 64,
  /** Keys in a folder of trusted keys. */
  keys: 64,
  /** One key file. */
  keyFileBytes: 16 * KiB,
  /** The file of one role. */
  roleFileBytes: 64 * KiB,
  /** Keys of one role: those of its file, and those that count of the keys that bundles brought. */
  roleKeys: 64,
  /** Streams of one role, and repositories of one role. */
  rolePatterns: 64,
  /** `contents.json`: 2,000 images with ten layers of their own each take 7 MiB. */
  contentsBytes: 16 * MiB,
  /**
   * The size of `contents.json` that a payload may name. Larger than what is read, since payloads
   * that were stored before stay readable.
   */
  contentsPointerBytes: 64 * MiB,
  /** `index.json` of the layout: one entry for each tag of 2,000 images fits several times. */
  indexBytes: 16 * MiB,
  /** An image manifest, an image index within the layout, or an image config. */
  manifestBytes: 4 * MiB,
  /**
   * Members and elements in all of `contents.json`, or of `index.json`. Parsed they take at most
   * some 50 MiB of memory.
   */
  treeItems: 500_000,
  /** Members and elements in all of any other JSON document. */
  documentItems: 100_000,
  /** Objects and arrays within each other, in any JSON document. */
  jsonDepth: 64,
  /** Images of a bundle. */
  images: 2000,
  /** Layers of a bundle, each counted once. */
  layers: 20_000,
  /** Layers of all images, each counted for each image that has it. */
  layerUses: 50_000,
  /** Tags of all images. */
  tags: 20_000,
  /** Blobs of all tags that are attached to images. */
  attachedBlobsInAll: 20_000,
  /** Layers of one image, as overlay mounts allow. */
  layersPerImage: 127,
  /** Tags attached to one image: three kinds, for an index and for its manifest. */
  attachedTags: 6,
  /**
   * Blobs of an attached tag, a config and a layer for each signature; each of at most
   * `manifestBytes`.
   */
  attachedBlobs: 128,
  /** How long a rollout takes: a year. What is to take longer is no rollout but two releases. */
  rolloutMinutes: 366 * 24 * 60,
  /** A repository, a component, an attachment. */
  nameBytes: 255,
  /** Attachments, advisories, warnings and annotations of a payload, each. */
  payloadItems: 256,
  /** A free text of the payload. */
  textLength: 1024,
  /**
   * A blob of a bundle that is made, unless asked otherwise: the largest file that FAT can hold.
   */
  blobBytes: 4 * 1024 * MiB - 1,
  /**
   * A blob of a bundle in tar form that is made: what the size field of a ustar header holds,
   * eleven octal digits.
   */
  tarMemberBytes: 8 ** 11 - 1,
  /** `oci-layout`. */
  layoutBytes: 4 * KiB,
  /** Members of a bundle in tar form. */
  tarMembers: 500_000,
  /** Directory entries among which a file is sought by a name that is written otherwise. */
  entriesSought: 10_000,
  /** Directory entries looked at in one folder of a medium. */
  folderEntries: 1000,
} as const;
