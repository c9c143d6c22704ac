import { rm } from 'node:fs/promises';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { bundleError } from '../../../bundle/bundle-error.ts';
import { architectures } from '../../../bundle/format/schema.ts';
import { parseImageRequest } from '../../../bundle/image-request.ts';
import { bundleTitle } from '../../../domain/model/bundle.ts';
import { STICK_FILESYSTEMS, type StickFilesystem } from '../../../domain/model/machine.ts';
import type { CreatedBundle } from '../../../factory/create-bundle.ts';
import type { CreateOptions } from '../../../factory/create-options.ts';
import { FaultList, reasonOf } from '../../../platform/app-error.ts';
import { defined } from '../../../platform/defined.ts';
import { formatBytes, formatCount } from '../../../platform/sizes.ts';
import type { CommandContext, UsageFaults } from '../../context/command-context.ts';
import { volumesOfNamed } from '../../context/find-shown.ts';
import { collect, numberOption, sizeInBytes, withInput } from '../../context/option-values.ts';
import { addSigningOptions, readSigningKeys, type SigningOptions } from '../../context/signing-options.ts';
import { jsonText, printStderrLine, printWarning, wrapLines } from '../../output/text.ts';
import type { FactoryDocument } from '../../schema/factory-documents.ts';
import { takeConfig } from './config-file.ts';
import { createProgressPrinter } from './create-progress.ts';
import { addImageOptions, type ImageOptions, readImageOptions } from './image-options.ts';
import {
  addOpenshiftOption,
  type BundleName,
  checkMediumOptions,
  type NameOptions,
  readSignatureOptions,
  type SignatureOptions,
  takeMirror,
  withBundleName,
} from './openshift-options.ts';
import { planDocument, planText } from './plan.ts';
import { addReleaseOptions, type ReleaseOptions, readReleaseOptions } from './release-options.ts';

interface BundleCreateOptions extends ReleaseOptions, ImageOptions, SignatureOptions, SigningOptions, NameOptions {
  /** Each once. */
  readonly arch?: readonly string[];
  readonly sequence: number;
  readonly out: string;
  readonly manifests: readonly string[];
  readonly attach: readonly string[];
  readonly volumeSize?: number;
  readonly allowLargeBlobs?: true;
  readonly filesystem?: StickFilesystem;
  readonly base?: string;
  readonly config?: string;
  readonly dryRun?: true;
  readonly json?: true;
}

export function registerBundleCreate(bundle: Command, usage: UsageFaults, context: CommandContext): void {
  const neededName = (option: Option) => usage.unless('fromOpenshiftIso', option);
  const command = bundle
    .command('create')
    .description('make a bundle of images, for one platform, or one for each of several')
    .optionsGroup('The release:')
    .addOption(neededName(new Option('--name <name>', 'release stream, for example ocp; required')))
    .addOption(neededName(new Option('--version <version>', 'SemVer, or <app>[-rev<N>[-b<build>]]; required')))
    .addOption(
      neededName(
        new Option(
          '--arch <arch>',
          'architecture of the nodes, also as x86_64 or aarch64; required; amd64,arm64 makes a bundle for each, OUT-amd64 and OUT-arm64',
        )
          .choices(architectures)
          .argParser(withInput({ kind: 'list' }, architecturesOf)),
      ),
    )
    .requiredOption('--sequence <number>', 'anti-rollback counter of the stream, higher with every bundle', wholeNumber)
    .optionsGroup('The target:')
    .requiredOption(
      '--out <dir>',
      'the bundle directory to make, or FILE.stickpin.tar, or FILE.img with --filesystem; must not exist, or must be an empty directory',
    )
    .addOption(
      new Option(
        '--filesystem <name>',
        'make the image of a stick with this filesystem, which any program can write to a stick; needs dosfstools and mtools for vfat, e2fsprogs for ext4, but no root',
      ).choices([...STICK_FILESYSTEMS]),
    );
  addImageOptions(addOpenshiftOption(command.optionsGroup('Images:')));
  addFileOptions(command.optionsGroup('Manifests and files:'))
    .optionsGroup('The target:')
    .option('--base <bundle>', 'leave out the layers of this bundle: a delta for nodes that have it')
    .option(
      '--volume-size <size>',
      'spread it over <dir>/1, <dir>/2 … of at most this size each, for example 15GB or 7GiB; with --filesystem over images <dir>/1.img, <dir>/2.img …',
      sizeInBytes,
    )
    .option('--allow-large-blobs', 'allow layers of 4 GiB and more, for sticks with exFAT or ext4');
  addReleaseOptions(addSigningOptions(command.optionsGroup('Sign:'), 'several').optionsGroup('Rules:'))
    .optionsGroup('')
    .option(
      '--config <file>',
      'a YAML or JSON file with these options, as {name: shop, imagesFrom: [chart.yaml]}; an option of the command line counts instead of that of the file, and adds to it if it may be repeated; paths count from the folder of the file',
    )
    .option(
      '--dry-run',
      'write nothing: print what would be fetched and made, by the manifests of the images; needs no key',
    )
    .option('--json', 'print as JSON')
    .action(async (options: BundleCreateOptions) => {
      if (options.config !== undefined) await takeConfig(options.config, command, usage, context.signal);
      await takeMirror(command);
      const requested = await readRequest(options, command, usage, context);
      await makeEach(options, context, (part) =>
        withBundleName(part, context, (found) => {
          const request = completed(requested, found, part.out);
          return options.dryRun ? plan(part, request, context) : create(part, request, context);
        }),
      );
    });
  usage.leaveTo(command);
}

function addFileOptions(command: Command): Command {
  return command
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
    );
}

/** Adds what was found on an OpenShift medium. */
function completed(
  requested: Request,
  { onMedium = [], others = [], ...found }: BundleName,
  out: string,
): CreateOptions {
  const notes = [...(requested.notes ?? []), ...(found.notes ?? [])];
  const signatures =
    onMedium.length === 0
      ? requested.signatures
      : { isRequired: false, ...requested.signatures, found: [...(requested.signatures?.found ?? []), ...onMedium] };
  return { ...requested, ...found, ...defined({ signatures }), images: [...requested.images, ...others], out, notes };
}

/** The flags for one bundle. */
type Part = Omit<BundleCreateOptions, 'arch'> & { readonly arch?: string };

function partsOf({ arch, ...options }: BundleCreateOptions): Part[] {
  const [only, ...others] = arch ?? [];
  if (only === undefined) return [options];
  if (others.length === 0) return [{ ...options, arch: only }];
  return [only, ...others].map((one) => ({ ...options, arch: one, out: outFor(options.out, one) }));
}

/** `shop-arm64`, `shop-arm64.stickpin.tar` or `shop-arm64.img`. */
function outFor(out: string, arch: string): string {
  const [, name = out, end = ''] = /^(.+?)(\.stickpin\.tar|\.img)?\/*$/is.exec(out) ?? [];
  return name === '' ? out : `${name}-${arch}${end}`;
}

/** All bundles are made, or none. */
async function makeEach(
  options: BundleCreateOptions,
  { stdout }: CommandContext,
  make: (part: Part) => Promise<string>,
): Promise<void> {
  const made: { readonly out: string; readonly text: string }[] = [];
  try {
    for (const part of partsOf(options)) made.push({ out: part.out, text: await make(part) });
  } catch (error) {
    for (const { out } of options.dryRun ? [] : made) await rm(out, { recursive: true, force: true });
    throw error;
  }
  for (const { text } of made) stdout(text);
}

/** A call without the facts that an OpenShift medium gives. */
type Request = Omit<CreateOptions, 'name' | 'version' | 'arch' | 'onProgress'>;

/** Replaces an image that could not be read, so that the other options can be checked. */
const SOME_IMAGE = parseImageRequest('registry.example.com/image:1');

/**
 * Reports all faults at once. Prompts for passphrases before long work, and only when nothing else
 * is wrong.
 *
 * @throws AppError with the code of the first fault (`reject`)
 */
async function readRequest(
  options: BundleCreateOptions,
  command: Command,
  usage: UsageFaults,
  context: CommandContext,
): Promise<Request> {
  const { checkOptions } = await import('../../../factory/check-options.ts');
  const { parseAttachmentRequest } = await import('../../../factory/payload/attachments.ts');
  const faults = new FaultList();
  for (const message of usage.of(command)) faults.add(bundleError('bundle/option', message));
  const release = await readReleaseOptions(options, faults, context.signal);
  const images = await readImageOptions(options, faults, context);
  const signatures = await readSignatureOptions(options, faults, context.signal);
  const created = await faults.of(() => createdAt(context));
  const base = await faults.of(() => (options.base === undefined ? undefined : findBase(options.base)));
  await faults.of(() => checkMediumOptions(options));
  await faults.of(() => checkSeveral(options));
  const { volumeSize, allowLargeBlobs, filesystem, strict, manifests, attach, withoutPrevious } = options;
  const request = {
    // Replaces what is missing, so that the other options can be checked.
    out: options.out ?? `/nonexistent/bundle${filesystem !== undefined && volumeSize === undefined ? '.img' : ''}`,
    sequence: options.sequence ?? 1,
    created: created ?? '2026-01-01T00:00:00Z',
    ...release,
    ...images,
    ...signatures,
    ...defined({ volumeBytes: volumeSize, allowLargeBlobs, filesystem, base, strict, withoutPrevious }),
    manifests,
    attachments: attach.map(parseAttachmentRequest),
    keys: [],
  } satisfies Request;
  const { name = 'name', version = '1.0.0', fromOpenshiftIso } = options;
  const sources = [options.image, options.imagesFile, options.imagesFrom, options.advisory, options.trustKey].flat();
  const isOpen = fromOpenshiftIso !== undefined || usage.hasWrong(command) || (sources.length > 0 && !faults.isEmpty);
  const checked = { ...request, name, version, images: [...request.images, ...(isOpen ? [SOME_IMAGE] : [])] };
  for (const { arch = 'amd64', out } of partsOf({ ...options, out: request.out })) {
    // Most faults would be those of the first again.
    if (faults.isEmpty || arch === (options.arch?.[0] ?? arch))
      await faults.of(() => checkOptions({ ...checked, arch, out }));
  }
  const keys = options.dryRun ? [] : await faults.of(() => readSigningKeys(options, context, faults.isEmpty));
  faults.throwAny(usage.of(command).length > 0 ? "; see 'stickpin bundle create --help'" : '');
  return { ...request, keys: keys ?? [] };
}

/** Shows progress and warnings while `act` works. */
async function watched<Made extends Pick<CreatedBundle, 'resolved' | 'warnings'>>(
  { json }: Part,
  request: CreateOptions,
  context: CommandContext,
  act: (request: CreateOptions) => Promise<Made>,
): Promise<Made> {
  const { onProgress, clear } = createProgressPrinter(context);
  const printed = new Set<string>();
  const onWarning = (warning: string) => {
    clear();
    printed.add(warning);
    printWarning(warning, context);
  };
  const made = await act({ ...request, onWarning, ...(!json && { onProgress }) }).finally(clear);
  if (!json) for (const [name, digest] of made.resolved) printStderrLine(`${name} is ${digest}`, undefined, context);
  for (const warning of made.warnings) if (!printed.has(warning)) printWarning(warning, context);
  return made;
}

/** @returns what is to be printed */
async function plan(options: Part, request: CreateOptions, context: CommandContext): Promise<string> {
  const { planBundle } = await import('../../../factory/create-bundle.ts');
  const found = await watched(options, request, context, (asked) => planBundle(asked, context.signal));
  const document = planDocument(found, request, options);
  return options.json ? jsonText(document) : planText(document, context);
}

/** @returns what is to be printed */
async function create(options: Part, request: CreateOptions, context: CommandContext): Promise<string> {
  const { createBundle } = await import('../../../factory/create-bundle.ts');
  const made = await watched(options, request, context, (asked) => createBundle(asked, context.signal));
  const { payload, bundleId, path, resolved, volumes } = made;
  if (options.key.length + options.signer.length === 0) printWarning(unsignedWarning(path, options), context);
  const document = { path, volumes, bundleId, payload, resolved: Object.fromEntries(resolved) };
  if (options.json) return jsonText(document satisfies FactoryDocument<'bundle-create'>);
  const { images, blobs, sizeBytes } = payload.totals;
  const text = `${bundleTitle(payload)} for ${payload.arch} is in ${placeOf(path, volumes, options)}: ${formatCount(images, 'image')}, ${formatCount(blobs, 'blob')}, ${formatBytes(sizeBytes)}\n${bundleId}\n`;
  return wrapLines(text, context.columns, 4);
}

/** @throws AppError `bundle/option` when an option counts for one architecture only */
function checkSeveral({ arch = [], fromOpenshiftIso, base }: BundleCreateOptions): void {
  if (arch.length < 2) return;
  const flag = fromOpenshiftIso === undefined ? base && '--base' : '--from-openshift-iso';
  if (flag === undefined) return;
  const message = `${flag} is for one architecture, and --arch names ${arch.join(', ')}: make the bundles one by one`;
  throw bundleError('bundle/option', message);
}

/**
 * A volume, or the bundle itself: each volume lists all layers. @throws AppError `bundle/option`
 */
async function findBase(path: string): Promise<string> {
  const [first] = await volumesOfNamed(path).catch((cause: unknown) => {
    throw bundleError('bundle/option', `base: ${reasonOf(cause)}`, { cause });
  });
  return first;
}

function placeOf(path: string, volumes: number | undefined, { filesystem }: Part): string {
  if (volumes === undefined) return path;
  const end = filesystem === undefined ? '' : '.img';
  return volumes === 1 ? `${path}/1${end}` : `${path}/1${end} to ${path}/${volumes}${end}`;
}

function unsignedWarning(path: string, { filesystem }: Part): string {
  return filesystem === undefined
    ? `not signed yet: stickpin bundle sign ${path} --key FILE`
    : 'not signed, and a bundle in an image can not be signed later: make it again with --key FILE';
}

/** SOURCE_DATE_EPOCH (reproducible-builds.org) lets the same images give the same bundle. */
function createdAt({ env, now }: CommandContext): string {
  const epoch = env.SOURCE_DATE_EPOCH;
  if (epoch !== undefined && !/^[0-9]{1,11}$/.test(epoch)) {
    throw bundleError('bundle/option', `SOURCE_DATE_EPOCH is '${epoch}', and must be seconds since 1970`);
  }
  const ms = epoch === undefined ? now() : Number(epoch) * 1000;
  return new Date(ms).toISOString().replace(/\.\d{3}Z$/, 'Z');
}

/** The names that `uname --machine` prints. */
const MACHINES: Readonly<Record<string, string>> = { x86_64: 'amd64', aarch64: 'arm64' };

function architecturesOf(text: string): string[] {
  const names = text.split(',').map((name) => MACHINES[name] ?? name);
  const unknown = names.filter((name) => !architectures.some((known) => known === name));
  if (unknown.length === 0) return [...new Set(names)];
  const named = unknown.map((name) => `'${name}'`).join(' and ');
  throw new InvalidArgumentError(
    `${named} is no architecture that nodes have. Give ${architectures.join(', ')} (x86_64 means amd64, aarch64 means arm64), or several with commas between.`,
  );
}

const wholeNumber = numberOption(/^[0-9]{1,15}$/, 'It must be a whole number of at most 15 digits.');
