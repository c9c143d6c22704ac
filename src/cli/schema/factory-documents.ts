import * as v from 'valibot';
import { JSON_SCHEMA_VERSION } from '../../domain/report/status-schema.ts';
import { time } from './documents.ts';

const text = v.string();
const texts = v.array(text);
const yes = v.boolean();
const count = v.pipe(v.number(), v.integer(), v.minValue(0));
const schemaVersion = v.literal(JSON_SCHEMA_VERSION);

function document<Entries extends v.ObjectEntries>(entries: Entries) {
  return v.strictObject({ schemaVersion, ...entries });
}

/** A document of the bundle format, as it was signed: docs/bundle-format.md says what is in it. */
const signed = v.looseObject({});
const blob = v.strictObject({
  digest: text,
  why: v.picklist(['absent', 'truncated', 'damaged']),
  file: v.optional(text),
  detail: v.optional(text),
});
const inBase = v.strictObject({ digest: text, why: v.literal('in-base') });
const release = { bundleId: text, name: text, version: text };
const use = v.strictObject({ bytes: count, inodes: count });
const fault = v.strictObject({ code: text, message: text });

/** The result for one bundle. A payload that expires has `expired` and `judgedAt`. */
const verified = {
  verified: yes,
  ...release,
  arch: text,
  sequence: count,
  signedBy: texts,
  blobs: count,
  base: v.optional(v.strictObject({ bundleId: text, blobs: count, unchecked: count })),
  missing: v.array(blob),
  /** Images that some container runtimes can't use, and why. */
  warnings: v.optional(texts),
  expires: v.optional(text),
  expired: v.optional(yes),
  judgedAt: v.optional(time),
};

const rehearsed = v.strictObject({
  loads: yes,
  verified: yes,
  ...release,
  arch: text,
  durationMs: count,
  images: v.array(v.strictObject({ reference: text, newBytes: count, durationMs: count, fault: v.optional(text) })),
  need: v.strictObject({
    /** Bytes of the unpacked files, and their number. */
    diskBytes: count,
    inodes: count,
    /** Bytes of the blobs. */
    sizeBytes: count,
    /** The stored size at the end, including other files of the runtime. */
    stored: v.strictObject({ 'cri-o': use, containerd: use }),
    stagingBytes: count,
    /** Size of one filesystem for images and staging. */
    filesystemBytes: v.strictObject({ 'cri-o': count, containerd: count }),
  }),
  warnings: v.optional(texts),
  fault: v.optional(fault),
  /** Bad blobs with their images; no images for a manifest or a config. */
  blobs: v.optional(v.array(v.strictObject({ digest: text, why: text, images: texts }))),
  schemaVersion,
});

/**
 * `fetchBytes` is absent if it comes from a file, and 0 if it is in the cache. `inBaseBytes` are
 * left to the base.
 */
const planned = v.strictObject({
  reference: text,
  tags: texts,
  platform: text,
  layers: count,
  sizeBytes: count,
  fetchBytes: v.optional(count),
  inBaseBytes: count,
});

/** `digest` is that of the index in the registry. */
const linked = { reference: text, digest: text, bundleId: text, blobs: count };

/**
 * What commands of the factory, and `config show`, print with `--json`, by the name of the command.
 * See `NODE_DOCUMENTS`.
 */
export const FACTORY_DOCUMENTS = {
  keygen: document({
    privatePath: text,
    publicPath: text,
    algorithm: v.picklist(['ed25519', 'ecdsa-p256']),
    keyId: text,
  }),
  'bundle-create': document({
    path: text,
    /** How many directories or images it is spread over. */
    volumes: v.optional(count),
    bundleId: text,
    payload: signed,
    /** Digests of the sources that were given by a name, by that name. */
    resolved: v.record(text, text),
  }),
  /** `--dry-run` prints it. `signing` names files and commands as they are given. */
  'bundle-create-plan': document({
    path: text,
    name: text,
    version: text,
    arch: text,
    sequence: count,
    images: v.array(planned),
    artifacts: v.array(planned),
    fetchBytes: count,
    /** All files of the bundle, but for some kilobytes. */
    bundleBytes: count,
    signing: v.strictObject({ keys: texts, signers: texts }),
    warnings: texts,
  }),
  'bundle-sign': document({ path: text, paths: texts, keyId: text, signatures: texts }),
  'bundle-inspect': document({
    verified: v.literal(false),
    bundleId: text,
    signatures: texts,
    payload: signed,
    contents: signed,
    leftToBase: texts,
    missing: v.array(blob),
    /** It is present with `--sbom`: `file` is its name in that folder. */
    sboms: v.optional(v.array(v.strictObject({ file: text, image: text, format: text, sizeBytes: count }))),
  }),
  /** A bundle, or all bundles on a stick. A bundle that is not verified has `why`. */
  'bundle-verify': v.union([
    document({ ...verified }),
    document({
      bundles: v.array(
        v.union([
          v.strictObject({ path: text, ...verified, why: v.optional(text) }),
          v.strictObject({ path: text, verified: v.literal(false), why: text }),
        ]),
      ),
    }),
  ]),
  'bundle-envelope': document({
    path: text,
    bundleId: text,
    files: count,
    sizeBytes: count,
    registries: texts,
  }),
  'bundle-write': document({ path: text, device: text, imageBytes: count }),
  'bundle-push': document({ ...linked, sentBlobs: count, sentBytes: count }),
  'bundle-pull': document({
    ...linked,
    path: text,
    verified: yes,
    signedBy: texts,
    pulledBlobs: count,
    pulledBytes: count,
  }),
  'bundle-rehearse': rehearsed,
  'bundle-serve': document({
    listen: text,
    ...release,
    verified: yes,
    signedBy: texts,
    missing: v.array(v.union([blob, inBase])),
    repositories: v.array(v.strictObject({ name: text, paths: texts, tags: texts })),
  }),
  /** Each section with its settings, as in stickpin.toml. */
  'config-show': v.objectWithRest({ schemaVersion }, v.record(text, v.unknown())),
};

type Printed<T> = T extends readonly (infer One)[]
  ? readonly Printed<One>[]
  : T extends object
    ? string extends keyof T
      ? object
      : { readonly [Name in keyof T as Exclude<Name, 'schemaVersion'>]: Printed<T[Name]> }
    : T;

/** The document of a command as its schema says, without its `schemaVersion`. */
export type FactoryDocument<Name extends keyof typeof FACTORY_DOCUMENTS> = Printed<
  v.InferInput<(typeof FACTORY_DOCUMENTS)[Name]>
>;
