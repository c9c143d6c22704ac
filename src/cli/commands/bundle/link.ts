import type { Command } from 'commander';
import { bundleError } from '../../../bundle/bundle-error.ts';
import type { Trust } from '../../../bundle/keys/trust.ts';
import type { FileBundleReader } from '../../../bundle/read/bundle-reader.ts';
import { loadSettings } from '../../../config/load-settings.ts';
import { bundleTitle } from '../../../domain/model/bundle.ts';
import { parseReference, type Reference } from '../../../domain/model/reference.ts';
import { AppError } from '../../../platform/app-error.ts';
import { formatBytes, formatCount } from '../../../platform/sizes.ts';
import { cliError } from '../../context/cli-error.ts';
import type { CommandContext } from '../../context/command-context.ts';
import { openNamedBundle, pathOfOne } from '../../context/find-shown.ts';
import { collect, threshold } from '../../context/option-values.ts';
import { trustOf, withPath } from '../../context/read-with-keys.ts';
import { accessOf, addRegistryOptions, type RegistryOptions } from '../../context/registry-options.ts';
import { type JsonFlag, printResult, printWarning } from '../../output/text.ts';
import type { FactoryDocument } from '../../schema/factory-documents.ts';
import { createProgressPrinter } from './create-progress.ts';

const RETRIES = 5;

export function registerBundlePush(bundle: Command, context: CommandContext): void {
  const command = bundle
    .command('push')
    .description('send a bundle to a registry, as one OCI index; only what is not there')
    .argument(
      '<bundle>',
      'bundle directory, *.stickpin.tar, the directory with its volumes, or a stick with one bundle',
    )
    .argument('<reference>', 'where to, for example registry.example.com/bundles/ocp:4.13');
  addRegistryOptions(command, RETRIES)
    .option('--json', 'print as JSON')
    .action((path: string, reference: string, options: RegistryOptions & JsonFlag) =>
      push(path, reference, options, context),
    );
}

async function push(
  path: string,
  text: string,
  options: RegistryOptions & JsonFlag,
  context: CommandContext,
): Promise<void> {
  const { pushBundle } = await import('../../../factory/link/push-bundle.ts');
  const reference = referenceOf(text);
  if (reference.tag === undefined || reference.digest !== undefined) {
    throw bundleError('bundle/option', `${text} must end with a tag, as in registry.example.com/bundles/ocp:4.13`);
  }
  const access = await checkedAccess(options);
  const reader = await openNamedBundle(await pathOfOne(path, context.signal), context.signal);
  const { onProgress, clear } = createProgressPrinter(context);
  const pushed = await withPath(path, pushBundle(reader, { reference, access, onProgress }, context.signal)).finally(
    clear,
  );
  const { bundle, digest, sentBlobs, sentBytes, blobs } = pushed;
  const { bundleId } = bundle;
  const json = {
    reference: text,
    digest,
    bundleId,
    sentBlobs,
    sentBytes,
    blobs,
  } satisfies FactoryDocument<'bundle-push'>;
  const sent = `${sentBlobs} of ${formatCount(blobs, 'blob')} sent, ${formatBytes(sentBytes)}`;
  printResult(json, `${bundleTitle(bundle.payload)} is at ${text}: ${sent}; index ${digest}`, options, context);
}

interface PullFlags extends RegistryOptions, JsonFlag {
  readonly out?: string;
  readonly keys?: string;
  readonly threshold: number;
  readonly unverified?: true;
  readonly reuse: readonly string[];
}

export function registerBundlePull(bundle: Command, context: CommandContext): void {
  const command = bundle
    .command('pull')
    .description('take a bundle from a registry into a new directory; the same command continues after a break')
    .argument('<reference>', 'what bundle push made: registry/repository:tag, or with @sha256:…')
    .option('--out <dir>', 'the directory to make (default: NAME-VERSION-ARCH here)')
    .option('--keys <file|dir>', 'a trusted *.pub file, or the folder with them (default: that of this node)')
    .option('--threshold <number>', 'distinct keys that must have signed', threshold, 1)
    .option('--unverified', 'take it without a check of its signature')
    .option('--reuse <bundle>', 'a bundle on this machine: what it has is not pulled; may be repeated', collect, []);
  addRegistryOptions(command, RETRIES)
    .option('--json', 'print as JSON')
    .action((reference: string, options: PullFlags) => pull(reference, options, context));
}

async function pull(text: string, options: PullFlags, context: CommandContext): Promise<void> {
  const { pullBundle } = await import('../../../factory/link/pull-bundle.ts');
  const reference = referenceOf(text);
  if (reference.tag === undefined && reference.digest === undefined) {
    throw bundleError('bundle/option', `${text} must end with a tag or a digest`);
  }
  const access = await checkedAccess(options);
  const trust = await trustFor(options, context);
  const reuse: FileBundleReader[] = [];
  for (const path of options.reuse)
    reuse.push(await openNamedBundle(await pathOfOne(path, context.signal), context.signal));
  const { onProgress, clear } = createProgressPrinter(context);
  const wanted = { reference, access, trust, out: options.out, reuse, onProgress };
  const pulled = await pullBundle(wanted, context.signal)
    .catch((error: unknown) => {
      throw isDistrust(error) ? cliError('cli/unverified', `${text}: ${error.message}`, error) : error;
    })
    .finally(clear);
  const { bundle, path, digest, pulledBlobs, pulledBytes, blobs } = pulled;
  const { bundleId, signedBy, payload } = bundle;
  const judgement = trust === undefined ? 'its signature was not checked' : `signature by ${signedBy.join(', ')} ok`;
  const amount = `${pulledBlobs} of ${formatCount(blobs, 'blob')} pulled, ${formatBytes(pulledBytes)}`;
  const json = { path, reference: text, digest, bundleId, verified: trust !== undefined, signedBy };
  const all = { ...json, pulledBlobs, pulledBytes, blobs } satisfies FactoryDocument<'bundle-pull'>;
  printResult(all, `${bundleTitle(payload)} is in ${path}: ${judgement}, ${amount}`, options, context);
}

/** Without `--keys`, this reads the keys that the daemon of this node trusts. */
async function trustFor(options: PullFlags, context: CommandContext): Promise<Trust | undefined> {
  if (options.unverified) {
    printWarning('the signature of the bundle is not checked', context);
    return undefined;
  }
  if (options.keys !== undefined) return trustOf(options.keys, options.threshold, context);
  const { keys_dir } = (await loadSettings(context.settingsSources, context.signal)).trust;
  return trustOf(keys_dir, options.threshold, context);
}

/** Faults of the bundle, as opposed to those of the link, the disk and the options. */
function isDistrust(error: unknown): error is AppError {
  if (!(error instanceof AppError) || !error.code.startsWith('bundle/')) return false;
  return !['registry', 'target', 'no-space', 'option', 'source', 'absent'].includes(error.code.slice('bundle/'.length));
}

function referenceOf(text: string): Reference {
  try {
    return parseReference(text);
  } catch (error) {
    throw error instanceof AppError ? error.reworded(error.message.replace('image reference', 'reference')) : error;
  }
}

async function checkedAccess(options: RegistryOptions) {
  const { checkAccess } = await import('../../../distribution/logins.ts');
  await checkAccess(options);
  return accessOf(options);
}
