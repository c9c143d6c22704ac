import { type Command, InvalidArgumentError } from 'commander';
import { type JudgedBundle, judgeBundle } from '../../bundle/judge-bundle.ts';
import { loadTrustedKeys, type Trust } from '../../bundle/trust.ts';
import { verifyBlobs } from '../../bundle/verify-blobs.ts';
import { bundleTitle } from '../../domain/bundle.ts';
import type { MissingBlob } from '../../domain/medium.ts';
import { AppError } from '../../platform/app-error.ts';
import { openNamedBundle } from '../bundle-argument.ts';
import type { CommandContext } from '../command-context.ts';

interface BundleVerifyOptions {
  readonly keys: string;
  readonly threshold: number;
  readonly full?: true;
  readonly json?: true;
}

/** How many missing blobs are named one by one. */
const MAX_NAMED = 20;

/** Adds `verify` to the command `bundle`. */
export function registerBundleVerify(bundle: Command, context: CommandContext): void {
  bundle
    .command('verify')
    .description('prove that a bundle is signed and complete, as a node does')
    .argument('<bundle>', 'bundle directory, or *.stickpin.tar')
    .requiredOption('--keys <dir>', 'folder with the trusted *.pub files')
    .option('--threshold <number>', 'distinct keys that must have signed', threshold, 1)
    .option('--full', 'read every blob and check its digest')
    .option('--json', 'print as JSON')
    .action((path: string, options: BundleVerifyOptions) => verify(path, options, context));
}

async function verify(path: string, options: BundleVerifyOptions, context: CommandContext): Promise<void> {
  const trust: Trust = { keys: await loadTrustedKeys(options.keys, context.signal), threshold: options.threshold };
  for (const problem of trust.keys.problems) context.stderr(`warning: ${problem.message}\n`);
  const reader = await openNamedBundle(path).catch((error: unknown) => {
    throw unverified(path, error);
  });
  const judged = await judgeBundle(reader, trust, context.signal).catch((error: unknown) => {
    throw unverified(path, error);
  });
  const missing = options.full ? await verifyBlobs(reader, judged.blobs, context.signal) : judged.missing;
  context.stdout(options.json ? `${JSON.stringify(asJson(judged, missing))}\n` : asText(judged, missing, options));
  if (missing.length > 0) {
    throw new AppError({
      code: 'cli/unverified',
      message: `${path} is not complete: ${missing.length} of ${judged.blobs.size} blobs are absent or damaged; copy the bundle again`,
      disposition: 'reject',
    });
  }
}

function asJson({ bundle, blobs }: JudgedBundle, missing: readonly MissingBlob[]) {
  const { bundleId, payload, signedBy } = bundle;
  const { name, version, arch, sequence } = payload;
  return {
    verified: missing.length === 0,
    bundleId,
    name,
    version,
    arch,
    sequence,
    signedBy,
    blobs: blobs.size,
    missing,
  };
}

function asText(
  { bundle, blobs }: JudgedBundle,
  missing: readonly MissingBlob[],
  options: BundleVerifyOptions,
): string {
  const done = options.full ? 'read and right' : 'found';
  const head = `${bundleTitle(bundle.payload)}: signature by ${bundle.signedBy.join(', ')} ok, ${blobs.size - missing.length} of ${blobs.size} blobs ${done}`;
  const named = missing.slice(0, MAX_NAMED).map(({ digest, why }) => `  ${digest} is ${why}`);
  const rest = missing.length > MAX_NAMED ? [`  and ${missing.length - MAX_NAMED} more`] : [];
  return `${[head, ...named, ...rest].join('\n')}\n`;
}

/** What says nothing about the bundle (the medium went away) stays as it is. */
function unverified(path: string, error: unknown): unknown {
  if (!(error instanceof AppError) || error.code.startsWith('media/')) return error;
  return new AppError({
    code: 'cli/unverified',
    message: error.message.startsWith(path) ? error.message : `${path}: ${error.message}`,
    disposition: 'reject',
    cause: error,
  });
}

function threshold(text: string): number {
  if (!/^[1-9][0-9]{0,2}$/.test(text)) throw new InvalidArgumentError('It must be a number from 1.');
  return Number(text);
}
