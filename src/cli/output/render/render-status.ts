import type { Advisory } from '../../../domain/model/bundle.ts';
import { remedyFor, shortCode } from '../../../domain/report/codes.ts';
import { endsAlone, WITHOUT_COMMAND } from '../../../domain/report/reasons/holds.ts';
import type { ShownReason } from '../../../domain/report/reasons/reason-text.ts';
import { progressText } from '../../../domain/report/status/media-line.ts';
import type {
  ActivationHoldReport,
  BundleReport,
  ShownRule,
  StatusReport,
} from '../../../domain/report/status-schema.ts';
import { timeText } from '../../../domain/report/texts/short-texts.ts';
import { capital, oneLine } from '../../../platform/plain-text.ts';
import { formatBytes, formatCount } from '../../../platform/sizes.ts';
import { paint, type Tone } from '../colour.ts';
import { barWithText, type Cell, formatTable } from '../table.ts';
import { commandNameIn, type Layout, shownName, titleIn, wrapLines } from '../text.ts';

export function renderStatus(report: StatusReport, layout: Layout = {}): string {
  const runtime = report.runtime.reachable ? report.runtime.name : `not reachable: ${report.runtime.reason}`;
  const media = report.media.map(({ medium, state, bundles }) => `${oneLine(medium)} (${state}, ${countOf(bundles)})`);
  const lines: readonly { readonly text: string; readonly tone?: Tone | undefined; readonly indent?: number }[] = [
    { text: headline(report), tone: toneOfStatus(report), indent: 0 },
    ...otherNeeds(report).map((text) => ({ text, tone: 'warning' as const })),
    ...progressLines(report, layout).map((text) => ({ text })),
    { text: `Runtime: ${oneLine(runtime ?? '')}`, tone: report.runtime.reachable ? undefined : 'bad' },
    { text: `Media:   ${media.length === 0 ? 'none' : media.join(', ')}` },
    ...pullLines(report).map((text) => ({ text, tone: 'warning' as const })),
    ...hookLines(report).map((text) => ({ text })),
    ...unreadableMedia(report).map((text) => ({ text, tone: 'bad' as const })),
  ];
  return lines
    .flatMap(({ text, tone, indent = LABEL_WIDTH }) =>
      wrapLines(text, layout.columns, indent)
        .split('\n')
        .map((line) => `${paint(line, tone, layout.hasColour)}\n`),
    )
    .join('');
}

const LABEL_WIDTH = 9;

/** The text of STATUS, without its limit of length. */
function headline({ status, advice }: Pick<StatusReport, 'status' | 'advice'>): string {
  const { words, code, text } = advice;
  // An older daemon wrote STATUS alone.
  if (words === '') return oneLine(status);
  return oneLine(`${words}${code === undefined ? '' : ` (${code})`}: ${text}`);
}

/** Other states that only a person ends. */
function otherNeeds(report: StatusReport): readonly string[] {
  const { advice, needsPerson } = report;
  return needsPerson
    .filter(({ code, message }) => code !== advice.code && !advice.text.includes(message))
    .map(({ code, message }) => `Needed:  ${code} ${oneLine(message)}`);
}

/** The colour of the worst that is known, while nothing is being done. */
function toneOfStatus({ operation, runtime, bundles, rejected, media }: StatusReport): Tone | undefined {
  if (!runtime.reachable) return 'bad';
  if (operation !== 'idle') return undefined;
  const isBad = rejected.length > 0 || bundles.some(({ degraded }) => degraded !== undefined);
  if (isBad || media.some(({ reason }) => reason !== undefined)) return 'bad';
  return bundles.some(({ phase, reason }) => phase === 'held' || reason !== undefined) ? 'warning' : 'good';
}

function artifactsOf({ artifacts, phase }: StatusReport['bundles'][number]): readonly string[] {
  if (artifacts === undefined || phase === 'retired') return [];
  return [`${artifacts.present} of ${formatCount(artifacts.total, 'artifact')} kept on this node`];
}

/** @param isWhole with releases that are retired and not plugged in. Default: their number */
export function renderList(all: StatusReport, layout: Layout = {}, isWhole = false): string {
  const isHidden = ({ phase, media }: BundleReport) => !isWhole && phase === 'retired' && media.length === 0;
  const hidden = all.bundles.filter(isHidden).length;
  const report = { ...all, bundles: all.bundles.filter((bundle) => !isHidden(bundle)) };
  const headLine = `${wrapLines(headline(all), layout.columns)}\n\n`;
  const hiddenLines = hidden === 0 ? [] : [`${hiddenText(hidden)}\n`];
  const unreadable = unreadableMedia(report).map((line) => `${line}\n`);
  const rejectedNames = report.rejectedNames.map(({ reason }) => oneLine(reason.message));
  if (report.bundles.length + report.rejected.length + report.notices.length === 0) {
    const names = rejectedNames.map((line) => `${line}\n`);
    const none = hidden === 0 ? 'No bundle is known and none is plugged in.\n' : 'No bundle is plugged in.\n';
    const lines = [none, ...names, ...unreadable, ...unclaimedLines(report), ...hiddenLines];
    return `${headLine}${wrapLines(lines.join(''), layout.columns, 4)}`;
  }
  const titles = new Map(report.bundles.map((bundle) => [bundle.bundleId, titleIn(bundle, all.bundles)]));
  const titleOf = (bundle: Parameters<typeof shownName>[0]) => titles.get(bundle.bundleId) ?? shownName(bundle);
  const table = formatTable(
    ['BUNDLE', 'PHASE', 'PRESENT', 'PINNED', 'SIZE', 'MEDIA', 'SIGNED BY'],
    listRows(report, titleOf),
    layout,
  );
  const reasons = [
    ...report.bundles.flatMap(({ reason, ...bundle }) => {
      const why = reason ?? firstHold(bundle);
      if (why === undefined) return [];
      return [`${coded(why, titleOf(bundle))}${endOf(bundle, reason, report.bundles)}`];
    }),
    ...report.bundles.flatMap(({ kept, ...bundle }) => (kept === undefined ? [] : [`${titleOf(bundle)}: ${kept}`])),
    ...report.bundles.flatMap((bundle) => artifactsOf(bundle).map((text) => `${titleOf(bundle)}: ${text}`)),
    ...report.bundles.flatMap(({ warnings = [], ...bundle }) => {
      const count = warnings.length === 1 ? '1 warning' : `${warnings.length} warnings`;
      const command = commandNameIn(bundle, report.bundles);
      return warnings.length === 0
        ? []
        : [`${titleOf(bundle)}: its maker had ${count}, see 'stickpin show ${command}'`];
    }),
    ...report.bundles.flatMap(({ rules = [], ...bundle }) => {
      const ofOthers = rules.filter(({ effect }) => effect === 'holds-others');
      return ofOthers.map((rule) => `${titleOf(bundle)}: ${ruleName(rule)}: ${ruleText(rule)}`);
    }),
    ...report.bundles.flatMap(({ advisory, ...bundle }) =>
      advisory ? [`${titleOf(bundle)}: ${adviceOf(advisory)}`] : [],
    ),
    ...report.streams.flatMap(({ notes }) => notes),
    ...report.notices.map(
      ({ name, version, reason }) =>
        `${name}@${version} carries no images: ${reason?.message ?? 'its advisories and keys are in effect'}`,
    ),
    ...rejectedNames,
    ...report.rejected.map(({ name, path, medium, reason }) => coded(reason, `${name ?? path} on ${medium}`)),
  ];
  const reasonLines = reasons.map((reason) => `${oneLine(reason)}\n`);
  const below = [...reasonLines, ...unclaimedLines(report)];
  const lines = [...(below.length + hidden === 0 ? [] : [`\n${below.join('')}`]), ...unreadable, ...hiddenLines].join(
    '',
  );
  return `${headLine}${table}${wrapLines(lines, layout.columns, 4)}`;
}

/** The list includes rejected bundles. */
function listRows(report: StatusReport, titleOf: (bundle: BundleReport) => string): readonly (readonly Cell[])[] {
  return [
    ...report.bundles.map((bundle) => [
      titleOf(bundle),
      { text: shownPhase(bundle.phase, bundle.hold, bundle), tone: toneOfPhase(bundle.phase, bundle) },
      `${bundle.images.present}/${bundle.images.total}`,
      `${bundle.images.pinned}`,
      formatBytes(bundle.sizeBytes),
      bundle.media.join(', ') || '-',
      bundle.signedBy.join(', ') || '-',
    ]),
    ...report.rejected.map(({ name, path, medium }) => [
      oneLine(name ?? path.split('/').at(-1) ?? path),
      { text: 'rejected', tone: 'bad' } as const,
      '-',
      '-',
      '-',
      oneLine(medium),
      '-',
    ]),
  ];
}

function hiddenText(count: number): string {
  const [what, them] = count === 1 ? ['retired release is', 'it'] : ['retired releases are', 'them'];
  return `${count} ${what} not shown; 'stickpin list --all' shows ${them}.`;
}

function pullLines({ conditions }: StatusReport): string[] {
  const isBad = { PullsAnswered: 'False', PullsFromElsewhere: 'True' } as const;
  const bad = conditions.filter(({ type, status }) => status === isBad[type]);
  return bad.map(({ message }) => `Pulls:   ${oneLine(message)}`);
}

function hookLines({ hooks }: StatusReport): string[] {
  return hooks.map(({ hook, unit, state, bundle, medium, at, message }) => {
    const what = bundle ?? medium;
    const about = `Hook:    ${oneLine(what === undefined ? hook : `${hook} of ${what}`)}`;
    if (state === 'running') return `${about} runs (${unit}) since ${at}`;
    const when =
      state === 'retrying' ? `it is tried again on ${at}` : `it failed on ${at}, and 'stickpin rescan' runs it again`;
    return `${about}: ${oneLine(message ?? unit)}; ${when}`;
  });
}

function unreadableMedia({ media }: StatusReport): string[] {
  return media.flatMap(({ medium, reason }) => (reason ? [oneLine(`Can't read ${medium}: ${reason.message}`)] : []));
}

function unclaimedLines({ unclaimed }: StatusReport): string[] {
  return unclaimed.map(({ name, version, references }) => {
    const of = name === undefined ? 'a release that nobody remembers' : `${name}@${version}`;
    const what = name === undefined ? 'its stick' : `the stick of ${name}@${version}`;
    return `${references.length} unclaimed ${references.length === 1 ? 'pin' : 'pins'} of ${oneLine(of)}: plug in ${oneLine(what)} to claim them, or run 'stickpin unpin --unclaimed'\n`;
  });
}

function shownPhase(
  phase: string,
  hold: string | undefined,
  { current, activationHolds }: Partial<BundleReport>,
): string {
  if (hold !== undefined) return `${phase} (${hold})`;
  if (phase === 'ready' && activationHolds !== undefined) return `${phase} (activation held)`;
  return current ? `${phase} (current)` : phase;
}

/** What ends the holds of a ready release. A reason already says all but the time. */
function endOf(
  bundle: Parameters<typeof shownName>[0] & Holds,
  reason: BundleReport['reason'],
  bundles: StatusReport['bundles'],
): string {
  const { phase, activationHolds = [] } = bundle;
  if (phase !== 'ready') return '';
  const byPerson = activationHolds.find((hold) => !endsAlone(hold));
  if (byPerson !== undefined) return reason === undefined ? holdEnd(byPerson, commandNameIn(bundle, bundles)) : '';
  const until = activationHolds
    .flatMap((hold) => hold.until ?? [])
    .sort()
    .at(-1);
  if (activationHolds.length === 0 || (reason !== undefined && until === undefined)) return '';
  const time = until && timeText(Date.parse(until));
  const isFailure = reason !== undefined && activationHolds.every(({ code }) => code !== reason.code);
  if (isFailure) return `. It is tried again at ${time}`;
  return `. It ends automatically${time === undefined ? '' : `, not before ${time}`}`;
}

type Holds = Pick<BundleReport, 'phase' | 'activationHolds'>;

function firstHold({ phase, activationHolds }: Holds): ShownReason | undefined {
  const [first] = phase === 'ready' ? (activationHolds ?? []) : [];
  return first && { code: first.code, message: `its activation is held: ${first.message}` };
}

/** `M-12 ocp@4.13.7: …` */
function coded({ code, message }: ShownReason, about: string): string {
  return `${shortCode(code)} ${about}: ${message}`;
}

function progressLines({ progress }: StatusReport, { columns }: Layout): string[] {
  if (progress.totalBytes === 0) return [];
  const { doneBytes, totalBytes, images = [] } = progress;
  const bar = barWithText(doneBytes / totalBytes, progressText(progress), columns);
  return [bar, ...(images.length === 0 ? [] : [`Images:  ${images.map(oneLine).join(', ')}`])];
}

function toneOfPhase(phase: string, { degraded }: Pick<BundleReport, 'degraded'>): Tone | undefined {
  if (phase === 'rejected' || degraded !== undefined) return 'bad';
  if (phase === 'held') return 'warning';
  return phase === 'proven' || phase === 'active' ? 'good' : undefined;
}

function countOf(bundles: number): string {
  return bundles === 1 ? '1 bundle' : `${bundles} bundles`;
}

/**
 * A sentence behind the message of the hold; empty where the message says it. `name`: what
 * `activate` takes for the release.
 */
export function holdEnd(hold: ActivationHoldReport, name: string): string {
  const { code, releasedBy, until } = hold;
  if (releasedBy === 'person') {
    return WITHOUT_COMMAND.has(code) ? '' : `. To activate it now, run 'stickpin activate ${name}'`;
  }
  if (!endsAlone(hold)) return `. ${capital(remedyFor(code, name) ?? '')}`;
  return `. It ends automatically${until === undefined || releasedBy === 'event' ? '' : ` on ${until}`}`;
}

export function ruleName({ rule }: Pick<ShownRule, 'rule'>): string {
  return NAMES[rule];
}

export function ruleText({ value, effect }: Omit<ShownRule, 'rule'>): string {
  return `${value} (${EFFECTS[effect]})`;
}

/** `dead end and barrier`, each after `article`; empty for neither. */
export function adviceKinds({ deadend, barrier }: Pick<Advisory, 'deadend' | 'barrier'>, article = ''): string {
  return [deadend && `${article}dead end`, barrier && `${article}barrier`].filter(Boolean).join(' and ');
}

export function adviceOf({ reason, from, effect, ...advice }: NonNullable<BundleReport['advisory']>): string {
  const what = adviceKinds(advice);
  return what === '' ? `note, says ${from}: ${reason}` : `${what} (${EFFECTS[effect]}), says ${from}: ${reason}`;
}

const NAMES: Readonly<Record<ShownRule['rule'], string>> = {
  from: 'from',
  rollout: 'rollout',
  order: 'order',
  endOfLife: 'end of life',
  barrier: 'barrier',
  deadend: 'dead end',
};

const EFFECTS: Readonly<Record<ShownRule['effect'], string>> = {
  'holds-activation': 'holds its activation while it applies',
  'holds-others': 'holds other releases of its stream',
};
