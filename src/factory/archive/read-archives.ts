import { readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { bundleError } from '../../bundle/bundle-error.ts';
import type { ImageRequest } from '../../bundle/image-request.ts';
import { limits } from '../../bundle/limits.ts';
import type { Digest } from '../../domain/model/digest.ts';
import { formatReference, type Reference } from '../../domain/model/reference.ts';
import { defined } from '../../platform/defined.ts';
import { digestOf } from '../../platform/digest.ts';
import { oneLine } from '../../platform/plain-text.ts';
import { formatCount } from '../../platform/sizes.ts';
import type { ReferrerChoice } from '../images/attached.ts';
import { layoutBlobPath, REF_NAME } from '../images/layout-source.ts';
import { NamePattern } from '../images/name-pattern.ts';
import type { LayoutRequest } from '../images/plan-images.ts';
import { countBytes, type ProgressListener } from '../progress.ts';
import { type ArchiveImage, type ArchiveIndex, archiveIndexOf } from './archive-index.ts';
import { badArchive, piecesOf, unpackArchive } from './unpack-archive.ts';

/** Patterns of full names: `*` stands for any text. */
export interface ArchiveChoice {
  /** Default: all. */
  readonly only?: readonly string[];
  readonly except?: readonly string[];
  /** Patterns of `except` that an image of manifests fits. */
  readonly exceptedElsewhere?: readonly string[];
}

/** `digest`: of the image. */
interface ArchiveRequest extends LayoutRequest {
  readonly digest: Digest;
}

/**
 * Unpacks archives, or links to folders with an OCI layout, each into a layout below `folder`,
 * which the caller removes, and requests their chosen images. Notes name other content.
 *
 * @throws AppError `bundle/source`, `bundle/no-space`
 */
export async function readArchives(
  archives: readonly string[],
  {
    folder,
    arch,
    choice,
    referrers,
    registry,
    onProgress,
  }: {
    readonly folder: string;
    readonly arch: string;
    readonly choice: ArchiveChoice;
    readonly referrers: ReferrerChoice;
    /** The registry of images in the storage of a registry. */
    readonly registry?: string | undefined;
    readonly onProgress: ProgressListener;
  },
  signal: AbortSignal,
): Promise<{ readonly requests: readonly ArchiveRequest[]; readonly notes: readonly string[] }> {
  let totalBytes = 0;
  for (const path of archives) {
    for (const piece of await piecesOf(path)) totalBytes += (await stat(piece).catch(() => undefined))?.size ?? 0;
  }
  const chosenNames = new NameChoice(choice);
  const onBytes = countBytes('unpack', totalBytes, onProgress);
  const requests: ArchiveRequest[] = [];
  const notes: string[] = [];
  for (const [at, path] of archives.entries()) {
    const directory = join(folder, String(at));
    const members = await unpackArchive(path, directory, onBytes, signal);
    const read = async (digest: Digest, maxBytes: number) => {
      const file = layoutBlobPath(directory, digest);
      const { size } = await stat(file);
      if (size > maxBytes) throw badArchive(path, `its list of images has ${size} bytes, and ${maxBytes} are allowed`);
      const bytes = await readFile(file, { signal });
      // The blobs of a folder were not read before, and nothing else of it may get into a message.
      if (digestOf(bytes) !== digest) throw badArchive(path, `${digest} is damaged`);
      return bytes;
    };
    const { images, attached, made, ...others } = await archiveIndexOf(members, { choice: referrers, registry, read });
    for (const [digest, bytes] of made) await writeFile(layoutBlobPath(directory, digest), bytes);
    const [unnamed] = others.unnamed;
    if (images.length === 0 && unnamed !== undefined) {
      throw badArchive(path, `${unnamed.what} has no full name: ${unnamed.advice}`);
    }
    notes.push(...leftOutNotes(path, others));
    if (images.length === 0) throw badArchive(path, 'it lists no image');
    const chosen = chooseImages(chosenNames.of(images), arch, path);
    const stored = new Set([...made.keys(), ...[...members.files.values()].map(({ digest }) => digest)]);
    const lacking = chosen.find(({ descriptor }) => !stored.has(descriptor.digest));
    if (lacking !== undefined) {
      throw badArchive(path, `it lacks ${lacking.descriptor.digest} of ${formatReference(lacking.reference)}`);
    }
    const manifests = [...chosen, ...attached].map(({ descriptor, reference }) => ({
      ...descriptor,
      ...(reference !== undefined && { annotations: { [REF_NAME]: formatReference(reference) } }),
    }));
    await writeFile(join(directory, 'index.json'), JSON.stringify({ schemaVersion: 2, manifests }));
    for (const [position, { reference, descriptor, isArtifact = false }] of chosen.entries()) {
      const selector = { kind: 'position', position } as const;
      requests.push({
        reference,
        directory,
        selector,
        isDisposable: members.isOwn,
        origin: path,
        place: `archive ${path}`,
        isArtifact,
        digest: descriptor.digest,
      });
    }
  }
  return { requests, notes: [...notes, ...chosenNames.end()] };
}

/**
 * Tells requests that archives fulfil from those that must be fetched. A request finds its image by
 * its digest, or else by its tag, and keeps its place, its component and whether it is pinned.
 */
export function takeCarried<Request extends Omit<ImageRequest, 'source'>>(
  wanted: readonly Request[],
  carried: readonly ArchiveRequest[],
): { readonly toFetch: readonly Request[]; readonly carried: readonly LayoutRequest[] } {
  const keyOf = ({ repository, tag, digest }: Reference) =>
    formatReference(digest === undefined ? { repository, ...defined({ tag }) } : { repository, digest });
  const byDigest = (one: ArchiveRequest) => keyOf({ ...one.reference, digest: one.digest });
  const known = new Map(carried.flatMap((one) => [byDigest(one), keyOf(one.reference)].map((key) => [key, one])));
  const toFetch: Request[] = [];
  const listed: LayoutRequest[] = [];
  const pins = new Map<string, boolean>();
  for (const request of wanted) {
    const found = request.isReplaceable ? known.get(keyOf(request.reference)) : undefined;
    if (found === undefined) toFetch.push(request);
    else {
      const { reference, component, pin, origin } = request;
      listed.push({ ...found, reference, ...defined({ component, pin, origin }) });
      if (pin !== undefined) pins.set(byDigest(found), pin);
    }
  }
  const names = new Set(listed.map(({ reference }) => formatReference(reference)));
  const others = carried
    .filter(({ reference }) => !names.has(formatReference(reference)))
    .map((one) => ({ ...one, ...defined({ pin: pins.get(byDigest(one)) }) }));
  return { toFetch, carried: [...listed, ...others] };
}

/** Chooses names by `--only` and `--except`. */
class NameChoice {
  private readonly only: readonly NamePattern[];
  private readonly except: readonly NamePattern[];
  private readonly elsewhere: readonly string[];
  private leftOut = 0;

  constructor({ only = [], except = [], exceptedElsewhere = [] }: ArchiveChoice) {
    this.only = only.map((text) => new NamePattern(text));
    this.except = except.map((text) => new NamePattern(text));
    this.elsewhere = exceptedElsewhere;
  }

  of(images: readonly ArchiveImage[]): readonly ArchiveImage[] {
    const chosen = images.filter(({ reference }) => {
      const name = formatReference(reference);
      // Each pattern is tried, so that end() knows of those that fit nothing.
      const isWanted = this.only.filter((pattern) => pattern.fits(name)).length > 0 || this.only.length === 0;
      return this.except.filter((pattern) => pattern.fits(name)).length === 0 && isWanted;
    });
    this.leftOut += images.length - chosen.length;
    return chosen;
  }

  /** Notes. @throws AppError `bundle/option` for a pattern of `--only` that no image fits */
  end(): readonly string[] {
    const unused = this.only.find(({ isUsed }) => !isUsed);
    if (unused !== undefined)
      throw bundleError('bundle/option', `--only ${unused.text}: no image of the archives fits`);
    const notes = this.except
      .filter(({ isUsed, text }) => !isUsed && !this.elsewhere.includes(text))
      .map(({ text }) => `--except ${text} fits no image`);
    if (this.leftOut > 0) notes.push(`${formatCount(this.leftOut, 'name')} in archives left out by --only or --except`);
    return notes;
  }
}

const MAX_NAMED = 20;
const MAX_TEXT = 400;

function leftOutNotes(path: string, { leftOut, unnamed }: Pick<ArchiveIndex, 'leftOut' | 'unnamed'>): string[] {
  const advices = [...new Set(unnamed.map(({ advice }) => advice))];
  const withAdvice = (advice: string) => unnamed.filter((one) => one.advice === advice).map(({ what }) => what);
  return [
    ...leftOutNote(path, leftOut, { is: 'is no image, and is', are: 'are no images, and are' }),
    ...advices.flatMap((advice) =>
      leftOutNote(path, withAdvice(advice), {
        is: 'has no full name, and is',
        are: 'have no full names, and are',
        advice: `: ${advice}`,
      }),
    ),
  ];
}

function leftOutNote(
  path: string,
  leftOut: readonly string[],
  { is, are, advice = '' }: { readonly is: string; readonly are: string; readonly advice?: string },
): string[] {
  if (leftOut.length === 0) return [];
  const shown = leftOut.slice(0, MAX_NAMED).map((one) => one.slice(0, MAX_TEXT));
  const more = leftOut.length > MAX_NAMED ? ` and ${leftOut.length - MAX_NAMED} more` : '';
  return [oneLine(`archive ${path}: ${shown.join(', ')}${more} ${leftOut.length === 1 ? is : are} left out${advice}`)];
}

/** If several images have one name, takes that for `arch`. @throws AppError `bundle/source` */
function chooseImages(images: readonly ArchiveImage[], arch: string, path: string): ArchiveImage[] {
  const byName = new Map<string, ArchiveImage[]>();
  for (const image of images) {
    const name = formatReference(image.reference);
    const same = byName.get(name);
    if (same === undefined) byName.set(name, [image]);
    else same.push(image);
  }
  if (byName.size > limits.tags) {
    throw badArchive(path, `it lists ${byName.size} names of images, and ${limits.tags} are allowed`);
  }
  return [...byName].map(([name, all]) => {
    const digests = new Set(all.map(({ descriptor }) => descriptor.digest));
    const fitting = digests.size === 1 ? all : all.filter(({ architecture }) => architecture === arch);
    const [first] = fitting;
    if (first !== undefined && new Set(fitting.map(({ descriptor }) => descriptor.digest)).size === 1) return first;
    throw badArchive(path, `${name} names ${digests.size} images, and not just one of them is for ${arch}`);
  });
}
