import type { Command } from 'commander';
import { type ApiClient, startAdvice } from '../../../api/client.ts';
import type { BundleErrorCode } from '../../../bundle/bundle-error.ts';
import { loadSettings, readSettings } from '../../../config/load-settings.ts';
import { printSettings, writtenSettings } from '../../../config/print-settings.ts';
import { type Finding, findingsOn } from '../../../domain/model/reason.ts';
import { remedyFor } from '../../../domain/report/codes.ts';
import { endsAlone } from '../../../domain/report/reasons/holds.ts';
import type { BundleReport, StatusReport, TrustReport } from '../../../domain/report/status-schema.ts';
import { AppError, assertNever, reasonOf } from '../../../platform/app-error.ts';
import { oneLine, sentence } from '../../../platform/plain-text.ts';
import { formatBytes, formatCount } from '../../../platform/sizes.ts';
import { cliError } from '../../context/cli-error.ts';
import type { CommandContext } from '../../context/command-context.ts';
import { CORRECT_SETTINGS, withDaemon } from '../../context/daemon-client.ts';
import { allKeys } from '../../output/render/render-show.ts';
import { formatTable } from '../../output/table.ts';
import {
  commandNameIn,
  type JsonFlag,
  jsonText,
  type Layout,
  printMessage,
  shortDigests,
  titleIn,
} from '../../output/text.ts';

export function registerDoctor(program: Command, context: CommandContext): void {
  program
    .command('doctor')
    .description('check everything that stickpin needs on this node, and say what to do; changes nothing')
    .option('--json', 'print the findings as JSON')
    .action((options: JsonFlag) => doctor(options, context));
}

async function doctor(options: JsonFlag, context: CommandContext): Promise<void> {
  const { examineNode } = await context.adapters();
  const answer = await findingsOfDaemon(context);
  const findings = [...(await examineNode(context.env, answer.trust, context.signal)), ...answer.findings];
  context.stdout(options.json ? jsonText({ findings }) : asText(findings, context));
  const faults = findings.filter(({ verdict }) => verdict === 'fault').length;
  if (faults === 0) return;
  throw cliError('cli/faults', `${formatCount(faults, 'fault')} found; each says what to do`);
}

/** `trust`: undefined when the daemon does not answer. */
async function findingsOfDaemon(
  context: CommandContext,
): Promise<{ readonly findings: readonly Finding[]; readonly trust?: TrustReport }> {
  try {
    const report = await withDaemon(context, (client) => reportWithPulls(client, context.signal));
    return { findings: findingsOfReport(report), trust: report.trust };
  } catch (error) {
    context.signal.throwIfAborted();
    const { fault } = findingsOn('daemon');
    if (error instanceof AppError && error.cause instanceof AppError && error.cause.code.startsWith('config/'))
      return { findings: [fault('the daemon is not running, and refuses its settings', CORRECT_SETTINGS)] };
    const remedy = `${startAdvice()}, and look into 'journalctl -u stickpin' if it does not stay up`;
    return { findings: [fault(reasonOf(error), remedy)] };
  }
}

/**
 * The report after a test of pulls; with the last result where the caller may not start one, or the
 * daemon does not know the method.
 */
async function reportWithPulls(client: ApiClient, signal: AbortSignal): Promise<StatusReport> {
  // The test may take as long as it wants, so a daemon that hangs is found by another call.
  await client.report(signal);
  try {
    await client.checkPulls({}, signal);
  } catch {
    signal.throwIfAborted();
  }
  return client.report(signal);
}

export function findingsOfReport({
  runtime,
  media,
  bundles,
  rejected,
  trust,
  unclaimed,
  stateProblems,
  protected: kept,
  conditions,
}: StatusReport): readonly Finding[] {
  const daemon = findingsOn('daemon');
  const costs = kept.map(({ name, version, ownBytes }) =>
    findingsOn('protect').ok(
      `${name}@${version} is kept for good and takes ${formatBytes(ownBytes)} that nothing else needs`,
    ),
  );
  return [
    daemon.ok('the daemon answers'),
    ...(runtime.reachable
      ? []
      : [daemon.fault(`it does not reach the runtime: ${runtime.reason ?? 'no reason is known'}`, SEE_RUNTIME)]),
    trustFinding(trust),
    ...media.flatMap(unreadableMedium),
    ...stateProblems.map(({ message }) => findingsOn('state').warning(message, CHECK_DISK)),
    ...conditions.flatMap(nodeConditionFindings),
    ...unclaimed.map(unclaimedFinding),
    ...bundles.flatMap((bundle) => releaseFindings(bundle, bundles)),
    ...rejected.map(rejectionFinding),
    ...costs,
  ];
}

function unreadableMedium({ medium, reason }: StatusReport['media'][number]): readonly Finding[] {
  if (reason === undefined) return [];
  return [
    findingsOn('media').warning(
      `${medium} can't be read: ${reason.message}`,
      reason.code === 'media/filesystem' ? WRITE_AGAIN : READ_AGAIN,
    ),
  ];
}

function nodeConditionFindings({ type, status, reason, message }: StatusReport['conditions'][number]): Finding[] {
  const { ok, warning, fault } = findingsOn('pulls');
  if (reason === 'NothingActivated') return [];
  if (ENDS_SOON.has(reason) || AS_MEANT.has(reason)) return [ok(message)];
  switch (type) {
    case 'PullsAnswered':
      if (status === 'True') return [ok(`${message}; ${SHADOWS}`)];
      return [status === 'False' ? fault(message, LOOK_AT_PULLS) : warning(message, LOOK_AT_PULLS)];
    case 'PullsFromElsewhere':
      if (status === 'False') return [ok(message)];
      return [warning(message, status === 'True' ? BRING_IMAGES : LOOK_AT_MANIFESTS)];
    default:
      return assertNever(type);
  }
}

/** Reasons that end with the next check. */
const ENDS_SOON: ReadonlySet<string> = new Set(['NotTestedYet', 'NotLookedAt']);

/** Reasons that are so on purpose. */
const AS_MEANT: ReadonlySet<string> = new Set(['ServingIsOff', 'NoMirrors']);

const SHADOWS = "while a release holds a tag, this node sees the release's image under it, whatever the registry has";
const LOOK_AT_PULLS =
  "see 'journalctl -u stickpin' and the journal of the runtime, then run 'sudo stickpin doctor' again; until then pods with imagePullPolicy Always need a network";
const BRING_IMAGES =
  'activate the release that the message names for an image, add the others to a bundle under these names, or let the pods use names that a release provides; on a node with a network it may stay like this';
const LOOK_AT_MANIFESTS =
  "correct the file that the message names, or start the runtime, then run 'stickpin doctor' again";

const SEE_RUNTIME =
  "see the lines about the runtime above; if it answers there, restart stickpin, and look into 'journalctl -u stickpin'";
const CORRECT_RECORD = "correct the file or folder that the message names, then run 'stickpin doctor' again";
const WRITE_AGAIN = 'if it is a stick for stickpin, write it again, best another one; otherwise unplug it';
const READ_AGAIN = "mend what the message names; 'stickpin rescan' reads it again";
const CHECK_DISK = "check the disk, plug in the stick of each release that is to stay, and see 'stickpin list'";

function unclaimedFinding({ name, version, references }: StatusReport['unclaimed'][number]): Finding {
  const title = name === undefined ? 'a release that nobody remembers' : `${name}@${version}`;
  return findingsOn('pins').warning(
    `${formatCount(references.length, 'pinned image')} of ${title} ${references.length === 1 ? 'is' : 'are'} unclaimed, since what was recorded of it is lost; the pins stay`,
    'plug in the stick of that release, or run stickpin unpin --unclaimed to give the pins up',
  );
}

/** Only the daemon knows keys that a bundle added. */
function trustFinding(trust: TrustReport): Finding {
  const { ok, fault } = findingsOn('trust');
  const policy = `trust.require = "${trust.require}", trust.threshold = ${trust.threshold}`;
  if (trust.revocationsUnreadable) {
    const why = trust.cause === undefined ? '' : `: ${trust.cause}`;
    return fault(`the daemon trusts no key, since revocations can't be read (${policy})${why}`, CORRECT_RECORD);
  }
  const trusted = allKeys(trust).map(({ name, broughtBy }) =>
    broughtBy === undefined ? name : `${name} (added by bundle ${broughtBy})`,
  );
  const gone = trust.revoked.map(({ keyId }) => `${keyId.slice(0, 12)}…`);
  const never = gone.length === 0 ? '' : `, and never by ${gone.join(', ')}`;
  return ok(`the daemon judges by ${trusted.join(', ') || 'no key'}${never} (${policy})`);
}

function textOf(finding: Finding): string {
  if (finding.verdict === 'ok') return finding.message;
  return `${sentence(finding.message)} What to do: ${sentence(finding.remedy)}`;
}

const WORDS = { ok: 'ok', warning: 'WARNING', fault: 'FAULT' } as const;

const TONES = { ok: 'good', warning: 'warning', fault: 'bad' } as const;

function asText(findings: readonly Finding[], layout: Layout): string {
  const rows = findings.map((finding) => [
    { text: WORDS[finding.verdict], tone: TONES[finding.verdict] },
    finding.subject,
    shortDigests(oneLine(textOf(finding)), layout),
  ]);
  return formatTable(['', 'WHAT', 'FOUND'], rows, layout);
}

/** Neither command needs the daemon. */
export function registerConfig(program: Command, context: CommandContext): void {
  const config = program.command('config').description('check or show the settings of this node');
  config
    .command('check')
    .description('check whether the settings are valid; if not, name the file and the key')
    .option('--json', 'print as JSON')
    .action(async (options: JsonFlag) => {
      await loadSettings(context.settingsSources, context.signal);
      printMessage('The settings are valid.', options, context);
    });
  config
    .command('show')
    .description('print all settings in use, including defaults, as a stickpin.toml that gives the same settings')
    .option('--json', 'print as JSON')
    .action(async (options: JsonFlag) => {
      const written = writtenSettings((await readSettings(context.settingsSources, context.signal)).file);
      context.stdout(options.json ? jsonText(written) : printSettings(written));
    });
}

/** What ends automatically gives no warning. */
export function releaseFindings(bundle: BundleReport, bundles: readonly BundleReport[] = [bundle]): Finding[] {
  const { degraded, reason, activationHolds = [] } = bundle;
  const trouble = degraded ?? reason;
  if (trouble === undefined) return [];
  const { ok, warning } = findingsOn('releases');
  const message = `${titleIn(bundle, bundles)}: ${trouble.message}`;
  const isHold = activationHolds.some(({ code }) => code === trouble.code);
  const remedy =
    isHold && activationHolds.every(endsAlone) ? undefined : remedyFor(trouble.code, commandNameIn(bundle, bundles));
  return [remedy === undefined ? ok(message) : warning(message, remedy)];
}

/** Codes of rejections that another copy of the bundle would not have. */
const DAMAGED: ReadonlySet<string> = new Set<BundleErrorCode>([
  'bundle/incomplete',
  'bundle/envelope',
  'bundle/payload',
  'bundle/digest',
  'bundle/index',
  'bundle/layout',
  'bundle/contents',
  'bundle/inconsistent',
  'bundle/bad-signature',
  'bundle/tar',
  'media/read',
]);
const COPY_AGAIN =
  "copy the bundle to the medium again, or bring it on another one; 'stickpin bundle verify --full' tells whether a copy is good";

function rejectionFinding({ medium, path, reason }: StatusReport['rejected'][number]): Finding {
  const { ok, warning } = findingsOn('releases');
  const message = `${path} on ${medium} is rejected: ${reason.message}`;
  const remedy = DAMAGED.has(reason.code) ? COPY_AGAIN : remedyFor(reason.code, path);
  return remedy === undefined ? ok(message) : warning(message, remedy);
}
