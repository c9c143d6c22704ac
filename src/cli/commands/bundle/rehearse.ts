import { statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { resolve } from 'node:path';
import type { Command } from 'commander';
import type { FileBundleReader } from '../../../bundle/read/bundle-reader.ts';
import { findUnfit } from '../../../bundle/read/unfit-images.ts';
import { blobsLeftToBase, verifyBlobs } from '../../../bundle/verify/verify-blobs.ts';
import {
  allIn,
  artifactLayers,
  BASE_ANNOTATION,
  bundleTitle,
  type Contents,
  type VerifiedBundle,
} from '../../../domain/model/bundle.ts';
import { shortDigest } from '../../../domain/model/digest.ts';
import { largerTwins, parallelPulls } from '../../../domain/preload/pull-schedule.ts';
import { type DiskUse, diskUse, minFreePercent, stagedBytes } from '../../../domain/preload/space.ts';
import { defaultSettings } from '../../../domain/settings/settings.ts';
import { type AppError, reasonOf } from '../../../platform/app-error.ts';
import { oneLine } from '../../../platform/plain-text.ts';
import { formatBytes, formatBytesOf, formatCount, formatDuration } from '../../../platform/sizes.ts';
import { cliError } from '../../context/cli-error.ts';
import type { Rehearsal, RehearsedBundle, RehearsedImage } from '../../context/command-adapters.ts';
import type { CommandContext } from '../../context/command-context.ts';
import { openNamedBundle, pathOfOne, volumesOfNamed } from '../../context/find-shown.ts';
import { collect, threshold } from '../../context/option-values.ts';
import { withStick } from '../../context/read-stick.ts';
import { type KeyOptions, type ReadBundle, readWithKeys } from '../../context/read-with-keys.ts';
import { paint, paintLines } from '../../output/colour.ts';
import { barWithText } from '../../output/table.ts';
import { type JsonFlag, jsonText, wrapLines } from '../../output/text.ts';
import type { FactoryDocument } from '../../schema/factory-documents.ts';

const { parallel } = defaultSettings.preload;
const KEPT_PERCENT = minFreePercent(defaultSettings.preload, { hasKubelet: true });
/** Needed besides the blobs: the daemon's database, and manifests that are kept twice. */
const EXTRA_BYTES = 32 * 1024 ** 2;

export function registerBundleRehearse(bundle: Command, context: CommandContext): void {
  bundle
    .command('rehearse')
    .description('try the whole preload of a bundle in a temporary directory, as on a node')
    .argument(
      '<bundle>',
      'bundle directory, *.stickpin.tar, the directory with its volumes, or a stick with one bundle: its folder, *.img or /dev/sdb',
    )
    .option(
      '--keys <file|dir>',
      'a trusted *.pub file, or the folder with them; without it the signature is not checked',
    )
    .option('--threshold <number>', 'distinct keys that must have signed', threshold, 1)
    .option(
      '--base <bundle>',
      'a bundle that nodes have before this delta, which is loaded first; may be repeated',
      collect,
      [],
    )
    .option('--json', 'print as JSON')
    .action((path: string, options: RehearseOptions) =>
      withStick(path, options, context, async (read, named) =>
        rehearse(await pathOfOne(read, context.signal), options, named),
      ),
    );
}

interface RehearseOptions extends KeyOptions, JsonFlag {
  readonly base: readonly string[];
}

async function rehearse(path: string, options: RehearseOptions, context: CommandContext): Promise<void> {
  const { signal, env } = context;
  const { reader, read, volumes } = await open(path, options, context);
  const bases: RehearsedBundle[] = [];
  for (const path of options.base) {
    const base = await open(path, options, context);
    bases.push({ volumes: base.volumes, bundle: base.read.bundle });
  }
  bases.sort((a, b) => a.bundle.payload.sequence - b.bundle.payload.sequence);
  for (const { bundle } of [...bases, read]) requireBase(bundle, bases);
  const temporary = resolve(env.TMPDIR || tmpdir());
  await checkSpace(read, bases, temporary);
  const keys = options.keys === undefined ? undefined : { path: resolve(options.keys), threshold: options.threshold };
  const { rehearseBundle } = await context.adapters();
  const printer = new Printer(read, options.json === true, context);
  printer.start(temporary);
  const onImage = (image: RehearsedImage) => printer.image(image);
  const onBytes = (doneBytes: number) => printer.bytes(doneBytes);
  const request = { volumes, bundle: read.bundle, bases, keys, temporary, onImage, onBytes };
  const tried = await rehearseBundle(request, signal).finally(() => printer.clear());
  const { contents, payload } = read.bundle;
  const { warnings, fault } = await findUnfit(contents.images, payload.arch, reader, signal);
  const unfit = fault === undefined ? undefined : { code: 'bundle/source', message: fault };
  const done = { ...tried, fault: tried.fault ?? unfit, warnings };
  const causes = done.fault === undefined ? [] : await causesOf(reader, read, done, signal);
  const need = needOf(contents, read);
  context.stdout(options.json ? jsonText(asJson(read, done, causes, need)) : asText(read, done, need, context));
  if (done.fault !== undefined) throw failed(read, done.fault, causes);
}

async function open(path: string, options: KeyOptions, context: CommandContext) {
  const reader = await openNamedBundle(path, context.signal);
  const read = await readWithKeys(reader, options, context);
  return { reader, read, volumes: (await volumesOfNamed(path)).map((volume) => resolve(volume)) };
}

/** @throws AppError `cli/rehearsal` when a delta lacks the bundle that it builds on */
function requireBase({ payload }: VerifiedBundle, bases: readonly RehearsedBundle[]): void {
  const { base } = payload.update ?? {};
  if (base === undefined || bases.some(({ bundle }) => bundle.bundleId === base)) return;
  const name = payload.annotations?.[BASE_ANNOTATION];
  const what = name === undefined ? `the bundle ${base}` : `${name} (${shortDigest(base)})`;
  const message = `${bundleTitle(payload)} is a delta, and a node holds it until it has ${what}: give that bundle with --base`;
  throw cliError('cli/rehearsal', message);
}

async function checkSpace({ bundle }: ReadBundle, bases: readonly RehearsedBundle[], temporary: string): Promise<void> {
  const all = [bundle, ...bases.map((base) => base.bundle)];
  const needed = all.reduce((sum, { payload }) => sum + payload.totals.sizeBytes, EXTRA_BYTES);
  const { bsize, bavail } = await statfs(temporary).catch((error: unknown) => {
    throw cliError('cli/no-space', `${temporary} can't be used: ${reasonOf(error)}; name a folder with room in TMPDIR`);
  });
  if (needed <= bsize * bavail) return;
  throw cliError(
    'cli/no-space',
    `the rehearsal of ${bundleTitle(bundle.payload)} needs ${formatBytes(needed)} in ${temporary}, and ${formatBytes(bsize * bavail)} are free; name a folder with more room in TMPDIR`,
  );
}

/** Prints a progress bar on a terminal, and a line for each image. Prints nothing with `--json`. */
class Printer {
  private readonly hasBar: boolean;
  private readonly pulled = new Set<string>();
  private doneBytes = 0;

  constructor(
    private readonly read: ReadBundle,
    private readonly isQuiet: boolean,
    private readonly context: CommandContext,
  ) {
    this.hasBar = !isQuiet && context.isTerminal && context.stderrColumns !== undefined;
  }

  start(temporary: string): void {
    const { bundle, judgement } = this.read;
    const { totals, arch } = bundle.payload;
    this.print(
      `${bundleTitle(bundle.payload)} for ${arch}: ${judgement.text}\nRehearsing ${formatCount(totals.images, 'image')} of ${formatBytes(totals.sizeBytes)} in ${temporary}\n`,
    );
    this.paintBar();
  }

  image(image: RehearsedImage): void {
    if (image.fault === undefined) this.pulled.add(image.reference);
    this.clear();
    const line = imageLine(image, this.read.bundle.contents);
    this.print(`  ${paint(line, image.fault === undefined ? undefined : 'bad', this.context.hasColour)}\n`);
    this.paintBar();
  }

  bytes(done: number): void {
    this.doneBytes = Math.max(this.doneBytes, done);
    this.paintBar();
  }

  clear(): void {
    if (this.hasBar) this.context.stderr(CLEAR_LINE);
  }

  private print(text: string): void {
    if (!this.isQuiet) this.context.stdout(text);
  }

  private paintBar(): void {
    const { stderr, stderrColumns = 0 } = this.context;
    if (!this.hasBar) return;
    const { images, sizeBytes } = this.read.bundle.payload.totals;
    const text = `${formatBytesOf(this.doneBytes, sizeBytes)}, ${this.pulled.size} of ${formatCount(images, 'image')}`;
    const share = sizeBytes === 0 ? 0 : this.doneBytes / sizeBytes;
    // The last column stays free, because some terminals wrap there.
    stderr(`${CLEAR_LINE}${barWithText(share, text, stderrColumns - 1)}`);
  }
}

const CLEAR_LINE = '\r\u001b[K';

function imageLine({ reference, newBytes, durationMs, fault }: RehearsedImage, { images }: Contents): string {
  const name = images.find((image) => image.reference === reference)?.component ?? reference.split('@')[0];
  if (fault !== undefined) return `${name}: failed: ${oneLine(fault)}`;
  if (newBytes === 0) return `${name}: ${secondsOf(durationMs)}, all its layers were there already`;
  const rate = durationMs < 1 ? '' : `, ${formatBytes((newBytes / durationMs) * 1000)}/s`;
  return `${name}: ${formatBytes(newBytes)} in ${secondsOf(durationMs)}${rate}`;
}

function secondsOf(durationMs: number): string {
  return durationMs < 10_000 ? `${(durationMs / 1000).toFixed(1)} s` : formatDuration(durationMs);
}

type RehearsedDocument = FactoryDocument<'bundle-rehearse'>;
type Need = RehearsedDocument['need'];

function needOf(contents: Contents, { bundle }: ReadBundle): Need {
  const { layers, images } = contents;
  const { diskBytes, inodes, sizeBytes } = bundle.payload.totals;
  const share = 1 - KEPT_PERCENT / 100;
  const ofImages = images.map((image) => largerTwins(image.layers.flatMap((at) => layers[at] ?? [])));
  const counted = [...new Map(ofImages.flat().map((layer) => [layer.digest, layer])).values()];
  // Only CRI-O stages blobs.
  const stagingBytes = stagedBytes({ images: ofImages, parallel: parallelPulls(parallel, 'unpacked') });
  const imageCount = layers.length === 0 ? 0 : images.length;
  const kept = artifactLayers(contents);
  const keptBytes = kept.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
  const withArtifacts = ({ bytes, inodes }: DiskUse, copies: number) => ({
    bytes: bytes + copies * keptBytes,
    inodes: inodes + copies * kept.length,
  });
  const stored = {
    // CRI-O has its own copies from 1.36 on.
    'cri-o': withArtifacts(diskUse(counted, imageCount, 'unpacked'), 2),
    containerd: withArtifacts(diskUse(counted, imageCount, 'both'), 1),
  };
  return {
    diskBytes,
    inodes,
    sizeBytes,
    stored,
    stagingBytes,
    filesystemBytes: {
      'cri-o': Math.ceil((stored['cri-o'].bytes + stagingBytes) / share),
      containerd: Math.ceil(stored.containerd.bytes / share),
    },
  };
}

interface Tried extends Rehearsal {
  /** Features that some runtimes can't use. */
  readonly warnings: readonly string[];
}

function asText(
  { bundle }: ReadBundle,
  { images, durationMs, fault, warnings }: Tried,
  need: Need,
  { columns, hasColour }: CommandContext,
): string {
  const paintVerdict = (verdict: string) =>
    paintLines(wrapLines(`${verdict}\n`, columns, 4), fault === undefined ? 'good' : 'bad', hasColour);
  const title = bundleTitle(bundle.payload);
  if (bundle.contents.images.length === 0 && fault === undefined) {
    return paintVerdict(`Verdict: ${title} is adopted; it carries no image.`);
  }
  const bytes = images.reduce((sum, { newBytes, fault: bad }) => sum + (bad === undefined ? newBytes : 0), 0);
  const all = bundle.contents.images.length;
  // An image that the base has too may not be pulled again.
  const loaded = fault === undefined ? all : images.filter((image) => image.fault === undefined).length;
  const { stored } = need;
  const lines = [
    `Loaded ${loaded} of ${formatCount(all, 'image')}, ${formatBytes(bytes)} of layers, in ${secondsOf(durationMs)}`,
    'A node that has nothing of it yet needs',
    `  for CRI-O       ${formatBytes(stored['cri-o'].bytes)} and ${stored['cri-o'].inodes} inodes for ${bundle.contents.artifacts ? 'images and artifacts' : 'images'}, and ${formatBytes(need.stagingBytes)} in /var/tmp meanwhile`,
    `  for containerd  ${formatBytes(stored.containerd.bytes)} and ${stored.containerd.inodes} inodes, since it keeps the compressed layers too`,
    `  With ${KEPT_PERCENT} % kept free, an empty filesystem of ${formatBytes(need.filesystemBytes['cri-o'])}, or ${formatBytes(need.filesystemBytes.containerd)} for containerd, is large enough for it alone.`,
    ...warnings,
  ];
  const verdict =
    fault === undefined
      ? `Verdict: ${title} loads, and all its images are pinned.`
      : `Verdict: ${title} does not load.`;
  return `${wrapLines(`${lines.join('\n')}\n`, columns, 4)}${paintVerdict(verdict)}`;
}

function asJson(
  { bundle, judgement }: ReadBundle,
  done: Tried,
  causes: readonly Cause[],
  need: Need,
): RehearsedDocument {
  const { name, version, arch } = bundle.payload;
  return {
    loads: done.fault === undefined,
    verified: judgement.kind === 'verified',
    bundleId: bundle.bundleId,
    name,
    version,
    arch,
    durationMs: Math.round(done.durationMs),
    images: done.images.map((image) => ({ ...image, durationMs: Math.round(image.durationMs) })),
    need,
    ...(done.warnings.length > 0 && { warnings: done.warnings }),
    ...(done.fault !== undefined && { fault: done.fault, blobs: causes }),
  };
}

type Cause = NonNullable<RehearsedDocument['blobs']>[number];

/** Reads the blobs of what did not load, to name the bad ones; not those in the base. */
async function causesOf(
  reader: FileBundleReader,
  { bundle, blobs, missing, documents }: ReadBundle,
  { images }: Rehearsal,
  signal: AbortSignal,
): Promise<Cause[]> {
  const { contents } = bundle;
  const loaded = new Set(images.filter((image) => image.fault === undefined).map((image) => image.reference));
  const suspects = allIn(contents).filter(({ reference }) => !loaded.has(reference));
  const layers = suspects.flatMap((image) => image.layers.flatMap((at) => contents.layers[at]?.digest ?? []));
  const wanted = new Set([...documents, ...layers]);
  const inBase = blobsLeftToBase({ missing, blobs });
  const held = new Map([...blobs].filter(([digest]) => wanted.has(digest) && !inBase.has(digest)));
  const faults = await verifyBlobs(reader, held, signal);
  return faults.map(({ digest, why }) => ({
    digest,
    why,
    images: suspects
      .filter((image) => image.digest === digest || image.layers.some((at) => contents.layers[at]?.digest === digest))
      .map((image) => image.reference),
  }));
}

function failed({ bundle }: ReadBundle, fault: NonNullable<Rehearsal['fault']>, causes: readonly Cause[]): AppError {
  const [first, ...others] = causes;
  const more = others.length === 0 ? '' : `, and ${formatCount(others.length, 'other blob')} too`;
  const of = first?.images[0] === undefined ? '' : ` of ${first.images[0].split('@')[0]}`;
  const why =
    first === undefined
      ? fault.message
      : `blob ${first.digest}${of} is ${first.why}${more}; copy the bundle again, see stickpin bundle verify --full`;
  const isOurs = first === undefined && /^(?:engine|runtime|store)\//.test(fault.code);
  const message = `${bundleTitle(bundle.payload)} does not load: ${why}`;
  return cliError(isOurs ? 'cli/rehearsal' : 'cli/unverified', message);
}
