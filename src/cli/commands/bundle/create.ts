import { type Command, InvalidArgumentError, Option } from 'commander';
import { bundleError } from '../../../bundle/bundle-error.ts';
import { createBundle } from '../../../bundle/create/create-bundle.ts';
import type { CreateOptions } from '../../../bundle/create/create-options.ts';
import { IMAGE_FILESYSTEMS, type ImageFilesystem } from '../../../bundle/create/image/image-layout.ts';
import { parseAttachmentRequest } from '../../../bundle/create/payload/attachments.ts';
import { architectures } from '../../../bundle/format/schema.ts';
import { bundleTitle } from '../../../domain/model/bundle.ts';
import { AppError, reasonOf } from '../../../platform/app-error.ts';
import { formatBytes, formatCount } from '../../../platform/sizes.ts';
import { volumesOfNamed } from '../../context/bundle-argument.ts';
import type { CommandContext } from '../../context/command-context.ts';
import { addSigningOptions, readSigningKeys, type SigningOptions } from '../../context/signing-options.ts';
import { jsonText } from '../../output/json.ts';
import { printStderrLine, printWarning } from '../../output/stderr-line.ts';
import { wrapLines } from '../../output/wrap-words.ts';
import { createProgressPrinter } from './create-progress.ts';
import { addImageOptions, type ImageOptions, readImageOptions } from './image-options.ts';
import { addOpenshiftOption, type BundleName, type NameOptions, withBundleName } from './openshift-options.ts';
import { addReleaseOptions, type ReleaseOptions, readReleaseOptions } from './release-options.ts';

interface BundleCreateOptions extends ReleaseOptions, ImageOptions, SigningOptions, NameOptions {
  readonly sequence: number;
  readonly out: string;
  readonly manifests: readonly string[];
  readonly attach: readonly string[];
  readonly volumeSize?: number;
  readonly allowLargeBlobs?: true;
  readonly filesystem?: ImageFilesystem;
  readonly base?: string;
  readonly json?: true;
}

/** Adds `create` to the command `bundle`. */
export function registerBundleCreate(bundle: Command, context: CommandContext): void {
  const command = bundle
    .command('create')
    .description('make a bundle of images, for one platform')
    .option('--name <name>', 'release stream, for example ocp; required')
    .option('--version <version>', 'SemVer, or <app>[-rev<N>[-b<build>]]; required')
    .addOption(new Option('--arch <arch>', 'architecture of the nodes; required').choices(architectures))
    .requiredOption('--sequence <number>', 'anti-rollback counter of the stream, higher with every bundle', wholeNumber)
    .requiredOption(
      '--out <dir>',
      'the bundle directory to make, or FILE.stickpin.tar, or FILE.img with --filesystem; must not exist, or must be an empty directory',
    )
    .addOption(
      new Option(
        '--filesystem <name>',
        'make the image of a stick with this filesystem, which any program can write to a stick; needs dosfstools and mtools for vfat, e2fsprogs for ext4, but no root',
      ).choices([...IMAGE_FILESYSTEMS]),
    );
  addImageOptions(addOpenshiftOption(command))
    .option(
      '--manifests <dir>',
      'compare the Kubernetes manifests in this folder (*.yaml, *.yml, *.json) with the bundle, and warn of images that do not match; may be repeated',
      collect,
      [],
    )
    .option('--strict', 'make every warning about the bundle an error: then nothing is written')
    .option(
      '--attach <file[:mediatype]>',
      'a file that is installed on the node with the release; same size limit as a layer (default type application/octet-stream); may be repeated',
      collect,
      [],
    )
    .option('--base <bundle>', 'leave out the layers of this bundle: a delta for nodes that have it')
    .option(
      '--volume-size <size>',
      'spread it over <dir>/1, <dir>/2 … of at most this size each, for example 15GB or 7GiB; with --filesystem over images <dir>/1.img, <dir>/2.img …',
      sizeInBytes,
    )
    .option('--allow-large-blobs', 'allow layers of 4 GiB and more, for sticks with exFAT or ext4');
  addReleaseOptions(addSigningOptions(command, 'several'))
    .option('--json', 'print as JSON')
    .action(async (options: BundleCreateOptions) => {
      // A person is asked for passphrases before long work.
      const keys = await readSigningKeys(options, context);
      await withBundleName(options, command, context, (name) => create(options, { ...name, keys }, context));
    });
}

async function create(
  options: BundleCreateOptions,
  name: BundleName & Pick<CreateOptions, 'keys'>,
  context: CommandContext,
): Promise<void> {
  const { onProgress, clear } = createProgressPrinter(context);
  const release = await readReleaseOptions(options, context.signal);
  const wanted = await readImageOptions(options, context);
  const made = await createBundle(
    {
      out: options.out,
      name: name.name,
      version: name.version,
      arch: name.arch,
      sequence: options.sequence,
      created: createdAt(context),
      ...release,
      ...(options.volumeSize !== undefined && { volumeBytes: options.volumeSize }),
      ...(options.allowLargeBlobs && { allowLargeBlobs: true }),
      ...(options.filesystem !== undefined && { filesystem: options.filesystem }),
      ...(options.base !== undefined && { base: await findBase(options.base) }),
      ...wanted,
      ...(name.release !== undefined && { release: name.release }),
      notes: [...(wanted.notes ?? []), ...(name.notes ?? [])],
      manifests: options.manifests,
      ...(options.strict && { strict: true }),
      attachments: options.attach.map(parseAttachmentRequest),
      keys: name.keys,
      ...(!options.json && { onProgress }),
    },
    context.signal,
  ).finally(clear);
  const { payload, bundleId, path, resolved, volumes, warnings } = made;
  if (!options.json) for (const [name, digest] of resolved) printStderrLine(`${name} is ${digest}`, undefined, context);
  for (const warning of warnings) printWarning(warning, context);
  if (options.key.length + options.signer.length === 0) printWarning(unsignedWarning(path, options), context);
  if (options.json) {
    context.stdout(jsonText({ path, volumes, bundleId, payload, resolved: Object.fromEntries(resolved) }));
    return;
  }
  const { images, blobs, sizeBytes } = payload.totals;
  const text = `${bundleTitle(payload)} for ${payload.arch} is in ${placeOf(path, volumes, options)}: ${formatCount(images, 'image')}, ${formatCount(blobs, 'blob')}, ${formatBytes(sizeBytes)}\n${bundleId}\n`;
  context.stdout(wrapLines(text, context.columns, 4));
}

/**
 * A volume of the bundle at `path`, or the bundle itself: each volume lists all layers. @throws
 * AppError `bundle/option`
 */
async function findBase(path: string): Promise<string> {
  const [first] = await volumesOfNamed(path).catch((cause: unknown) => {
    throw bundleError('bundle/option', `base: ${reasonOf(cause)}`, { cause });
  });
  return first;
}

function placeOf(path: string, volumes: number | undefined, { filesystem }: BundleCreateOptions): string {
  if (volumes === undefined) return path;
  const end = filesystem === undefined ? '' : '.img';
  return volumes === 1 ? `${path}/1${end}` : `${path}/1${end} to ${path}/${volumes}${end}`;
}

function unsignedWarning(path: string, { filesystem }: BundleCreateOptions): string {
  return filesystem === undefined
    ? `not signed yet: stickpin bundle sign ${path} --key FILE`
    : 'not signed, and a bundle in an image can not be signed later: make it again with --key FILE';
}

/**
 * The current time, or SOURCE_DATE_EPOCH (reproducible-builds.org), so that the same images give
 * the same bundle.
 */
function createdAt({ env, now }: CommandContext): string {
  const epoch = env.SOURCE_DATE_EPOCH;
  if (epoch !== undefined && !/^[0-9]{1,11}$/.test(epoch)) {
    throw new AppError({
      code: 'bundle/option',
      message: `SOURCE_DATE_EPOCH is '${epoch}', and must be seconds since 1970`,
      disposition: 'reject',
    });
  }
  const ms = epoch === undefined ? now() : Number(epoch) * 1000;
  return new Date(ms).toISOString().replace(/\.\d{3}Z$/, 'Z');
}

function wholeNumber(text: string): number {
  if (!/^[0-9]{1,15}$/.test(text)) throw new InvalidArgumentError('It must be a whole number of at most 15 digits.');
  return Number(text);
}

const UNITS: Readonly<Record<string, number>> = {
  B: 1,
  MB: 1e6,
  GB: 1e9,
  TB: 1e12,
  MiB: 1024 ** 2,
  GiB: 1024 ** 3,
  TiB: 1024 ** 4,
};

function sizeInBytes(text: string): number {
  const [, number, unit = 'B'] = /^([0-9]{1,12}(?:\.[0-9]{1,3})?) ?(B|[MGT]i?B)?$/.exec(text) ?? [];
  if (number === undefined) throw new InvalidArgumentError('It must be a size as 15GB or 7GiB.');
  return Math.floor(Number(number) * (UNITS[unit] ?? 1));
}

function collect(value: string, earlier: readonly string[]): string[] {
  return [...earlier, value];
}
