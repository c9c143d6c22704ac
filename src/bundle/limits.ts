const KiB = 1024;
const MiB = 1024 * KiB;

/** All limits of the bundle format, version 1. Sizes in bytes, the others are counts. */
export const limits = {
  /** `bundle.dsse.json` on the medium. */
  envelopeBytes: MiB,
  /** The payload after base64. */
  payloadBytes: 256 * KiB,
  signatures: 64,
  /** Pairs of a signature and a trusted key that are tried for one envelope. */
  signatureTries: 256,
  /** Keys in a folder of trusted keys. */
  keys: 64,
  keyFileBytes: 16 * KiB,
  roleFileBytes: 64 * KiB,
  /** Each costs some milliseconds, and a payload is parsed in one go. */
  payloadKeys: 8,
  /** Keys of one role: those of its file, and those that bundles added and that count. */
  roleKeys: 64,
  /** Streams of one role, and repositories of one role. */
  rolePatterns: 64,
  /** `contents.json`: 2,000 images with ten unshared layers each take 7 MiB. */
  contentsBytes: 16 * MiB,
  /** Larger than what is read, so that payloads stored earlier stay readable. */
  contentsPointerBytes: 64 * MiB,
  /** `index.json` of the layout: one entry for each tag of 2,000 images fits several times. */
  indexBytes: 16 * MiB,
  /** An image manifest, an image index within the layout, or an image config. */
  manifestBytes: 4 * MiB,
  /**
   * An image config, a name of a label in it, and its user: Docker repeats labels in each list of
   * images and containers, CRI repeats users, and an answer of CRI has at most 16 MiB.
   */
  configBytes: MiB,
  labelNameLength: 1024,
  configUserLength: 255,
  /** Items of `contents.json` or `index.json`. Parsed, they take at most some 50 MiB of memory. */
  treeItems: 500_000,
  /** Members and elements in all of any other JSON document. */
  documentItems: 100_000,
  /** Nesting of objects and arrays, in any JSON document. */
  jsonDepth: 64,
  images: 2000,
  /** Layers of a bundle, each counted once. */
  layers: 20_000,
  /** Layers of all images, each counted for each image that has it. */
  layerUses: 50_000,
  tags: 20_000,
  /** Blobs of all tags that are attached to images. */
  attachedBlobsInAll: 20_000,
  artifacts: 500,
  /** Files of one artifact: a model in parts has some hundred. */
  artifactLayers: 1000,
  /** Layers of one manifest. Overlay mounts allow 500, Docker 125 (docs/runtime-facts.md). */
  layersPerImage: 512,
  /** An index, and those in it that runtimes choose. */
  indexDepth: 4,
  /** Manifests of one image that runtimes choose from; an index and these may have signatures. */
  manifestsPerImage: 5,
  /** Tags attached to one image: four kinds, for an index and for manifests in it. */
  attachedTags: 12,
  /** The manifests, configs and layers of an attached tag, of at most `manifestBytes` each. */
  attachedBlobs: 128,
  /** The duration of a rollout: a year. A longer rollout should be two releases. */
  rolloutMinutes: 366 * 24 * 60,
  /** A repository, a component, an attachment. */
  nameBytes: 255,
  /** Attachments, advisories, warnings and annotations of a payload, each. */
  payloadItems: 256,
  /** A free text of the payload. */
  textLength: 1024,
  /** A blob of a new bundle, unless larger ones are allowed: the largest file that FAT can hold. */
  blobBytes: 4 * 1024 * MiB - 1,
  /**
   * A blob of a new bundle in tar form: the largest size in a ustar header, eleven octal digits.
   */
  tarMemberBytes: 8 ** 11 - 1,
  layoutBytes: 4 * KiB,
  tarMembers: 500_000,
  /** Directory entries that are searched for a name in another case. */
  entriesSought: 10_000,
  /** Directory entries that are read in one folder of a medium. */
  folderEntries: 1000,
  /** Directory entries that are read at the top of a medium, beside its folder `stickpin`. */
  topEntries: 256,
} as const;
