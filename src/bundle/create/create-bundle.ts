import { mkdir, rm } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import type {
  Advisory,
  Attachment,
  BundleTotals,
  Contents,
  Payload,
  Schedule,
  UpdateRules,
} from '../../domain/model/bundle.ts';
import { type BundleId, type Digest, digestFromHex, hexOf } from '../../domain/model/digest.ts';
import { isFaulty } from '../../domain/model/medium.ts';
import { type ManifestImage, manifestWarnings } from '../../domain/release/manifest-warnings.ts';
import { manifestWarningText } from '../../domain/report/texts/manifest-warning-text.ts';
import { AppError } from '../../platform/app-error.ts';
import { syncFolderIfPossible, writeNewFile } from '../../platform/files/durable-file.ts';
import { bundleError } from '../bundle-error.ts';
import { formatEnvelope } from '../format/dsse.ts';
import { parsePayload } from '../format/schema.ts';
import type { PrivateKey } from '../keys/keys.ts';
import { limits } from '../limits.ts';
import type { BundleReader } from '../read/bundle-reader.ts';
import { checkLayoutFile } from '../read/layout-file.ts';
import { isBundleTar, openBundle } from '../read/open-bundle.ts';
import { readUntrusted } from '../verify/judge-bundle.ts';
import { bundleIdOf } from '../verify/verify-envelope.ts';
import { fetchImages } from './images/fetch-images.ts';
import type { ImageRequest } from './images/image-request.ts';
import { type LayoutRequest, type Plan, planImages } from './images/plan-images.ts';
import { type BaseBundle, baseMembers, baseWarnings, readBase } from './layers/base-bundle.ts';
import { checkBlobSizes, type FileSizeRules } from './layers/blob-sizes.ts';
import type { ProgressListener } from './output/progress.ts';
import { buildDirectory, buildFile, checkSpace } from './output/staging.ts';
import { repeatedBytes, spreadOverVolumes } from './output/volumes.ts';
import { packDirectory } from './output/write-tar.ts';
import {
  type AttachmentRequest,
  checkAttachmentNames,
  checkAttachments,
  writeAttachments,
} from './payload/attachments.ts';
import { readManifests } from './payload/manifests.ts';
import { payloadWarnings } from './payload/payload-warnings.ts';
import { checkReleaseSource, readReleasePayload, requestPayload } from './payload/release-payload.ts';
import { signEnvelope, unsignedEnvelope } from './payload/sign-envelope.ts';
import { jsonBytes, neededBytes, type WrittenTree, writeTree } from './write-bundle.ts';

/**
 * What a new bundle is made of. Texts are as in the payload; they are validated before anything is
 * read.
 */
export interface CreateOptions {
  /**
   * The directory that becomes the bundle; must not be there, or be empty. With a name
   * `*.stickpin.tar`, the tar file; must not be there.
   */
  readonly out: string;
  readonly name: string;
  readonly version: string;
  /** GOARCH. */
  readonly arch: string;
  readonly sequence: number;
  /** RFC 3339. */
  readonly created: string;
  readonly expires?: string;
  /** Without `base`, which follows from {@link base}. */
  readonly update?: Omit<UpdateRules, 'base'>;
  /** Path of a bundle whose layers are left out. */
  readonly base?: string;
  readonly schedule?: Schedule;
  readonly annotations?: Readonly<Record<string, string>>;
  /** About other releases of the stream, each once. */
  readonly advisories?: readonly Advisory[];
  /** Keys that nodes are to trust (PEM, SPKI), and ids of those that never count again. */
  readonly trust?: NonNullable<Payload['trust']>;
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

/** A bundle that was made. */
export interface CreatedBundle {
  readonly path: string;
  readonly bundleId: BundleId;
  readonly payload: Payload;
  readonly contents: Contents;
  /** Over how many directories it is spread; absent where it is not. */
  readonly volumes?: number;
  /** All that was noticed, a line each; the payload holds as many as it may. */
  readonly warnings: readonly string[];
  /** What references without a digest led to. */
  readonly resolved: ReadonlyMap<string, Digest>;
}

/**
 * Makes a bundle, all or nothing. The same options over the same images give the same payload, and
 * the same bytes of a tar.
 *
 * @throws AppError `bundle/option` an option is wrong; `bundle/source` an image is; `bundle/skopeo`
 *   it can't be fetched; `bundle/target`, `bundle/no-space` (`wait`) it can't be written;
 *   `bundle/warnings` (`reject`) there are warnings, and `strict` makes them errors.
 */
export async function createBundle(options: CreateOptions, signal: AbortSignal): Promise<CreatedBundle> {
  checkOptions(options);
  const attachedBytes = await checkAttachments(options.attachments ?? [], sizeRulesOf(options));
  let made: Omit<CreatedBundle, 'path'> | undefined;
  if (isBundleTar(options.out)) {
    await buildFile(options.out, async (staging) => {
      const tree = join(staging, 'tree');
      const file = join(staging, 'new.stickpin.tar');
      await mkdir(tree);
      made = await buildTree(tree, { ...options, attachedBytes }, signal);
      await packDirectory(tree, file, { created: options.created, onProgress: listenerOf(options) }, signal);
      await checkResult(openBundle(file), signal);
      return file;
    });
  } else if (options.volumeBytes !== undefined) {
    const { volumeBytes } = options;
    await buildDirectory(options.out, async (staging) => {
      const tree = join(staging, 'tree');
      await mkdir(tree);
      const built = await buildTree(tree, { ...options, attachedBytes }, signal);
      await checkResult(openBundle(tree), signal);
      const held = built.contents.layers.filter((layer) => !layer.inBase);
      const spread = [...held, ...(built.payload.attachments ?? [])].map(({ digest }) => hexOf(digest));
      made = { ...built, volumes: await spreadOverVolumes(tree, staging, { volumeBytes, spread }, signal) };
    });
  } else {
    await buildDirectory(options.out, async (staging) => {
      made = await buildTree(staging, { ...options, attachedBytes }, signal);
      await checkResult(openBundle(staging), signal);
    });
  }
  if (made === undefined) throw new TypeError('the bundle was put in place before it was built');
  return { path: options.out, ...made };
}

/** Options that were checked. `attachedBytes`: what the attachments have together. */
type CheckedOptions = CreateOptions & { readonly attachedBytes: number };

async function buildTree(
  directory: string,
  options: CheckedOptions,
  signal: AbortSignal,
): Promise<Omit<CreatedBundle, 'path'>> {
  const base = options.base === undefined ? undefined : await readBase(options.base, options.arch, signal);
  const manifests = await readAllManifests(options.manifests ?? [], signal);
  const fetched = join(directory, '.fetched');
  const { requests, notes } = await fetchAll(options, fetched, signal);
  const plan = await planImages(requests, options.arch, signal);
  const unfit = manifestWarnings(manifests, plan.images).map(manifestWarningText);
  const known = [...notes, ...plan.warnings, ...unfit];
  refuseWarnings(known, options);
  await checkPlan(plan, base, options);
  const tree = await writeTree(directory, plan, { onProgress: listenerOf(options), base }, signal);
  await rm(fetched, { recursive: true, force: true });
  const blobs = join(directory, 'blobs', 'sha256');
  const attaching = { ...sizeRulesOf(options), totalBytes: options.attachedBytes, onProgress: listenerOf(options) };
  const attachments = await writeAttachments(blobs, options.attachments ?? [], attaching, signal);
  await syncFolderIfPossible(blobs);
  const warnings = [...known, ...baseWarnings(base, tree.contents)];
  refuseWarnings(warnings, options);
  const based = { ...options, ...baseMembers(base, tree.contents, options) };
  const payload = payloadOf(based, tree, totalsOf(plan, tree.contents, attachments), attachments, warnings);
  const bundleId = await writeEnvelope(directory, payload, options.keys);
  return { bundleId, payload, contents: tree.contents, warnings, resolved: plan.resolved };
}

function sizeRulesOf({ out, allowLargeBlobs = false }: CreateOptions): FileSizeRules {
  return { isTar: isBundleTar(out), allowLargeBlobs };
}

/** @throws AppError `bundle/warnings` (`reject`) when there are any and they are errors */
function refuseWarnings(warnings: readonly string[], { strict = false }: CreateOptions): void {
  if (!strict || warnings.length === 0) return;
  const are = warnings.length === 1 ? '1 warning is an error' : `${warnings.length} warnings are errors`;
  throw bundleError('bundle/warnings', `${are} with --strict, and no bundle was made: ${warnings.join('; ')}`);
}

function listenerOf({ onProgress }: CreateOptions): ProgressListener {
  return onProgress ?? (() => undefined);
}

/**
 * What can't be made shows before gigabytes are copied. @throws AppError `bundle/source`,
 * `bundle/option`, `bundle/no-space`
 */
async function checkPlan(plan: Plan, base: BaseBundle | undefined, options: CheckedOptions): Promise<void> {
  const { out, volumeBytes, attachedBytes } = options;
  const rules = sizeRulesOf(options);
  const leftOut = base?.layers ?? new Map<Digest, unknown>();
  checkBlobSizes(plan, { ...rules, leftOut });
  const toSpread = plan.layers.filter(({ digest }) => !leftOut.has(digest));
  const repeated = volumeBytes === undefined ? 0 : repeatedBytes(toSpread, [...plan.documents.values()], volumeBytes);
  // A tar is packed file by file: what is packed lies there twice.
  const twiceBytes = rules.isTar ? Math.max(largest(plan), attachedBytes) : repeated;
  await checkSpace(dirname(resolve(out)), neededBytes(plan, base) + attachedBytes + twiceBytes);
}

/** Brings all images to disk, those of a release once its payload is known. */
async function fetchAll(
  { images, release, arch, withoutSignatures, onProgress }: CreateOptions,
  folder: string,
  signal: AbortSignal,
): Promise<{ readonly requests: readonly LayoutRequest[]; readonly notes: readonly string[] }> {
  const options = { withSignatures: withoutSignatures !== true, ...(onProgress !== undefined && { onProgress }) };
  const fetch = (wanted: readonly ImageRequest[], part: string) =>
    fetchImages(wanted, arch, join(folder, part), options, signal);
  if (release === undefined) return { requests: await fetch(images, 'images'), notes: [] };
  const [fetched] = await fetch([release], 'release');
  if (fetched === undefined) throw new TypeError('the release was not fetched');
  const payload = await readReleasePayload(fetched, arch, signal);
  const { asked, added } = requestPayload(release, payload, images);
  const others = await fetch([...asked, ...added], 'images');
  return {
    requests: [...others.slice(0, asked.length), fetched, ...others.slice(asked.length)],
    notes: payload.warnings,
  };
}

/** Size in bytes of the largest layer: it lies there twice while a tar is made. */
function largest({ layers }: Plan): number {
  return layers.reduce((most, layer) => Math.max(most, layer.size), 0);
}

async function readAllManifests(directories: readonly string[], signal: AbortSignal): Promise<ManifestImage[]> {
  const found = [];
  for (const directory of directories) found.push(await readManifests(directory, signal));
  return found.flat();
}

async function writeEnvelope(directory: string, payload: Payload, keys: readonly PrivateKey[]): Promise<BundleId> {
  const bytes = jsonBytes(payload);
  if (bytes.length > limits.payloadBytes) {
    throw bundleError(
      'bundle/option',
      `the payload would have ${bytes.length} bytes, and ${limits.payloadBytes} are allowed`,
    );
  }
  const envelope = keys.reduce(signEnvelope, unsignedEnvelope(bytes));
  await writeNewFile(join(directory, 'bundle.dsse.json'), formatEnvelope(envelope));
  return bundleIdOf(bytes);
}

function payloadOf(
  options: Omit<CreateOptions, 'update' | 'annotations'> & Pick<Payload, 'update' | 'annotations'>,
  tree: Pick<WrittenTree, 'indexPointer' | 'contentsPointer'>,
  totals: BundleTotals,
  attachments: readonly Attachment[],
  warnings: readonly string[],
): Payload {
  return {
    schemaVersion: 1,
    name: options.name,
    version: options.version,
    arch: options.arch,
    sequence: options.sequence,
    created: options.created,
    ...(options.expires !== undefined && { expires: options.expires }),
    index: tree.indexPointer,
    contents: tree.contentsPointer,
    totals,
    ...(options.update !== undefined && { update: options.update }),
    ...(options.schedule !== undefined && { schedule: options.schedule }),
    ...(options.advisories !== undefined && { advisories: options.advisories }),
    ...(options.trust !== undefined && { trust: options.trust }),
    ...(attachments.length > 0 && { attachments }),
    ...(warnings.length > 0 && { warnings: payloadWarnings(warnings) }),
    ...(options.annotations !== undefined && { annotations: options.annotations }),
  };
}

/** What is attached counts as such alone, even where it is a blob of an image too. */
function totalsOf(plan: Plan, { layers, images }: Contents, attachments: readonly Attachment[]): BundleTotals {
  const blobs = new Map<Digest, number>(layers.map((layer) => [layer.digest, layer.sizeBytes]));
  for (const [digest, bytes] of plan.documents) blobs.set(digest, bytes.length);
  for (const { digest } of attachments) blobs.delete(digest);
  const sizes = [...blobs.values()];
  return {
    images: images.length,
    blobs: sizes.length,
    sizeBytes: sizes.reduce((sum, size) => sum + size, 0),
    diskBytes: layers.reduce((sum, layer) => sum + layer.diskBytes, 0),
    inodes: layers.reduce((sum, layer) => sum + layer.inodes, 0),
  };
}

/**
 * Runs the reader's own checks over a payload with empty sums, so that a wrong option shows before
 * gigabytes are copied.
 */
function checkOptions(options: CreateOptions): void {
  checkAttachmentNames(options.attachments ?? []);
  const nothing = { digest: digestFromHex('0'.repeat(64)), size: 0 };
  const totals = { images: options.images.length, blobs: 0, sizeBytes: 0, diskBytes: 0, inodes: 0 };
  const attachments = (options.attachments ?? []).map(({ name, mediaType }) => ({ name, mediaType, ...nothing }));
  const draft = payloadOf(options, { indexPointer: nothing, contentsPointer: nothing }, totals, attachments, []);
  try {
    parsePayload(jsonBytes(draft));
  } catch (cause) {
    if (!(cause instanceof AppError)) throw cause;
    throw bundleError('bundle/option', cause.message.replace(/^payload: /, ''), { cause });
  }
  const ends = { expires: options.expires, endOfLife: options.update?.endOfLife };
  for (const [field, time] of Object.entries(ends)) {
    if (time === undefined || Date.parse(time) > Date.parse(options.created)) continue;
    throw bundleError('bundle/option', `${field}: ${time} is not after created, ${options.created}`);
  }
  const own = options.advisories?.find(({ version }) => version === options.version);
  if (own !== undefined) {
    throw bundleError(
      'bundle/option',
      `advisories: ${own.version} is this release itself; say --deadend or --barrier instead`,
    );
  }
  if (options.volumeBytes !== undefined && isBundleTar(options.out)) {
    throw bundleError(
      'bundle/option',
      `out: ${options.out} is one file, and --volume-size makes directories: give a directory`,
    );
  }
  checkOut(options.out);
  if (options.release !== undefined) checkReleaseSource(options.release);
  if (carriesNothing(options)) {
    throw bundleError(
      'bundle/option',
      'no image is given: a bundle needs one at least, or --release, --advisory, --trust-key or --revoke-key',
    );
  }
}

/**
 * @throws AppError `bundle/option` (`reject`) when it is no name, or that of an archive which
 *   nobody would find
 */
function checkOut(out: string): void {
  if (out === '') throw bundleError('bundle/option', 'out: it is empty; name a directory, or FILE.stickpin.tar');
  if (isBundleTar(out) || !/\.(?:tar|tgz|tar\.[a-z0-9]+)\/*$/i.test(out)) return;
  throw bundleError(
    'bundle/option',
    `out: ${out} would be a directory: a bundle as one file is named FILE.stickpin.tar, and is not compressed`,
  );
}

function carriesNothing({ images, release, advisories, trust }: CreateOptions): boolean {
  return images.length === 0 && release === undefined && advisories === undefined && trust === undefined;
}

/** Reads the new bundle as a node would, so that none leaves here that a node would turn down. */
async function checkResult(reader: BundleReader, signal: AbortSignal): Promise<void> {
  await checkLayoutFile(reader, signal);
  const { missing } = await readUntrusted(reader, signal);
  const [first] = missing.filter(isFaulty);
  if (first === undefined) return;
  throw bundleError(
    'bundle/target',
    `the new bundle can't be read back: blob ${first.digest} is ${first.why}; is the medium bad?`,
  );
}
