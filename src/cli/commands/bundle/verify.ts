import { join } from 'node:path';
import type { Command } from 'commander';
import type { Trust } from '../../../bundle/keys/trust.ts';
import { checkLayoutFile } from '../../../bundle/read/bundle-reader.ts';
import type { BundleCandidate } from '../../../bundle/read/find-bundles.ts';
import { findUnfit } from '../../../bundle/read/unfit-images.ts';
import { type JudgedBundle, judgeBundle } from '../../../bundle/verify/judge-bundle.ts';
import { refusedTogether } from '../../../bundle/verify/judge-bundles.ts';
import {
  type BlobFault,
  blobsLeftToBase,
  type CheckedBase,
  checkBase,
  verifyBlobs,
} from '../../../bundle/verify/verify-blobs.ts';
import {
  BASE_ANNOTATION,
  bundleTitle,
  ignoredMembers,
  type Payload,
  type VerifiedBundle,
} from '../../../domain/model/bundle.ts';
import { type Digest, shortDigest } from '../../../domain/model/digest.ts';
import { type FaultyBlob, isFaulty } from '../../../domain/model/medium.ts';
import { AppError } from '../../../platform/app-error.ts';
import { oneLine } from '../../../platform/plain-text.ts';
import { formatCount } from '../../../platform/sizes.ts';
import { cliError } from '../../context/cli-error.ts';
import type { CommandContext } from '../../context/command-context.ts';
import { bundlesOfStick, openNamedBundle } from '../../context/find-shown.ts';
import { threshold } from '../../context/option-values.ts';
import { withStick } from '../../context/read-stick.ts';
import { asUnverified, trustOf } from '../../context/read-with-keys.ts';
import { paintLines } from '../../output/colour.ts';
import { jsonText, wrapLines } from '../../output/text.ts';

interface BundleVerifyOptions {
  readonly keys: string;
  readonly threshold: number;
  readonly full?: true;
  readonly base?: string;
  readonly json?: true;
}

/** Maximum number of missing blobs that are listed. */
const MAX_NAMED = 20;

export function registerBundleVerify(bundle: Command, context: CommandContext): void {
  bundle
    .command('verify')
    .description('check that a bundle is signed and complete, as a node does')
    .argument(
      '<bundle>',
      'bundle directory, *.stickpin.tar, or a stick (its folder, *.img or /dev/sdb): all bundles in its folder stickpin',
    )
    .requiredOption('--keys <file|dir>', 'a trusted *.pub file, or the folder with them')
    .option('--threshold <number>', 'distinct keys that must have signed', threshold, 1)
    .option('--base <bundle>', 'for a delta: its base, whose layers are checked too')
    .option('--full', 'read every blob and check its digest')
    .option('--json', 'print as JSON')
    .action((path: string, options: BundleVerifyOptions) =>
      withStick(path, options, context, (read, named) => verify(read, options, named)),
    );
}

async function verify(path: string, options: BundleVerifyOptions, context: CommandContext): Promise<void> {
  const trust = await trustOf(options.keys, options.threshold, context);
  const onStick = await bundlesOfStick(path, context.signal);
  if (onStick !== undefined) return verifyStick(path, onStick, { trust, options }, context);
  const { text, json, fault } = await verifyOne(path, { trust, options }, context);
  context.stdout(options.json ? jsonText(json) : shownText(text, fault, context));
  if (fault !== undefined) throw fault;
}

interface Measure {
  readonly trust: Trust;
  readonly options: BundleVerifyOptions;
}

/** `fault`: why a node would not take the bundle. */
interface Verified {
  /** Absent when the bundle is not trusted, or can't be read. */
  readonly bundle?: VerifiedBundle;
  readonly text: string;
  readonly json: object;
  readonly fault?: AppError | undefined;
}

function shownText(text: string, fault: AppError | undefined, { columns, hasColour }: CommandContext): string {
  return paintLines(wrapLines(text, columns, 4), fault === undefined ? 'good' : 'bad', hasColour);
}

/** A bad bundle does not stop the check of the others. */
async function verifyStick(
  path: string,
  found: readonly BundleCandidate[],
  measure: Measure,
  context: CommandContext,
): Promise<void> {
  const alone: Verified[] = [];
  for (const candidate of found) alone.push(await verifyOnStick(path, candidate, measure, context));
  const verified = found.flatMap((one, at) => {
    const bundle = alone[at]?.bundle;
    return bundle === undefined ? [] : [{ path: one.path, bundle }];
  });
  const refused = refusedTogether(verified, context.now());
  const results = alone.map((one, at): Verified => {
    const why = refused.get(found[at]?.path ?? '');
    return { ...one, fault: one.fault ?? (why === undefined ? undefined : cliError('cli/unverified', why)) };
  });
  const faults = results.flatMap(({ fault }) => fault ?? []);
  const bundles = results.map(({ json, fault }) => ({
    ...json,
    ...(fault && { verified: false, why: fault.message }),
  }));
  const lines = results.map(({ text, fault }) =>
    shownText(`${text}${fault === undefined ? '' : `  ${oneLine(fault.message)}\n`}`, fault, context),
  );
  context.stdout(measure.options.json ? jsonText({ bundles }) : lines.join(''));
  if (faults.length === 0) return;
  const message = `${faults.length} of ${formatCount(found.length, 'bundle')} on ${path} would not be taken; the lines above say why`;
  throw cliError('cli/unverified', message);
}

async function verifyOnStick(
  root: string,
  candidate: BundleCandidate,
  measure: Measure,
  context: CommandContext,
): Promise<Verified> {
  const path = join(root, candidate.path);
  try {
    if (candidate.kind === 'bundle') {
      const { json, ...found } = await verifyOne(path, measure, context, candidate.path);
      return { ...found, json: { path, ...json } };
    }
    const { code, message } = candidate.reason;
    throw new AppError({ code, message, disposition: 'reject' });
  } catch (error) {
    context.signal.throwIfAborted();
    if (!(error instanceof AppError)) throw error;
    return { text: `${path}: not verified\n`, json: { path }, fault: error };
  }
}

/** `where`: its folder on the stick that is verified; default none. */
async function verifyOne(
  path: string,
  { trust, options }: Measure,
  context: CommandContext,
  where?: string,
): Promise<Verified> {
  const { signal } = context;
  const { reader, judged } = await asUnverified(path, async () => {
    const opened = await openNamedBundle(path, signal);
    const found = await judgeBundle(opened, trust, signal);
    if (!found.isEnvelope) await checkLayoutFile(opened, signal);
    return { reader: opened, judged: found };
  });
  const inBase = blobsLeftToBase(judged);
  const held = new Map([...judged.blobs].filter(([digest]) => !inBase.has(digest)));
  const faulty = options.full ? await verifyBlobs(reader, held, signal) : judged.missing.filter(isFaulty);
  const base = await baseResultOf(judged, inBase, options, context);
  const missing = [...faulty, ...(base.checked?.faulty ?? [])];
  const expiry = expiryOf(judged, context.now());
  const incomplete = `${path} is not complete: ${missing.length} of ${judged.blobs.size} blobs are absent or damaged; copy the bundle again`;
  const expired = `${path} expired on ${expiry?.expires}: this machine's clock says ${expiry?.judgedAt}. A node that does not know it yet refuses it; make it again, or set this clock right`;
  const { payload, contents } = judged.bundle;
  const unfit = await findUnfit(contents.images, payload.arch, reader, signal);
  const ignored = ignoredMembers(judged.bundle).map((member) => `it has ${member}, which this stickpin ignores`);
  const warnings = [...ignored, ...unfit.warnings];
  const why = expiry?.expired ? expired : missing.length > 0 ? incomplete : unfit.fault;
  return {
    bundle: judged.bundle,
    text: `${[asText(judged, missing, base, where, options), ...warnings.map((warning) => `  ${warning}`)].join('\n')}\n`,
    json: {
      ...asJson(judged, missing, base),
      ...expiry,
      ...(warnings.length > 0 && { warnings }),
      ...(why !== undefined && { verified: false }),
    },
    fault: why === undefined ? undefined : cliError('cli/unverified', why),
  };
}

/**
 * Whether a node that does not know the bundle would refuse it (bundle format, `expires`), by the
 * clock of this machine. A node that adopted it earlier continues with it.
 */
function expiryOf({ bundle: { payload } }: JudgedBundle, now: number) {
  const { expires } = payload;
  return expires === undefined
    ? undefined
    : { expires, expired: Date.parse(expires) <= now, judgedAt: new Date(now).toISOString() };
}

interface BaseResult {
  /** Blobs that the bundle needs from its base. */
  readonly count: number;
  /** Absent when no base is given. */
  readonly checked: CheckedBase | undefined;
  readonly unchecked: number;
}

async function baseResultOf(
  { bundle }: JudgedBundle,
  inBase: ReadonlyMap<Digest, number>,
  { base, full }: BundleVerifyOptions,
  { signal }: CommandContext,
): Promise<BaseResult> {
  if (base === undefined) return { count: inBase.size, checked: undefined, unchecked: inBase.size };
  const expected = bundle.payload.update?.base;
  const checked = await asUnverified(base, async () =>
    checkBase(await openNamedBundle(base, signal), expected, { remaining: inBase, full: full === true }, signal),
  );
  return { count: inBase.size, checked, unchecked: checked.leftAgain };
}

/** Without `--full` only names and sizes are checked. */
type Lacking = FaultyBlob & Partial<BlobFault>;

function asJson({ bundle, blobs }: JudgedBundle, missing: readonly Lacking[], { count, unchecked }: BaseResult) {
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
    ...(payload.update?.base !== undefined && { base: { bundleId: payload.update.base, blobs: count, unchecked } }),
    missing,
  };
}

function asText(
  { bundle, blobs }: JudgedBundle,
  missing: readonly Lacking[],
  base: BaseResult,
  where: string | undefined,
  options: BundleVerifyOptions,
): string {
  const found = blobs.size - base.unchecked - missing.length;
  const done = options.full ? 'read and right' : 'found';
  const { arch, sequence } = bundle.payload;
  const title = `${bundleTitle(bundle.payload)}${where === undefined ? '' : ` for ${arch}, sequence ${sequence}`}`;
  const head = `${where === undefined ? '' : `${where}: `}${title}: signature by ${bundle.signedBy.join(', ')} ok, ${found} of ${blobs.size} blobs ${done}`;
  const ofBase = baseLine(bundle.payload, base);
  const named = missing.slice(0, MAX_NAMED).map(namedFault);
  const more = missing.length > MAX_NAMED ? [`  and ${missing.length - MAX_NAMED} more`] : [];
  return [head, ...ofBase, ...named, ...more].join('\n');
}

function baseLine(payload: Payload, { count, checked, unchecked }: BaseResult): string[] {
  const { base } = payload.update ?? {};
  if (base === undefined) return [];
  const name = `${checked?.name ?? payload.annotations?.[BASE_ANNOTATION] ?? 'bundle'} (${shortDigest(base)})`;
  const line = `  ${formatCount(count, 'blob')} left to base ${name}`;
  if (checked === undefined) return [`${line}; look at them too with --base BUNDLE`];
  return [`${line}${unchecked === 0 ? '' : `, which leaves ${unchecked} of them to its own base`}`];
}

function namedFault({ digest, why, file, detail }: Lacking): string {
  if (file === undefined || detail === undefined) return `  ${digest} is ${why}`;
  // System errors already name the file.
  return `  ${digest} is ${why}: ${detail.startsWith(file) ? detail : `${file}: ${detail}`}`;
}
