import { type Command, Option } from 'commander';
import { stringify } from 'yaml';
import { limits } from '../../../bundle/limits.ts';
import { RELEASE_SIGNATURES } from '../../../domain/model/bundle.ts';
import { imageStates } from '../../../domain/report/parts/part-reports.ts';
import { recordedReport, type ShowReport, type StoredRecords } from '../../../domain/report/parts/recorded-report.ts';
import type { BundleReport, ImageState, StatusReport } from '../../../domain/report/status-schema.ts';
import { graphText } from '../../../domain/report/texts/release-text.ts';
import { AppError } from '../../../platform/app-error.ts';
import { plainLines } from '../../../platform/plain-text.ts';
import type { StoredState } from '../../context/command-adapters.ts';
import type { CommandContext } from '../../context/command-context.ts';
import { whenStored, withDaemonOrStored } from '../../context/daemon-client.ts';
import { findShown } from '../../context/find-shown.ts';
import { renderImages, renderShow, type ShownBundle } from '../../output/render/render-show.ts';
import { type JsonFlag, jsonText, printWarning, wrapLines } from '../../output/text.ts';

interface ShowOptions {
  readonly json?: true;
  readonly images?: true;
  readonly pinnedImageSet?: true;
  readonly releaseSignatures?: true;
  readonly pool: string;
}

export function registerShow(program: Command, context: CommandContext): void {
  program
    .command('show')
    .description('show everything about one bundle, or draw the update graph of a stream')
    .argument(
      '<bundle>',
      'NAME@VERSION, NAME, the digest of the bundle or its first digits, or a name or path of a rejected one in list',
    )
    .option('--json', 'print as JSON')
    .option('--images', 'print each image of the release: its component, name, digest and state')
    .addOption(
      new Option('--pinned-image-set', 'print the images of the release as an OpenShift PinnedImageSet').conflicts([
        'json',
        'images',
      ]),
    )
    .addOption(
      new Option(
        '--release-signatures',
        'print the ConfigMap with the signatures of an OpenShift release image; only root may read it',
      ).conflicts(['json', 'images', 'pinnedImageSet']),
    )
    .option('--pool <name>', 'machine config pool of --pinned-image-set', 'worker')
    .action((name: string, options: ShowOptions) => {
      if (options.releaseSignatures) return showReleaseSignatures(name, context);
      if (options.images) return showImages(name, options, context);
      if (options.pinnedImageSet) return showPinnedImageSet(name, options.pool, context);
      const print = (report: ShowReport) => {
        const { trust, windows } = report;
        const stream = report.streams.find((one) => one.name === name);
        const found = stream === undefined || countOf(report, name) === 1 ? findShown(report, name) : undefined;
        if (options.json) {
          context.stdout(jsonText({ ...(found ?? { stream }), windows, ...(trust !== undefined && { trust }) }));
          return;
        }
        const graph = stream === undefined ? '' : wrapLines(graphText(stream), context.columns, 4);
        const bundle = found === undefined ? '' : renderShow(found, trust, context, report.bundles);
        context.stdout([graph, bundle, windowsText(windows)].filter((text) => text !== '').join('\n'));
      };
      return withDaemonOrStored(
        context,
        async (client) => print(await client.report(context.signal)),
        (state) => printStored(state, print, context.signal),
      );
    });
}

/**
 * Prints what the database says, completed by `status.json`; only that when the database can't be
 * read.
 *
 * @returns the words for what was shown; undefined when there was nothing
 */
async function printStored(
  state: StoredState,
  print: (report: ShowReport) => void,
  signal: AbortSignal,
): Promise<string | undefined> {
  const stored = await state.report(signal);
  const records = await recordsOrReason(state, signal);
  if (typeof records !== 'string') {
    print(recordedReport(records, stored?.report));
    return stored === undefined
      ? `what it recorded until it ended; ${NO_STATUS}`
      : `what it recorded, and ${whenStored(stored)}`;
  }
  if (stored === undefined) return undefined;
  print(stored.report);
  return `${whenStored(stored)}; ${records}`;
}

const NO_STATUS =
  'status.json is missing, so nobody knows which images are present and pinned, which media are plugged in, and which keys are trusted';

/** The records, or why they can't be read. @throws the reason of an abort */
async function recordsOrReason(state: StoredState, signal: AbortSignal): Promise<StoredRecords | string> {
  try {
    return await state.records(signal);
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== 'cli/no-state') throw error;
    return error.message;
  }
}

/** @throws as `findShown`; AppError `cli/no-state` (`reject`) */
function showImages(name: string, { json }: JsonFlag, context: CommandContext): Promise<void> {
  const { stdout, signal } = context;
  const print = ({ bundleId = name, ...found }: ShownBundle, images: readonly ImageState[]) => {
    const version = 'version' in found ? found.version : '';
    stdout(json ? jsonText({ name: found.name, version, bundleId, images }) : renderImages(images, context));
  };
  return withDaemonOrStored(
    context,
    async (client) => {
      const found = findRelease(await client.report(signal), name);
      print(found, await client.getImageStates({ bundle: found.bundleId ?? name }, signal));
    },
    async (state) => {
      const records = await state.records(signal);
      const found = findRelease(recordedReport(records), name);
      const stored = records.bundles.find(({ bundleId }) => bundleId === found.bundleId);
      print(found, stored === undefined ? [] : imageStates(stored.contents));
      return 'what it recorded until it ended';
    },
  );
}

/** @throws as `findShown` */
function findRelease({ bundles }: Pick<ShowReport, 'bundles'>, name: string): ShownBundle {
  return findShown({ bundles, notices: [], rejected: [], rejectedNames: [] }, name);
}

/** @throws as `findShown`; AppError `cli/no-state` (`reject`) */
function showPinnedImageSet(name: string, pool: string, context: CommandContext): Promise<void> {
  const { stdout, signal } = context;
  const print = (found: ShownBundle, images: readonly string[]) => {
    const fit = images.filter((reference) => reference.length <= MAX_NAME && PINNABLE.test(reference));
    const refused = images.filter((reference) => !fit.includes(reference)).join(', ');
    const why = 'OpenShift takes only names as HOST.DOMAIN/FOLDER/NAME@sha256:…, with at most one folder';
    if (fit.length === 0) {
      const message = `no image of ${name} fits into a PinnedImageSet (${refused || 'it has none'}): ${why}`;
      throw new AppError({ code: 'cli/no-state', message, disposition: 'reject' });
    }
    if (refused !== '')
      printWarning(`these images are left out, stickpin alone pins them: ${refused}. ${why}`, context);
    stdout(pinnedImageSet({ name: found.name ?? '', version: 'version' in found ? found.version : '' }, fit, pool));
  };
  return withDaemonOrStored(
    context,
    async (client) => {
      const found = findRelease(await client.report(signal), name);
      print(found, await client.getImages({ bundle: found.bundleId ?? name }, signal));
    },
    async (state) => {
      const records = await state.records(signal);
      const found = findRelease(recordedReport(records), name);
      const stored = records.bundles.find(({ bundleId }) => bundleId === found.bundleId);
      print(found, stored?.contents.images.map(({ reference }) => reference) ?? []);
      return 'what it recorded until it ended';
    },
  );
}

/**
 * Reads what the daemon keeps on the disk, whether it runs or not.
 * @throws errors of `findShown`; AppError `cli/no-state` (`reject`)
 */
async function showReleaseSignatures(name: string, { adapters, stdout, signal }: CommandContext): Promise<void> {
  const { storedState } = await adapters();
  const records = await storedState.records(signal);
  const { bundleId } = findRelease(recordedReport(records), name);
  const stored = records.bundles.find((bundle) => bundle.bundleId === bundleId);
  const attachment = stored?.payload.attachments?.find(({ mediaType }) => mediaType === RELEASE_SIGNATURES.mediaType);
  if (attachment === undefined || attachment.size > limits.manifestBytes) {
    const message = `${name} carries no signatures of a release image: make its bundle with --release-signatures`;
    throw new AppError({ code: 'cli/no-state', message, disposition: 'reject' });
  }
  stdout(plainLines((await storedState.attachment(attachment.digest, signal)).toString('utf8')));
}

function windowsText(windows: StatusReport['windows']): string {
  return windows.length === 0 ? '' : `Next windows:\n${windows.map(({ text }) => `    ${text}\n`).join('')}`;
}

function countOf({ bundles, notices, rejected }: ShowReport, stream: string): number {
  const names = [
    ...bundles.map(({ name }) => name),
    ...notices.map(({ name }) => name),
    ...rejected.map(({ name }) => name?.split('@')[0]),
  ];
  return names.filter((name) => name === stream).length;
}

/** The object has version v1 from 4.19 on. */
const HEAD = `# For OpenShift 4.19 or newer. Apply it when every node has the images, after 'stickpin fleet wait':
# the Machine Config Operator requests each image that a node lacks from a registry, and where none
# answers, the node becomes PrefetchFailed. Then: oc apply -f FILE
`;
/** One PinnedImageSet has at most this many images. */
const MAX_PINNED = 500;
/**
 * The names that the API server takes in it, of at most so many characters. One other name makes it
 * refuse the whole object. Source: `machineconfiguration/v1` of openshift/api.
 */
const PINNABLE = /^(?:[A-Za-z0-9-]+\.)+[A-Za-z0-9-]+(?::\d{2,5})?\/(?:[\w-]{0,61}\/)?[\w.-]*@sha256:[0-9a-f]{64}$/;
const MAX_NAME = 447;

/**
 * The images of a release as PinnedImageSets (machineconfiguration.openshift.io/v1), which the
 * Machine Config Operator pins on all nodes of a pool.
 *
 * @param references {@link PINNABLE}, at least one
 * @param pool the name of the pool: `worker`, `master`
 */
function pinnedImageSet(
  { name, version }: Pick<BundleReport, 'name' | 'version'>,
  references: readonly string[],
  pool: string,
): string {
  // RFC 1123: lower-case letters, digits, dashes and dots.
  const base = `${name}-${version}`.toLowerCase().replaceAll(/[^a-z0-9.-]+/g, '-');
  const count = Math.ceil(references.length / MAX_PINNED);
  const documents = Array.from({ length: count }, (_, at) => ({
    apiVersion: 'machineconfiguration.openshift.io/v1',
    kind: 'PinnedImageSet',
    metadata: {
      name: count === 1 ? base : `${base}-${at + 1}`,
      labels: { 'machineconfiguration.openshift.io/role': pool },
    },
    spec: {
      pinnedImages: references.slice(at * MAX_PINNED, (at + 1) * MAX_PINNED).map((reference) => ({ name: reference })),
    },
  }));
  return `${HEAD}${documents.map((document) => stringify(document, { lineWidth: 0 })).join('---\n')}`;
}
