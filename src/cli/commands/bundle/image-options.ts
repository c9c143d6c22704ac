import { isAbsolute, join } from 'node:path';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { bundleError } from '../../../bundle/bundle-error.ts';
import { type ImageRequest, parseImageRequest } from '../../../bundle/image-request.ts';
import { formatReference, isRegistry } from '../../../domain/model/reference.ts';
import type { CreateOptions } from '../../../factory/create-options.ts';
import type { ReferrerChoice } from '../../../factory/images/attached.ts';
import type { ImagesFrom } from '../../../factory/images/images-from.ts';
import type { NamePattern } from '../../../factory/images/name-pattern.ts';
import { type FaultList, reasonOf } from '../../../platform/app-error.ts';
import { defined } from '../../../platform/defined.ts';
import type { CommandContext } from '../../context/command-context.ts';
import { collect, collected, sizeInBytes, textOption } from '../../context/option-values.ts';
import { accessOf, addRegistryOptions, type RegistryOptions } from '../../context/registry-options.ts';
import { printWarning } from '../../output/text.ts';

export interface ImageOptions extends RegistryOptions {
  readonly image: readonly ImageRequest[];
  readonly pauseImage?: ImageRequest;
  readonly imagesFile: readonly string[];
  readonly imagesFrom: readonly string[];
  readonly shortNames?: string;
  readonly archive: readonly string[];
  readonly only: readonly string[];
  readonly except: readonly string[];
  readonly release?: ImageRequest;
  readonly artifact: readonly ImageRequest[];
  readonly referrers: ReferrerChoice;
  readonly withoutSignatures?: true;
  readonly verifyImages?: string;
  readonly strict?: true;
  /** False with `--no-cache`. */
  readonly cache?: string | false;
  readonly cacheSize: number;
}

/** All of {@link ImageOptions} but `--strict`. */
export function addImageOptions(command: Command): Command {
  const whole = command
    .option(
      '--image <[component=]ref[=source]>',
      'an image, in load order; source as oci:DIR:TAG or docker://REF (default docker://<ref>, through skopeo); a tag 2.6.2-rev1-b5.1 gives it 2.6.2-rev1 and 2.6.2 too',
      collected(parseImageOption),
      [],
    )
    .option(
      '--pause-image <ref[=source]>',
      'the image of pod sandboxes, under the name in pause_image of CRI-O or sandbox_image of containerd: a node that lacks it starts no pod without a network',
      parseImageOption,
    )
    .option(
      '--images-file <file>',
      'a file with more images, one on each line as for --image; pin=false after an image lets the runtime remove it, # begins a comment; may be repeated',
      collect,
      [],
    )
    .option(
      '--images-from <dir|file|->',
      "the images of all pods in Kubernetes manifests or rendered charts, of operators in what opm render prints, of Compose files and Quadlet units, from their registries: a folder, a file, or - for stdin, as 'helm template … |'; may be repeated",
      collect,
      [],
    )
    .option(
      '--short-names <registry>',
      'the registry of short names (nginx:1.25) in --images-from and --images-file, for example docker.io, and of the images in the storage of a registry; without it they are errors',
      registryName,
    )
    .option(
      '--archive <file|dir>',
      'all images of an archive: docker save, ctr export, the air-gap archives of k3s and RKE2, hauler, zarf; .tar, .tar.gz or .tar.zst, or a folder with an OCI layout or the storage of a registry; may be repeated',
      collect,
      [],
    )
    .option(
      '--only <pattern>',
      "of archives only the images whose whole name fits, with * for any text: '*/rancher/*'; may be repeated",
      collect,
      [],
    )
    .option(
      '--except <pattern>',
      'of archives and of --images-from not the images whose name fits, as it is written or in full; may be repeated',
      collect,
      [],
    )
    .option(
      '--release <ref[=source]>',
      'an OpenShift release image, with all images of its payload; source docker:// (default) or oci:',
      parseImageOption,
    )
    .option(
      '--artifact <ref[=source]>',
      'what has a manifest and is no container image, such as a chart or a model; the node keeps it and serves it on loopback; source as for --image; may be repeated',
      collected(parseArtifactOption),
      [],
    );
  const all = addReferrerOptions(whole.optionsGroup('Signatures and documents of images:'));
  return addCacheOptions(addRegistryOptions(all.optionsGroup('Registries:')));
}

function addCacheOptions(command: Command): Command {
  return command
    .option(
      '--cache <dir>',
      'keep images of registries in this folder, so that the next try fetches only the others (default: stickpin in $XDG_CACHE_HOME or ~/.cache)',
    )
    .option('--no-cache', 'fetch every image, and keep none')
    .addOption(
      new Option('--cache-size <size>', 'remove from the cache what was not used for longest beyond this size')
        .argParser(sizeInBytes)
        .default(DEFAULT_CACHE_BYTES, '50GB'),
    );
}

function addReferrerOptions(command: Command): Command {
  return command
    .addOption(
      new Option(
        '--referrers <which>',
        'what travels of the documents that refer to an image, from registries that list them, layouts and archives: signatures are those of cosign (also sha256-<digest>.sig) and Notary; all adds SBOMs and attestations',
      )
        .choices(['signatures', 'all', 'none'])
        .default('signatures'),
    )
    .addOption(new Option('--without-signatures', 'as --referrers none').conflicts('referrers'))
    .option(
      '--verify-images <policy>',
      'make no bundle unless each image is signed as this file says, in the form of containers-policy.json; needs no more network; the bundle names who signed',
    );
}

/**
 * Warnings go to stderr. An option that can't be read is left out, and its reason added to
 * `faults`: `bundle/option`, `bundle/source`, and with `--strict` `bundle/warnings`.
 */
export async function readImageOptions(options: ImageOptions, faults: FaultList, context: CommandContext) {
  const { readImagePolicy } = await import('../../../factory/verify/policy-file.ts');
  const { untakenNotes } = await import('../../../factory/images/images-from.ts');
  const pause = options.pauseImage === undefined ? [] : [options.pauseImage];
  const named: ImageRequest[] = [...options.image, ...pause];
  for (const path of options.imagesFile) {
    named.push(...((await faults.of(() => readListed(path, options, context))) ?? []));
  }
  const { NamePattern } = await import('../../../factory/images/name-pattern.ts');
  const except = options.except.map((text) => new NamePattern(text));
  const from = await readAllImagesFrom({ ...options, except }, faults, context);
  await faults.of(() => checkChoice(options));
  const path = options.verifyImages;
  const imagePolicy = await faults.of(() => (path === undefined ? path : readImagePolicy(path, context.signal)));
  // A source that is named counts more than the registry of the reference.
  const known = new Set(named.map(({ reference }) => formatReference(reference)));
  const images = [...named, ...from.requests.filter(({ reference }) => !known.has(formatReference(reference)))];
  return {
    images,
    used: from.used,
    notes: [...from.notes, ...untakenNotes(from, images)],
    archives: options.archive,
    archiveChoice: {
      only: options.only,
      except: options.except,
      exceptedElsewhere: except.filter(({ isUsed }) => isUsed).map(({ text }) => text),
    },
    ...defined({ release: options.release, imagePolicy, shortNames: options.shortNames }),
    ...(options.artifact.length > 0 && { artifacts: options.artifact }),
    referrers: options.withoutSignatures ? 'none' : options.referrers,
    access: accessOf(options),
    ...defined({ cache: cacheOf(options, context) }),
  };
}

const DEFAULT_CACHE_BYTES = 50e9;

/** Undefined also for a user without a home. */
function cacheOf({ cache, cacheSize }: ImageOptions, { env }: CommandContext): CreateOptions['cache'] {
  const { XDG_CACHE_HOME: caches = '', HOME: home = '' } = env;
  const parent = isAbsolute(caches) ? caches : isAbsolute(home) ? join(home, '.cache') : undefined;
  if (cache === '') throw bundleError('bundle/option', '--cache needs the path of a folder');
  const directory = cache ?? (parent === undefined ? undefined : join(parent, 'stickpin'));
  return directory === undefined || directory === false ? undefined : { directory, maxBytes: cacheSize };
}

function checkChoice({ only, except, archive, imagesFrom }: ImageOptions): void {
  if (only.length > 0 && archive.length === 0) {
    throw bundleError('bundle/option', '--only chooses among the images of --archive, and none is given');
  }
  if (except.length === 0 || archive.length + imagesFrom.length > 0) return;
  const message = '--except leaves out images of --archive and --images-from, and neither is given';
  throw bundleError('bundle/option', message);
}

async function readAllImagesFrom(
  {
    imagesFrom: sources,
    shortNames,
    except,
  }: Omit<ImageOptions, 'except'> & { readonly except: readonly NamePattern[] },
  faults: FaultList,
  { stdin, signal }: CommandContext,
): Promise<ImagesFrom> {
  const { merged, readImagesFrom } = await import('../../../factory/images/images-from.ts');
  if (sources.filter((source) => source === '-').length > 1) {
    const message = '--images-from - is given twice, and there is one standard input';
    faults.add(bundleError('bundle/option', message));
    return merged([]);
  }
  const found: ImagesFrom[] = [];
  for (const source of sources) {
    const images = await faults.of(() => readImagesFrom({ source, shortNames, except }, stdin, signal));
    if (images !== undefined) found.push(images);
  }
  return merged(found);
}

async function readListed(
  path: string,
  { shortNames, strict }: ImageOptions,
  context: CommandContext,
): Promise<ImageRequest[]> {
  const { readImagesFile } = await import('../../../factory/images/images-file.ts');
  const listed = await readImagesFile(path, context.signal, shortNames);
  if (listed.length > 0) return listed;
  const warning = `${path} lists no image`;
  if (strict)
    throw bundleError('bundle/warnings', `warnings are errors with --strict, and no bundle was made: ${warning}`);
  printWarning(warning, context);
  return listed;
}

const registryName = textOption(isRegistry, 'It must be a registry alone, such as docker.io.');

function parseImageOption(value: string): ImageRequest {
  try {
    return parseImageRequest(value);
  } catch (error) {
    throw new InvalidArgumentError(reasonOf(error));
  }
}

function parseArtifactOption(value: string): ImageRequest {
  const request = parseImageOption(value);
  if (request.component === undefined) return request;
  throw new InvalidArgumentError('It has no component, since no container runs it.');
}
