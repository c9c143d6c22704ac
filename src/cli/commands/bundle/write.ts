import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type Command, Option } from 'commander';
import { bundleError } from '../../../bundle/bundle-error.ts';
import { openBundle } from '../../../bundle/read/open-bundle.ts';
import { readUntrusted } from '../../../bundle/verify/judge-bundle.ts';
import { bundleTitle } from '../../../domain/model/bundle.ts';
import { STICK_FILESYSTEMS, type StickFacts, type StickFilesystem } from '../../../domain/model/machine.ts';
import { isFaulty } from '../../../domain/model/medium.ts';
import type { ProgressListener } from '../../../factory/progress.ts';
import { reasonOf } from '../../../platform/app-error.ts';
import { formatBytes } from '../../../platform/sizes.ts';
import { cliError } from '../../context/cli-error.ts';
import type { CommandContext } from '../../context/command-context.ts';
import { volumesOfNamed } from '../../context/find-shown.ts';
import { jsonText, wrapLines } from '../../output/text.ts';
import type { FactoryDocument } from '../../schema/factory-documents.ts';
import { createProgressPrinter } from './create-progress.ts';

interface BundleWriteOptions {
  readonly filesystem: StickFilesystem;
  readonly yes?: true;
  readonly json?: true;
}

interface Writing {
  readonly title: string;
  readonly imageBytes: number;
  /** It is called once. @returns the path of the image */
  readonly prepare: (folder: string) => Promise<string>;
}

export function registerBundleWrite(bundle: Command, context: CommandContext): void {
  bundle
    .command('write')
    .description('write a bundle to a plugged stick, and read it back; everything on the stick is lost')
    .argument(
      '<bundle>',
      'FILE.img of bundle create --filesystem, which is written as it is; or a bundle directory or *.stickpin.tar, of which such an image is made first in TMPDIR (default /var/tmp)',
    )
    .argument('<device>', 'the whole stick, for example /dev/sdb; must be removable or on USB, and not mounted')
    .addOption(
      new Option('--filesystem <name>', 'filesystem of the image that is made of a bundle')
        .choices([...STICK_FILESYSTEMS])
        .default('vfat'),
    )
    .option('--yes', 'do not ask')
    .option('--json', 'print as JSON')
    .action((path: string, device: string, options: BundleWriteOptions) => write(path, device, options, context));
}

async function write(
  path: string,
  device: string,
  options: BundleWriteOptions,
  context: CommandContext,
): Promise<void> {
  const { writeStick } = await import('../../../factory/stick/write-stick.ts');
  const { signal, env } = context;
  const { readStick } = await context.adapters();
  const facts = await readStick(device, signal);
  const folder = await makeFolder(env.TMPDIR || '/var/tmp');
  try {
    const { onProgress, clear } = createProgressPrinter(context);
    const writing = await (/\.img$/i.test(path)
      ? finishedImage(path)
      : imageOfBundle(path, options.filesystem, folder, { onProgress, signal }));
    const { imageBytes } = writing;
    checkStick(facts, imageBytes);
    await confirmed(facts, writing, options, context);
    try {
      const image = await writing.prepare(folder);
      checkUnchanged(facts, await readStick(device, signal), imageBytes);
      const { number, sizeBytes: deviceBytes } = facts;
      await writeStick({ image, imageBytes, device: facts.node, number, deviceBytes, onProgress }, signal);
    } finally {
      clear();
    }
    const { node } = facts;
    const text = `${writing.title} is on ${node}: ${formatBytes(imageBytes)} written, read back and compared. The stick can be pulled out.\n`;
    const document = { path, device: node, imageBytes } satisfies FactoryDocument<'bundle-write'>;
    context.stdout(options.json ? jsonText(document) : text);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function makeFolder(parent: string): Promise<string> {
  return mkdtemp(join(parent, 'stickpin-write-')).catch((cause: unknown) => {
    throw bundleError(
      'bundle/source',
      `no folder can be made in ${parent}: ${reasonOf(cause)}; name another one with TMPDIR`,
    );
  });
}

async function finishedImage(path: string): Promise<Writing> {
  const { imageSizeOf } = await import('../../../factory/stick/write-stick.ts');
  return { title: path, imageBytes: await imageSizeOf(path), prepare: async () => path };
}

async function imageOfBundle(
  path: string,
  filesystem: StickFilesystem,
  folder: string,
  { onProgress, signal }: { readonly onProgress: ProgressListener; readonly signal: AbortSignal },
): Promise<Writing> {
  const { imageLayoutOf, imageTools, makeImage, requireTools } = await import('../../../factory/image/make-image.ts');
  const { checkSpace } = await import('../../../factory/output/staging.ts');
  const { mediumOf } = await import('../../../factory/stick/write-stick.ts');
  await requireTools(imageTools[filesystem]);
  const [bundle, another] = await volumesOfNamed(path);
  if (another !== undefined) {
    throw bundleError(
      'bundle/source',
      `${path} holds several volumes: write each to a stick of its own, beginning with ${bundle}`,
    );
  }
  const { bundle: found, missing } = await readUntrusted(openBundle(bundle), signal);
  const [faulty] = missing.filter(isFaulty);
  if (faulty !== undefined)
    throw bundleError('bundle/source', `${path}: blob ${faulty.digest} is ${faulty.why}: copy the bundle again`);
  const { payload, bundleId: seed } = found;
  const medium = await mediumOf(bundle, payload, join(folder, 'medium'));
  const { imageBytes } = imageLayoutOf(medium, filesystem);
  return {
    title: `${bundleTitle(payload)} for ${payload.arch}`,
    imageBytes,
    prepare: async () => {
      await checkSpace(folder, imageBytes);
      const image = join(folder, 'stick.img');
      await makeImage(medium, image, { filesystem, created: payload.created, seed, onProgress }, signal);
      return image;
    },
  };
}

/**
 * Sticks may have been swapped while a person thought or the image was made. @throws AppError
 * `bundle/stick` (`reject`)
 */
function checkUnchanged(before: StickFacts, now: StickFacts, imageBytes: number): void {
  checkStick(now, imageBytes);
  if (describeStick(before).join('\n') === describeStick(now).join('\n') && before.number === now.number) return;
  const message = `${now.node} is another stick than a moment ago, or was changed: look at it again`;
  throw bundleError('bundle/stick', message);
}

function checkStick(facts: StickFacts, imageBytes: number): void {
  const refusal = refusalOf(facts, imageBytes);
  if (refusal !== undefined) throw bundleError('bundle/stick', refusal);
}

/** @throws AppError `cli/declined` (`reject`) after the answer no, and when nobody can answer */
async function confirmed(
  facts: StickFacts,
  { title, imageBytes }: Writing,
  { yes }: BundleWriteOptions,
  { stderr, stderrColumns, confirm, signal }: CommandContext,
): Promise<void> {
  if (yes) return;
  if (confirm === undefined) {
    throw cliError(
      'cli/declined',
      `everything on ${facts.node} would be lost, and there is no terminal to ask: give --yes`,
    );
  }
  const what = `If you write ${title} (${formatBytes(imageBytes)}) to ${facts.node}, all that is on it will be lost:`;
  stderr(wrapLines(`${what}\n${describeStick(facts).join('\n')}\n`, stderrColumns, 4));
  if (!(await confirm(`Write to ${facts.node}?`, signal))) throw cliError('cli/declined', 'nothing was written');
}

/** A sentence with what to do; undefined when the image may be written. */
export function refusalOf(facts: StickFacts, imageBytes: number): string | undefined {
  const { node, disk } = facts;
  const [use] = facts.uses;
  const [held] = facts.held;
  if (facts.isSystem) return `${node} holds filesystems of this machine: name the device of the stick`;
  if (facts.kind === 'partition') return `${node} is a partition: name the whole stick, /dev/${disk}`;
  if (!facts.isRemovable) return `${node} is not removable, not on USB and no SD card: name the device of a stick`;
  if (facts.isInFstab) return `${node} is in /etc/fstab, so this machine needs it: name another stick`;
  if (use !== undefined) return `${use.name} is ${use.what}: run umount or swapoff first, or use another stick`;
  if (held !== undefined) return `device-mapper or md uses ${held}: stop that first, or use another stick`;
  if (facts.isReadOnly) return `${node} is read-only: move its switch, or use another stick`;
  if (facts.sizeBytes === 0) return `${node} has no medium: plug in a stick`;
  if (facts.sizeBytes >= imageBytes) return undefined;
  return `${node} has ${formatBytes(facts.sizeBytes)}, and ${formatBytes(imageBytes)} are needed: use a larger stick, or make volumes`;
}

export function describeStick({ node, model, serial, sizeBytes, parts }: StickFacts): string[] {
  const name = model === '' ? 'unknown model' : model;
  const number = serial === '' ? '' : `, serial ${serial}`;
  const first = `${node}: ${name}, ${formatBytes(sizeBytes)}${number}`;
  if (parts.length === 0) return [first, '  no partition and no known filesystem'];
  return [
    first,
    ...parts.map((part) => {
      const words = [part.filesystem || 'unknown content', part.label === '' ? '' : `'${part.label}'`];
      return `  ${part.name}: ${formatBytes(part.sizeBytes)}, ${words.filter((word) => word !== '').join(' ')}`;
    }),
  ];
}
