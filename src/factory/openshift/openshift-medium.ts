import type { Stats } from 'node:fs';
import { lstat, readdir, readFile, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import * as v from 'valibot';
import { bundleError } from '../../bundle/bundle-error.ts';
import { parseJson } from '../../bundle/format/json.ts';
import type { ImageRequest } from '../../bundle/image-request.ts';
import type { Digest } from '../../domain/model/digest.ts';
import { formatReference, parseReference, type Reference } from '../../domain/model/reference.ts';
import { reasonOf } from '../../platform/app-error.ts';
import { oneLine } from '../../platform/plain-text.ts';
import {
  checkStoredImage,
  isAttachedTag,
  layoutOfStorage,
  type RegistryStorage,
  readRegistryStorage,
  readStored,
  readStoredBytes,
  type StoredRepository,
} from '../archive/registry-storage.ts';
import { layoutBlobPath, withPlace } from '../images/layout-source.ts';
import { readReleasePayload } from '../payload/release-payload.ts';
import { mirrorParts, unpackMirror } from './mirror-archive.ts';
import { type ExtractedMedium, extractIso, noStorage, partsBelow, unpackParts } from './openshift-iso.ts';
import { type OtherRegistry, otherImages } from './other-images.ts';
import { type ReleaseSignature, readSignatures } from './release-signatures.ts';

export interface OpenshiftRequest {
  /** An ISO image, a drive with one, an archive of oc-mirror, or a folder. */
  readonly path: string;
  /** An empty folder on the filesystem of the bundle. */
  readonly folder: string;
  readonly reference?: Reference;
  readonly version?: string;
  readonly arch?: string;
  readonly registries: readonly OtherRegistry[];
}

export interface OpenshiftRelease {
  readonly request: ImageRequest;
  /** Images that are not of the release. */
  readonly others: readonly ImageRequest[];
  readonly version: string;
  readonly arch: string;
  readonly notes: readonly string[];
  /** All that are on the medium. */
  readonly signatures: readonly ReleaseSignature[];
}

/** Red Hat publishes release images here; clusters know them by this name. */
const PUBLISHED = 'quay.io/openshift-release-dev/ocp-release';

/**
 * The release image is in `…/release-images`, its payload anywhere. Every blob must be present;
 * copying checks digests of layers.
 *
 * @throws AppError `bundle/source` when there is no release, several, or a part is absent or
 *   damaged; `bundle/option` when options contradict the medium; `bundle/tool`; `bundle/no-space`
 */
export async function readOpenshiftMedium(request: OpenshiftRequest, signal: AbortSignal): Promise<OpenshiftRelease> {
  const { path, folder } = request;
  try {
    return await readMedium(request, signal);
  } catch (error) {
    const named = withPlace(error, join(folder, 'iso'), path);
    throw withPlace(named, join(folder, 'layout'), path);
  }
}

/** `upgrade_4.13.7`, `ocp-release-bundle-4.21.5-x86_64`. ISO 9660 cuts it after 32 characters. */
const LABEL = /^(?:upgrade_|ocp-release-bundle-(?=.*-(?:x86|aarch|ppc|s390)))(.+?)(?:-(?:x86|aarch|ppc|s390)[^-]*)?$/;

async function readMedium(request: OpenshiftRequest, signal: AbortSignal): Promise<OpenshiftRelease> {
  const { path, folder } = request;
  const found = await stat(path).catch((cause: unknown) => {
    throw bundleError('bundle/source', `${path} can't be read: ${reasonOf(cause)}`, { cause });
  });
  if (!found.isFile() && !found.isDirectory() && !found.isBlockDevice()) {
    throw bundleError('bundle/source', `${path} is neither a file nor a folder nor a drive`);
  }
  const hasStorage = found.isDirectory() && (await storagesBelow(path)).length > 0;
  const unpacked = hasStorage ? undefined : await unpack(path, found, join(folder, 'iso'), signal);
  const isFolder = unpacked === undefined;
  const medium = unpacked ?? { folder: path, label: '' };
  const root = await findStorage(medium.folder, path);
  const storage = await readRegistryStorage(root, signal);
  const env = await readReleaseEnv(root, medium.folder);
  const statedVersion = env.version ?? LABEL.exec(medium.label)?.[1];
  const release = await chooseRelease(storage, { ...request, statedVersion });
  const reference = { ...nameOf(request.reference, env.image, release), digest: release.digest };
  const directory = join(folder, 'layout');
  await checkStoredImage(storage, release.digest, release.arch, `the release image on ${path}`);
  await layoutOfStorage(storage, directory, !isFolder, signal);
  const laidOut = isFolder ? storage : movedTo(storage, directory);
  const selector = { kind: 'digest', digest: release.digest } as const;
  const { images } = await readReleasePayload({ reference, directory, selector, place: path }, release.arch, signal);
  for (const { component, reference: image } of images) {
    await checkStoredImage(laidOut, image.digest, release.arch, `${component} on ${path}`);
  }
  const signatures = await readMediumSignatures(medium.folder, path, signal);
  const payload = new Set<Digest>([release.digest, ...images.map((image) => image.reference.digest)]);
  const source = { kind: 'layout', directory, isDisposable: !isFolder, place: path } as const;
  const others = await otherImages(laidOut, payload, { ...request, arch: release.arch, source });
  return {
    request: { reference, source: { ...source, selector } },
    others: others.requests,
    version: release.version,
    arch: release.arch,
    notes: [...others.notes, ...signatures.notes],
    signatures: signatures.found,
  };
}

/** Returns undefined for a folder that is the medium itself. */
async function unpack(
  path: string,
  found: Stats,
  to: string,
  signal: AbortSignal,
): Promise<ExtractedMedium | undefined> {
  const archives = await mirrorParts(path, found);
  if (archives.length > 0) return unpackMirror(archives, to, signal);
  if (!found.isDirectory()) return extractIso(path, to, signal);
  const parts = await partsBelow(path);
  return parts.length === 0 ? undefined : unpackParts(parts, to, signal);
}

const isSignatures = (name: string) => name.startsWith('signature');

/** An unreadable signature stops nothing: a note names it. */
async function readMediumSignatures(
  top: string,
  path: string,
  signal: AbortSignal,
): Promise<{ readonly found: readonly ReleaseSignature[]; readonly notes: readonly string[] }> {
  const found: ReleaseSignature[] = [];
  const notes: string[] = [];
  const look = async (folder: string, depth: number): Promise<void> => {
    const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
    for (const entry of entries) {
      const one = join(folder, entry.name);
      if (isSignatures(entry.name) && (entry.isFile() || entry.isDirectory())) {
        const read = await readSignatures(one, signal).catch((error: unknown) => {
          signal.throwIfAborted();
          notes.push(oneLine(`signatures on ${path} can't be used: ${reasonOf(error).replaceAll(top, path)}`));
          return [];
        });
        found.push(...read.map((each) => ({ ...each, place: each.place.replace(top, path) })));
      } else if (entry.isDirectory() && depth < MAX_DEPTH && entry.name !== 'docker') await look(one, depth + 1);
    }
  };
  await look(top, 0);
  return { found, notes };
}

function movedTo(storage: RegistryStorage, directory: string): RegistryStorage {
  const blobs = [...storage.blobs].map(
    ([digest, { sizeBytes }]) => [digest, { path: layoutBlobPath(directory, digest), sizeBytes }] as const,
  );
  return { ...storage, blobs: new Map(blobs) };
}

/** Media have their storage at the root, in `oc-mirror/install` or deeper. */
const MAX_DEPTH = 5;

async function storagesBelow(top: string): Promise<string[]> {
  const found: string[] = [];
  const look = async (folder: string, depth: number): Promise<void> => {
    const storage = join(folder, 'docker', 'registry', 'v2');
    if (await isPlainFolder(storage, top)) {
      found.push(storage);
      return;
    }
    if (depth === MAX_DEPTH) return;
    const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
    for (const entry of entries) if (entry.isDirectory()) await look(join(folder, entry.name), depth + 1);
  };
  await look(top, 0);
  return found;
}

async function findStorage(top: string, path: string): Promise<string> {
  const found = await storagesBelow(top);
  const [first, second] = found;
  if (first === undefined) throw noStorage(path);
  if (second === undefined) return first;
  const names = found.map((one) => one.slice(top.length + 1)).join(', ');
  throw bundleError('bundle/source', `${path} has several storages, ${names}: name the folder of one of them`);
}

async function isPlainFolder(path: string, top: string): Promise<boolean> {
  for (let part = path; part.length > top.length; part = dirname(part)) {
    const found = await lstat(part).catch(() => undefined);
    if (found?.isDirectory() !== true) return false;
  }
  return true;
}

const ENV_BYTES = 64 * 1024;

/** `release.env` beside the storage or in a folder above it: lines `KEY=VALUE`. */
async function readReleaseEnv(
  root: string,
  top: string,
): Promise<{ image?: string | undefined; version?: string | undefined }> {
  for (let folder = root; folder.length >= top.length; folder = dirname(folder)) {
    const path = join(folder, 'release.env');
    const found = await lstat(path).catch(() => undefined);
    if (found === undefined || !found.isFile() || found.size > ENV_BYTES) continue;
    const text = await readFile(path, 'utf8').catch(() => '');
    const value = (key: string) => new RegExp(`^(?:export )?${key}=["']?([^"'\\s]+)["']?\\s*$`, 'm').exec(text)?.[1];
    return { image: value('RELEASE_IMAGE'), version: value('RELEASE_VERSION') };
  }
  return {};
}

interface Candidate {
  readonly digest: Digest;
  readonly tag: string | undefined;
  readonly version: string;
  readonly arch: string;
}

async function chooseRelease(
  storage: RegistryStorage,
  { path, version, arch, statedVersion }: OpenshiftRequest & { readonly statedVersion: string | undefined },
): Promise<Candidate> {
  const stores = storage.repositories.filter(({ name }) => basename(name) === 'release-images');
  const candidates: Candidate[] = [];
  for (const store of stores) {
    for (const [digest, tag] of releasesIn(store)) {
      candidates.push(await describe(storage, { digest, tag }, { path, version, arch, statedVersion }));
    }
  }
  const fitting = candidates.filter((one) => version === undefined || one.version === version);
  const [release, another] = fitting;
  const list = candidates.map((one) => oneLine(`${one.version} (${one.digest})`)).join(', ');
  if (release === undefined) {
    if (candidates.length === 0) {
      throw bundleError('bundle/source', `${path} has no release image: no repository is named …/release-images`);
    }
    throw bundleError('bundle/option', `version: ${version} is not on ${path}, which has ${list}`);
  }
  if (another !== undefined) {
    throw bundleError('bundle/option', `${path} has several releases, ${list}: choose one with --version`);
  }
  return release;
}

/** Tagged ones once each; those without a tag only if none has one. */
function releasesIn({ tags, revisions }: StoredRepository): Map<Digest, string | undefined> {
  const imageTags = [...tags].filter(([tag]) => !isAttachedTag(tag));
  if (imageTags.length === 0) return new Map([...revisions].map((digest) => [digest, undefined]));
  const found = new Map<Digest, string | undefined>();
  for (const [tag, digest] of imageTags) {
    // A tag that is only the digest has no name.
    const name = digest.endsWith(tag) ? undefined : tag;
    found.set(digest, found.get(digest) ?? name);
  }
  return found;
}

const releaseConfig = v.looseObject({
  architecture: v.exactOptional(v.string()),
  config: v.exactOptional(v.looseObject({ Labels: v.nullish(v.record(v.string(), v.string())) })),
});

async function describe(
  storage: RegistryStorage,
  { digest, tag }: { readonly digest: Digest; readonly tag: string | undefined },
  request: {
    readonly path: string;
    readonly version: string | undefined;
    readonly arch: string | undefined;
    readonly statedVersion: string | undefined;
  },
): Promise<Candidate> {
  const what = `the release image on ${request.path}`;
  const { document } = await readStored(storage, digest, what);
  const platforms = document.kind === 'index' ? document.manifests.map(({ platform }) => platform?.architecture) : [];
  const arch = request.arch ?? (platforms.length === 1 ? platforms[0] : undefined);
  if (document.kind === 'index' && arch === undefined) {
    throw bundleError('bundle/option', `arch: ${what} is for ${platforms.join(', ')}: choose one with --arch`);
  }
  const manifest = document.kind === 'manifest' ? document : await checkStoredImage(storage, digest, arch ?? '', what);
  const bytes = await readStoredBytes(storage, manifest.config.digest, what);
  const config = parseJson(bytes, releaseConfig, `config of ${what}`, 'bundle/source');
  const version = config.config?.Labels?.['io.openshift.release'] ?? request.statedVersion ?? request.version;
  const platform = arch ?? config.architecture;
  if (version === undefined) throw unknown('version', what, '4.13.7');
  if (platform === undefined) throw unknown('arch', what, 'amd64');
  return { digest, tag, version, arch: platform };
}

/** The name on nodes: as requested, as in `release.env`, or as published. */
function nameOf(request: Reference | undefined, image: string | undefined, { digest, tag }: Candidate): Reference {
  if (request !== undefined) return request;
  const published = parseReference(tag === undefined ? PUBLISHED : `${PUBLISHED}:${tag}`);
  if (image === undefined) return published;
  const named = parseReference(image);
  if (named.digest === undefined || named.digest === digest) return named;
  const message = `release.env names ${formatReference(named)}, and the medium has ${digest}: it is not complete, or altered`;
  throw bundleError('bundle/source', message);
}

function unknown(field: 'version' | 'arch', what: string, example: string) {
  return bundleError('bundle/option', `${field}: ${what} does not say it: give --${field}, for example ${example}`);
}
