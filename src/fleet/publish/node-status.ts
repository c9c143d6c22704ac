import { isLoaded } from '../../domain/fleet/awaited-node.ts';
import {
  NODE_STATUS_BYTES,
  NODE_STATUS_RELEASES,
  type NodeStatus,
  type ReleaseStatus,
  releaseLabel,
  versionInLabels,
} from '../../domain/fleet/node-status.ts';
import { isPassedOn, isSaidHere, MOST_PAUSES } from '../../domain/fleet/pause.ts';
import { bundleTitle } from '../../domain/model/bundle.ts';
import type { ConditionVerdict, Phase } from '../../domain/model/condition.ts';
import { hexOf } from '../../domain/model/digest.ts';
import { withShortDigests } from '../../domain/report/names.ts';
import { rollOutLine } from '../../domain/report/texts/roll-out-text.ts';
import { defined } from '../../platform/defined.ts';
import { cutAtWord, oneLine, sentence } from '../../platform/plain-text.ts';
import { type OwnBundle, type OwnReport, rollOutsOf } from './own-report.ts';

/** Leaves room for releases. */
const MOST_WANTS = 3;

const MOST_REJECTS = 16;

/** Leaves room for releases. */
const PAUSE_BYTES = 1_024;

/** Percentages are published in these steps: a preload writes ten times. */
const PERCENT_STEP = 10;

/** What other nodes receive: current releases first, then the newest. */
export function nodeStatusOf(report: OwnReport): NodeStatus {
  const all = releaseStatusesOf(report);
  const more = all.length - NODE_STATUS_RELEASES;
  const wants = report.wanted.slice(0, MOST_WANTS).map(({ name, version }) => ({ name, version }));
  const rejects = rejectsOf(report);
  const known = report.pauses.filter(isPassedOn).slice(0, MOST_PAUSES);
  const pauses = known.map(({ from: _, liftedFrom: __, heard: ___, ...said }) => said);
  return defined({
    version: 1,
    arch: report.arch,
    releases: all.slice(0, NODE_STATUS_RELEASES),
    pauses: pauses.length > 0 ? pauses : undefined,
    wants: wants.length > 0 ? wants : undefined,
    rejects: rejects.length > 0 ? rejects : undefined,
    more: more > 0 ? more : undefined,
  });
}

/**
 * A path of another node ends with the id of its bundle, even if its envelope is not read to the
 * end.
 */
function rejectsOf({ rejected, bundles }: OwnReport): readonly string[] {
  const taken = new Set(bundles.map(shortBundle));
  // A medium that could not be read now says nothing about the bundle.
  const judged = rejected.filter(({ reason }) => !reason.code.startsWith('media/'));
  const ids = judged.flatMap(
    ({ path, bundleId = path }) => /sha256:([0-9a-f]{16})[0-9a-f]{48}$/.exec(bundleId)?.[1] ?? [],
  );
  return [...new Set(ids)].filter((id) => !taken.has(id)).slice(0, MOST_REJECTS);
}

/** The Node shows pauses that were said on it, first those that are not lifted. */
export function publishedPauses({ pauses }: OwnReport): OwnReport['pauses'] {
  const ownPauses = pauses.filter(isSaidHere);
  const sorted = [
    ...ownPauses.filter(({ lifted }) => lifted === undefined),
    ...ownPauses.filter(({ lifted }) => lifted),
  ];
  const sizes = sorted.map((one) => Buffer.byteLength(JSON.stringify(one)));
  return sorted.filter((_, at) => sizes.slice(0, at + 1).reduce((sum, size) => sum + size, 0) <= PAUSE_BYTES);
}

/**
 * For the Node: as many releases as fit into 2 KiB of JSON, those first that others may wait for.
 * Fast values have coarse steps.
 */
export function publishedStatus({ releases, more: cut = 0, ...others }: NodeStatus): NodeStatus {
  const all = releases.toSorted((a, b) => urgency(a) - urgency(b)).map(coarse);
  for (let shown = all.length; ; shown -= 1) {
    const more = cut + all.length - shown;
    const status: NodeStatus = { ...others, releases: all.slice(0, shown), ...(more > 0 && { more }) };
    if (shown === 0 || Buffer.byteLength(JSON.stringify(status)) <= NODE_STATUS_BYTES) return status;
  }
}

const UNFINISHED: readonly Phase[] = ['detected', 'held', 'preloading', 'ready'];

function urgency({ phase, current }: ReleaseStatus): number {
  if (UNFINISHED.includes(phase)) return 0;
  if (current === true) return 1;
  return PAST.includes(phase) ? 3 : 2;
}

function coarse(release: ReleaseStatus): ReleaseStatus {
  const { percent, ...others } = release;
  return percent === undefined ? release : { ...others, percent: percent - (percent % PERCENT_STEP) };
}

/** Current ones, then the newest first. */
export function releaseStatusesOf(report: OwnReport): readonly ReleaseStatus[] {
  return report.bundles
    .filter(({ name, version }) => name !== '' && version !== '')
    .toSorted(byInterest)
    .map((bundle) => releaseStatus(bundle, report));
}

/** 16 hex digits. */
export function shortBundle({ bundleId }: OwnBundle): string {
  return hexOf(bundleId).slice(0, 16);
}

/** Gone or replaced: the least important. */
const PAST: readonly Phase[] = ['superseded', 'retired'];

function byInterest(a: OwnBundle, b: OwnBundle): number {
  const rank = ({ current, phase }: OwnBundle) => (current === true ? 0 : PAST.includes(phase) ? 2 : 1);
  const age = newsTime(b).localeCompare(newsTime(a));
  return rank(a) - rank(b) || age || b.sequence - a.sequence || a.bundleId.localeCompare(b.bundleId);
}

/** Others wait for what was activated last. */
function newsTime({ current, activatedAt, adoptedAt }: OwnBundle): string {
  return (current === true ? activatedAt : undefined) ?? adoptedAt ?? '9';
}

/**
 * Whether all images are present and pinned. While the runtime does not answer, the last answer
 * counts: its restart removes no label.
 */
function loadedStatus({ phase, conditions }: OwnBundle): Pick<ReleaseStatus, 'phase' | 'incomplete'> {
  const isDenied = conditions.some(({ type, status }) => ['Preloaded', 'Pinned'].includes(type) && status === 'False');
  return { phase, ...(isDenied && isLoaded({ phase }) && { incomplete: true }) };
}

function releaseStatus(bundle: OwnBundle, report: OwnReport): ReleaseStatus {
  const { name, version, phase, current, runs, rollOut } = bundle;
  const percent = phase === 'preloading' ? percentOf(bundle, report) : undefined;
  const reason = personWaitedFor(bundle) ?? bundle.reason?.code ?? bundle.degraded?.code;
  const isCurrent = current === true ? current : undefined;
  return {
    name,
    version,
    bundle: shortBundle(bundle),
    ...loadedStatus(bundle),
    ...defined({ current: isCurrent, runs, percent, reason, disturbedMs: rollOut?.disturbedMs }),
    ...(bundle.rolledBack === true && { rolledBack: true }),
    ...(rollOut?.begun === true && { begun: true }),
    ...(rollOut?.back === true && { back: true }),
    ...(rollOut?.fails === true && { fails: true }),
    ...(degradedOf(bundle) !== undefined && isCurrent && { degraded: true }),
  };
}

/** Why a ready release waits for a person; other nodes can't change that. */
function personWaitedFor({ phase, activationHolds }: OwnBundle): string | undefined {
  return phase === 'ready' ? activationHolds.find(({ releasedBy }) => releasedBy === 'person')?.code : undefined;
}

/**
 * By bytes, while only this bundle can have them; else by images and artifacts. Whole, rounded
 * down.
 */
function percentOf({ images, artifacts }: OwnBundle, { bundles, progress }: OwnReport): number {
  const isAlone = bundles.filter(({ phase }) => phase === 'preloading').length === 1;
  const { doneBytes, totalBytes } = progress;
  if (isAlone && totalBytes > 0) return percent(doneBytes, totalBytes);
  return percent(images.present + (artifacts?.present ?? 0), images.total + (artifacts?.total ?? 0));
}

function percent(part: number, whole: number): number {
  return whole === 0 ? 0 : Math.min(100, Math.floor((100 * part) / whole));
}

const ACTIVATED: readonly Phase[] = ['activated', 'active', 'proven'];

/** Returns the labels of the Node by key. */
export function labelsOf({ bundles }: OwnReport): Readonly<Record<string, string>> {
  const labels: [string, string][] = [];
  for (const name of new Set(bundles.map((bundle) => bundle.name).filter((stream) => stream !== ''))) {
    const stream = bundles.filter((bundle) => bundle.name === name).toSorted((a, b) => b.sequence - a.sequence);
    const activated = stream.find(({ current, phase }) => current === true && ACTIVATED.includes(phase));
    // Tools would activate again what was rolled back.
    const ready = stream.find((bundle) => isLoaded(loadedStatus(bundle)) && bundle.rolledBack !== true);
    if (activated !== undefined) labels.push([releaseLabel('release', name), labelValue(activated)]);
    if (ready !== undefined) labels.push([releaseLabel('ready', name), labelValue(ready)]);
  }
  return Object.fromEntries(labels.sort(([a], [b]) => a.localeCompare(b)));
}

function labelValue(bundle: OwnBundle): string {
  return versionInLabels({ version: bundle.version, bundle: shortBundle(bundle) });
}

/** `NodeStatus` as JSON. */
export const STATUS_ANNOTATION = 'stickpin.io/status';

/** What a node gives to others, and where. */
export const SERVES_ANNOTATION = 'stickpin.io/serves';

/** Good when `True`. */
export type Health = ConditionVerdict<'StickpinHealthy'>;

const MESSAGE_CHARACTERS = 1_000;

/**
 * Changes with trouble and phases, not with each image.
 *
 * @param report undefined while the daemon is silent
 */
export function healthOf(report: OwnReport | undefined): Health {
  if (report === undefined) {
    const message = "stickpin.service tells nothing on this node. Look at 'systemctl status stickpin'.";
    return health('Unknown', 'DaemonSilent', message);
  }
  const { runtime, bundles, stateProblems, wanted } = report;
  if (!runtime.reachable) {
    return health('False', 'RuntimeUnreachable', runtime.reason ?? 'the container runtime does not answer');
  }
  const degraded = bundles.flatMap((bundle) => {
    const verdict = degradedOf(bundle);
    return verdict === undefined ? [] : [`${bundleTitle(bundle)}: ${verdict.message}`];
  });
  if (degraded.length > 0) return health('False', 'ReleaseDegraded', degraded.join('; '));
  if (stateProblems.length > 0) {
    return health('False', 'StateDamaged', stateProblems.map(({ message }) => message).join('; '));
  }
  const streams = new Set(bundles.filter(({ phase }) => phase !== 'retired').map(({ name }) => name));
  const sticks = [
    ...bundles.flatMap((bundle) => stickWanted(bundle) ?? []),
    // A stream that this node never had may not be meant for it.
    ...wanted.filter(({ name }) => streams.has(name)),
  ];
  if (sticks.length > 0) return health('False', 'StickWanted', sticks.map(({ message }) => message).join(' '));
  return health('True', 'AsExpected', summaryOf(report));
}

/** The daemon is busy or in a queue: nobody has to act. */
const LOOKING = ['media/looking', 'media/reading', 'media/peer-waited-for'];

/** Which stick a release needs to continue; undefined for none. */
export function stickWanted({ hold, reason }: OwnBundle): OwnBundle['reason'] {
  const isWaiting = hold === 'media' || hold === 'base' || reason?.code === 'engine/no-source';
  if (reason === undefined || !isWaiting || LOOKING.includes(reason.code)) return undefined;
  const place = reason.message.includes('any node') ? '' : ' A stick in any node of the cluster will do.';
  return { code: reason.code, message: `${sentence(reason.message)}${place}` };
}

function degradedOf({ conditions }: OwnBundle): OwnBundle['conditions'][number] | undefined {
  return conditions.find(({ type, status }) => type === 'Degraded' && status === 'True');
}

function health(status: Health['status'], reason: string, message: string): Health {
  return {
    type: 'StickpinHealthy',
    status,
    reason,
    message: cutAtWord(withShortDigests(oneLine(message)), MESSAGE_CHARACTERS),
  };
}

/** On the node that goes next with the whole roll-out, in one line. */
function summaryOf(report: OwnReport): string {
  const { bundles } = report;
  const led = rollOutsOf(report).filter(({ progress }) => progress.leads === true);
  const lines = led.map((one) => `. Roll-out of ${bundleTitle(one)}: ${rollOutLine(one.progress)}`);
  const shown = bundles.filter(({ name, phase }) => name !== '' && phase !== 'retired');
  if (shown.length === 0) return 'no release is known';
  const texts = shown.map((bundle) => `${bundleTitle(bundle)} is ${bundle.phase}`);
  return `${texts.sort().join(', ')}${lines.join('')}`;
}
