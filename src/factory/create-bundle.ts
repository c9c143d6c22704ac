import { rm } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { bundleError } from '../bundle/bundle-error.ts';
import type { ImageRequest } from '../bundle/image-request.ts';
import { type BundleReader, checkLayoutFile } from '../bundle/read/bundle-reader.ts';
import { openBundle } from '../bundle/read/open-bundle.ts';
import { documentsIn, findUnfit } from '../bundle/read/unfit-images.ts';
import { readUntrusted } from '../bundle/verify/judge-bundle.ts';
import type { Contents, Payload } from '../domain/model/bundle.ts';
import type { BundleId, Digest } from '../domain/model/digest.ts';
import { isFaulty } from '../domain/model/medium.ts';
import { formatReference } from '../domain/model/reference.ts';
import { looksMistaken } from '../domain/model/version.ts';
import { defined } from '../platform/defined.ts';
import { readArchives, takeCarried } from './archive/read-archives.ts';
import { checkOptions } from './check-options.ts';
import { type CreateOptions, listenerOf, sizeRulesOf } from './create-options.ts';
import { fetchImages } from './images/fetch-images.ts';
import { ImageCache } from './images/image-cache.ts';
import { manifestWarnings } from './images/manifest-warnings.ts';
import { type Manifests, readManifests } from './images/manifests.ts';
import { type LayoutRequest, type Plan, planImages } from './images/plan-images.ts';
import { type BaseBundle, baseMembers, baseOf, baseWarnings, readBase } from './layers/base-bundle.ts';
import { checkBlobSizes } from './layers/packed-file.ts';
import { attachSignatures, type SignatureChoice } from './openshift/release-signatures.ts';
import { fetchPublished } from './openshift/signature-stores.ts';
import { checkSpace, inFolderBeside } from './output/staging.ts';
import { repeatedBytes } from './output/volumes.ts';
import { volumeRules, writeOutput } from './output/write-output.ts';
import { checkAttachments, writeAttachments } from './payload/attachments.ts';
import { formerReleases } from './payload/release-metadata.ts';
import {
  payloadOf,
  type ReadPayload,
  readReleasePayload,
  requestPayload,
  totalsOf,
  writeEnvelope,
} from './payload/release-payload.ts';
import { neededBytes, writeTree } from './write-bundle.ts';

export interface CreatedBundle {
  readonly path: string;
  readonly bundleId: BundleId;
  readonly payload: Payload;
  readonly contents: Contents;
  /** Number of directories or images; absent for one. */
  readonly volumes?: number;
  /** All warnings, one line each; the payload holds as many as its limit allows. */
  readonly warnings: readonly string[];
  readonly resolved: ReadonlyMap<string, Digest>;
}

/**
 * All or nothing. The same options and images give the same payload, tar and image.
 *
 * @throws AppError `bundle/option`, `bundle/source`, `bundle/skopeo`, `bundle/target`,
 *   `bundle/tool`, `bundle/signer`, `bundle/warnings`; `bundle/no-space` (`wait`)
 */
export async function createBundle(options: CreateOptions, signal: AbortSignal): Promise<CreatedBundle> {
  await checkOptions(options);
  const made = await writeOutput(
    options,
    {
      fill: (tree) => buildTree(tree, options, signal),
      check: (path) => checkResult(openBundle(path), signal),
    },
    signal,
  );
  return { path: options.out, ...made };
}

/** What would be in the bundle and what a registry would send. Sizes in bytes. */
export interface BundlePlan extends Plan {
  readonly base: BaseBundle | undefined;
  /** Bytes of each image from a registry that would be fetched, by the digest of the image. */
  readonly unfetched: ReadonlyMap<Digest, number>;
  readonly sizeBytes: number;
}

/**
 * Reads everything but layers, and checks it as {@link createBundle} does. Files are in a hidden
 * folder beside the target meanwhile.
 * @throws AppError as {@link createBundle}
 */
export async function planBundle(options: CreateOptions, signal: AbortSignal): Promise<BundlePlan> {
  await checkOptions(options);
  const unfetched = new Map<Digest, number>();
  return inFolderBeside(options.out, async (folder) => {
    const { plan, base, attachedBytes, warnings } = await prepare(folder, options, unfetched, signal);
    const blobs = new Map(plan.layers.map(({ digest, size }) => [digest, base?.layers.has(digest) ? 0 : size]));
    for (const [digest, bytes] of plan.documents) blobs.set(digest, bytes.length);
    const sizeBytes = [...blobs.values()].reduce((sum, size) => sum + size, attachedBytes);
    return { ...plan, base, unfetched, warnings, sizeBytes };
  });
}

type CheckedOptions = CreateOptions & { readonly attachedBytes: number };

async function buildTree(
  directory: string,
  options: CreateOptions,
  signal: AbortSignal,
): Promise<Omit<CreatedBundle, 'path'>> {
  const prepared = await prepare(directory, options, undefined, signal);
  const { plan, base, files, attachedBytes, from, annotations } = prepared;
  const tree = await writeTree(directory, plan, { onProgress: listenerOf(options), base }, signal);
  const blobs = join(directory, 'blobs', 'sha256');
  const attaching = { ...sizeRulesOf(options), totalBytes: attachedBytes, onProgress: listenerOf(options) };
  const attachments = await writeAttachments(blobs, files, attaching, signal);
  await rm(join(directory, FETCHED), { recursive: true, force: true });
  const warnings = [...prepared.warnings, ...baseWarnings(base, tree.contents)];
  refuseWarnings(warnings, options);
  const update = from === undefined ? options.update : { from, ...options.update };
  const based = { ...options, ...baseMembers(base, tree.contents, defined({ update, annotations })) };
  const payload = payloadOf(based, tree, totalsOf(plan, tree.contents, attachments), attachments, warnings);
  const bundleId = await writeEnvelope(directory, payload, options.keys, signal);
  return { bundleId, payload, contents: tree.contents, warnings, resolved: plan.resolved };
}

const FETCHED = '.fetched';

/** Fetches and checks all that the bundle needs; without layers of registries for `unfetched`. */
async function prepare(
  directory: string,
  options: CreateOptions,
  unfetched: Map<Digest, number> | undefined,
  signal: AbortSignal,
) {
  const baseBundle = options.base === undefined ? undefined : await readBase(options.base, options, signal);
  const manifests = await readAllManifests(options.manifests ?? [], signal);
  // A file may be named twice, for its images and to be compared.
  const ofFiles = new Set([...(options.notes ?? []), ...manifests.notes]);
  const fetched = await fetchAll(options, join(directory, FETCHED), ofFiles, unfetched, signal);
  const { requests, notes, attached, from, used: ofRelease } = fetched;
  const files = [...(options.attachments ?? []), ...attached];
  const attachedBytes = await checkAttachments(files, sizeRulesOf(options));
  const plan = await planImages(requests, options, signal);
  const forRuntimes = await findUnfit(plan.images, options.arch, documentsIn(plan.documents), signal);
  if (forRuntimes.fault !== undefined) throw bundleError('bundle/source', forRuntimes.fault);
  const base = baseOf(baseBundle, plan);
  const annotations = await verifiedBy(options, requests, plan, [...notes, ...plan.warnings]);
  const used = [...(options.used ?? []), ...manifests.images, ...ofRelease];
  const warnings = [
    ...versionWarnings(options, plan),
    ...ofFiles,
    ...notes,
    ...plan.warnings,
    ...manifestWarnings(used, plan.images),
    ...forRuntimes.warnings,
  ];
  refuseWarnings(warnings, options);
  await checkPlan(plan, base, { ...options, attachedBytes });
  return { plan, base, files, attachedBytes, from, annotations, warnings };
}

/** Who signed the images, among the annotations. */
async function verifiedBy(
  { imagePolicy, annotations, arch }: CreateOptions,
  requests: readonly LayoutRequest[],
  plan: Plan,
  notes: readonly string[],
): Promise<Payload['annotations']> {
  if (imagePolicy === undefined) return annotations;
  const { verifyImages } = await import('./verify/verify-images.ts');
  const requested = requests.map(({ reference }) => reference);
  return { ...annotations, ...(await verifyImages(imagePolicy, requested, plan, { arch, notes })) };
}

function versionWarnings({ name, version, versionScheme }: CreateOptions, { images }: Plan): string[] {
  if (versionScheme !== undefined || images.length === 0 || !looksMistaken(version)) return [];
  const order = /^[0-9]/.test(version) ? '' : ', where it comes after every version that begins with a digit';
  return [
    `version ${version} is no SemVer: it sets the version scheme of stream ${name} to three-tag (<app>[-rev<N>[-b<build>]])${order}; write it as 4.13.7, or say that it is meant with --version-scheme three-tag`,
  ];
}

function refuseWarnings(warnings: readonly string[], { strict = false }: CreateOptions): void {
  if (!strict || warnings.length === 0) return;
  const are = warnings.length === 1 ? '1 warning is an error' : `${warnings.length} warnings are errors`;
  throw bundleError('bundle/warnings', `${are} with --strict, and no bundle was made: ${warnings.join('; ')}`);
}

/** Finds what can't be made before gigabytes are copied. */
async function checkPlan(plan: Plan, base: BaseBundle | undefined, options: CheckedOptions): Promise<void> {
  const { out, volumeBytes, filesystem, attachedBytes } = options;
  const rules = sizeRulesOf(options);
  checkBlobSizes(plan, rules, base?.layers);
  const toSpread = plan.layers.filter(({ digest }) => !base?.layers.has(digest));
  const documents = [...plan.documents.values()];
  const repeated =
    volumeBytes === undefined ? 0 : repeatedBytes(toSpread, documents, volumeRules({ filesystem, volumeBytes }));
  // A tar is packed file by file: the file that is being packed is on disk twice. An image is made
  // beside all its files, and one of a volume beside those of its volume.
  const allBytes = toSpread.reduce((sum, { size }) => sum + size, attachedBytes);
  const imageBytes = filesystem === undefined ? 0 : Math.min(allBytes, volumeBytes ?? allBytes);
  const largest = plan.layers.reduce((most, { size }) => Math.max(most, size), attachedBytes);
  const twiceBytes = rules.isTar ? largest : repeated + imageBytes;
  await checkSpace(dirname(resolve(out)), neededBytes(plan, base) + attachedBytes + twiceBytes);
}

/**
 * Fetches all images: those of archives first, those of a release after its payload was read.
 * `ofFiles` and the notes about archives are reported before the first download.
 */
async function fetchAll(
  options: CreateOptions,
  folder: string,
  ofFiles: ReadonlySet<string>,
  unfetched: Map<Digest, number> | undefined,
  signal: AbortSignal,
) {
  const { release, arch, referrers = 'signatures', access = {}, archives = [], archiveChoice: choice = {} } = options;
  const onProgress = listenerOf(options);
  const fetchNotes = new Set<string>();
  const onNote = (note: string) => fetchNotes.add(note);
  const cache = options.cache && (await ImageCache.open(options.cache, options.onWarning ?? (() => undefined)));
  const fetch = async (wanted: readonly ImageRequest[], part: string, attached = referrers) => {
    // The layers of a release list the other images.
    const ofPlan = part === 'release' ? undefined : unfetched;
    const from = { referrers: attached, access, onProgress, onNote, cache, unfetched: ofPlan };
    return fetchImages(wanted, arch, join(folder, part), from, signal).finally(() =>
      unfetched === undefined ? cache?.prune() : undefined,
    );
  };
  const { requests: archived, notes } = await readArchives(
    archives,
    { folder: join(folder, 'archives'), arch, choice, referrers, registry: options.shortNames, onProgress },
    signal,
  );
  const early = [...ofFiles, ...notes];
  refuseWarnings(early, options);
  for (const warning of early) options.onWarning?.(warning);
  const isFor = (artifacts: boolean) => archived.filter(({ isArtifact }) => isArtifact === artifacts);
  const files = takeCarried(options.artifacts ?? [], isFor(true));
  const artifacts = [...files.carried, ...(await fetch(files.toFetch, 'artifacts', 'none')).map(asArtifact)];
  const { toFetch: images, carried: unpacked } = takeCarried(options.images, isFor(false));
  if (release === undefined) {
    const requests = [...(await fetch(images, 'images')), ...unpacked, ...artifacts];
    return { requests, notes: [...notes, ...fetchNotes], attached: [], used: [], from: undefined };
  }
  const [fetched] = await fetch([release], 'release');
  if (fetched === undefined) throw new TypeError('the release was not fetched');
  const payload = await readReleasePayload(fetched, arch, signal);
  const former = formerOf(options, payload, formatReference(release.reference));
  const ofRelease = await signaturesOf(release, payload, options, signal);
  const signed = await attachSignatures(ofRelease, payload.digest, join(folder, 'signatures'), signal);
  const { requested, added } = requestPayload(release, payload, images);
  const others = await fetch([...requested, ...added], 'images');
  return {
    requests: [
      ...others.slice(0, requested.length),
      ...unpacked,
      fetched,
      ...others.slice(requested.length),
      ...artifacts,
    ],
    notes: [...notes, ...fetchNotes, ...payload.warnings, ...former.notes, ...payload.manifests.notes, ...signed.notes],
    attached: signed.attachments,
    used: payload.manifests.images,
    // The versions that the release itself says may update to it.
    from: former.from,
  };
}

/** @throws AppError as `formerReleases()` */
function formerOf(options: CreateOptions, { metadata }: ReadPayload, release: string) {
  if (options.withoutPrevious || metadata === undefined) return { from: undefined, notes: [] };
  const former = formerReleases(metadata, options, release);
  return options.update?.from === undefined ? former : { from: undefined, notes: [] };
}

/** The given signatures, or else the published ones if the release comes from a registry. */
async function signaturesOf(
  { source }: ImageRequest,
  { stores, digest }: ReadPayload,
  { signatures, referrers }: Pick<CreateOptions, 'signatures' | 'referrers'>,
  signal: AbortSignal,
): Promise<SignatureChoice> {
  const given = { found: [], isRequired: false, ...signatures };
  if (given.found.length > 0 || source.kind === 'layout' || stores.length === 0 || referrers === 'none') return given;
  return { ...given, ...(await fetchPublished(stores, digest, signal)) };
}

function asArtifact(request: LayoutRequest): LayoutRequest {
  return { ...request, isArtifact: true };
}

async function readAllManifests(directories: readonly string[], signal: AbortSignal): Promise<Manifests> {
  const found: Manifests[] = [];
  for (const directory of directories) found.push(await readManifests(directory, signal));
  return { images: found.flatMap(({ images }) => images), notes: found.flatMap(({ notes }) => notes) };
}

/** Reads the new bundle as a node would, so that no bundle is made that a node would reject. */
async function checkResult(reader: BundleReader, signal: AbortSignal): Promise<void> {
  await checkLayoutFile(reader, signal);
  const { missing } = await readUntrusted(reader, signal);
  const [first] = missing.filter(isFaulty);
  if (first === undefined) return;
  const message = `the new bundle can't be read back: blob ${first.digest} is ${first.why}; is the medium bad?`;
  throw bundleError('bundle/target', message);
}
