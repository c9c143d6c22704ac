import {
  type FleetNode,
  type FleetView,
  isCut,
  type Peer,
  type ReleaseStatus,
  releaseLabel,
  type ShownRollOut,
  versionInLabels,
} from '../../../domain/fleet/node-status.ts';
import { endOf, MOST_OF_NODE, type Pause } from '../../../domain/fleet/pause.ts';
import { type LaggingNode, mayHaveOthers } from '../../../domain/fleet/turn.ts';
import { orControlPlane, pausedTitle, saidByText } from '../../../domain/report/texts/pause-texts.ts';
import { placeText, rollOutLine } from '../../../domain/report/texts/roll-out-text.ts';
import { terminalText } from '../../../platform/plain-text.ts';
import { formatCount, formatDuration } from '../../../platform/sizes.ts';
import type { Tone } from '../colour.ts';
import { type Cell, formatTable } from '../table.ts';
import type { Layout } from '../text.ts';

export function renderFleet(view: FleetView, now: number, layout: Layout = {}): string {
  const removed = (view.removed ?? []).filter((name) => name !== view.self);
  const rows = [
    ...view.nodes.flatMap((node) => nodeRows(node, view, now)),
    ...removed.map((name): Cell[] => [name, '-', 'removed (fleet.exclude)', '', '']),
  ];
  const trouble = troubleOf(view);
  const peers = view.peers.flatMap(({ name, trouble: why }) => (why === undefined ? [] : [`${name}: ${why}\n`]));
  const unreachable = peers.length === 0 ? '' : `\nNodes that can't be asked now:\n${peers.join('')}`;
  const table = formatTable(['NODE', 'RELEASE', 'PHASE', 'SHARED', 'SEEN'], rows, layout);
  const lock = view.lock?.isHeld === true ? '\nThis node has the lock of the FleetLock server.\n' : '';
  const progress = (view.rollOuts ?? []).map((one) => rollOutText(one, layout)).join('');
  return `${table}${progress}${lock}${pauseLines(view, now)}${labelNotes(view)}${trouble === undefined ? '' : `\n${trouble}\n`}${unreachable}`;
}

/** Why nodes may be missing. */
function troubleOf({ apiTrouble, keys }: FleetView): string | undefined {
  if (keys !== undefined) return keys.trouble && `The keys of the nodes: ${keys.trouble}`;
  return apiTrouble && `The Kubernetes API: ${apiTrouble}`;
}

function rollOutText({ name, version, progress }: ShownRollOut, layout: Layout): string {
  const rows = progress.places.map((one): readonly Cell[] => [
    String(one.place),
    one.isCanary === true ? `${one.node} (canary)` : one.node,
    {
      text: placeText(one, progress),
      tone: one.state === 'failed' ? 'bad' : one.state === 'done' ? 'good' : undefined,
    },
  ]);
  const head = terminalText(`Roll-out of ${name} ${version}: ${rollOutLine(progress)}.`);
  return `\n${head}\n${formatTable(['PLACE', 'NODE', 'STATE'], rows, layout)}`;
}

/** Pauses that the daemon of this node follows. */
function pauseLines(view: FleetView, now: number): string {
  const { pauses = [] } = view;
  const lasting = pauses.filter((one) => one.lifted === undefined && endOf(one) > now);
  const lines = [...new Set(lasting.map(({ node }) => node))].flatMap((node) => {
    const ofNode = lasting.filter((one) => one.node === node);
    const more = ofNode.length - MOST_OF_NODE;
    return [
      ...ofNode.slice(0, MOST_OF_NODE).map((one) => pauseText(one, orControlPlane(view))),
      ...(more > 0 ? [`${formatCount(more, 'more pause')} of ${node}\n`] : []),
    ];
  });
  return lines.length === 0 ? '' : `\n${lines.map(terminalText).join('')}`;
}

function pauseText(one: Pause, orElsewhere: string): string {
  const until = new Date(endOf(one)).toISOString();
  return `${pausedTitle(one)} is paused until ${until} by ${saidByText(one)}: ${one.why}\n    'stickpin fleet resume ${one.id}' on ${one.node}${orElsewhere} ends the pause\n`;
}

/** Labels of Nodes whose relation to the release is not obvious. */
function labelNotes({ nodes, keys }: FleetView): string {
  if (keys !== undefined) return '';
  const notes = nodes
    .flatMap(({ status }) => status?.releases ?? [])
    .filter(({ phase }) => phase !== 'retired')
    .flatMap((release) => {
      const label = `${releaseLabel('ready', release.name)}=${versionInLabels(release)}`;
      const { name, version } = release;
      return label === `stickpin.io/ready-${name}=${version}` ? [] : [`${name} ${version} has the label ${label}\n`];
    });
  return notes.length === 0 ? '' : `\n${[...new Set(notes)].join('')}`;
}

function nodeRows(node: FleetNode, { self, peers }: FleetView, now: number): readonly (readonly Cell[])[] {
  const title = node.name === self ? `${node.name} (this)` : node.name;
  const seen = node.name === self ? 'now' : seenText(node, now);
  const releases = (node.status?.releases ?? []).filter(({ phase }) => phase !== 'retired');
  if (releases.length === 0) return [[title, '-', node.status === undefined ? 'not known' : 'no release', '', seen]];
  const peer = peers.find(({ name }) => name === node.name);
  return releases.map((release, at) => [
    at === 0 ? title : '',
    `${release.name} ${release.version}`,
    { text: phaseText(release), tone: toneOf(release) },
    givesText(release, peer),
    at === 0 ? seen : '',
  ]);
}

function toneOf({ phase, reason, incomplete }: ReleaseStatus): Tone | undefined {
  if (phase === 'rejected') return 'bad';
  if (phase === 'held' || reason !== undefined || incomplete) return 'warning';
  return phase === 'proven' ? 'good' : undefined;
}

function phaseText({ phase, percent, reason, incomplete }: ReleaseStatus): string {
  if (percent !== undefined && phase === 'preloading') return `${phase} ${Math.floor(percent)} %`;
  const why = reason ?? (incomplete ? 'incomplete' : undefined);
  return why === undefined ? phase : `${phase} (${why})`;
}

/** Whether another node can take the release from this one. */
function givesText({ bundle }: ReleaseStatus, peer: Peer | undefined): string {
  const offered = peer?.bundles.find(({ bundleId }) => bundleId.startsWith(`sha256:${bundle}`));
  if (offered === undefined) return '';
  return offered.isWhole ? 'yes' : 'in part';
}

function seenText({ seenAt, isAbsent }: FleetNode, now: number): string {
  if (seenAt === undefined) return isAbsent ? 'never' : 'not yet';
  const ago = Math.max(0, now - seenAt);
  return ago < 5_000 ? 'now' : `${formatDuration(ago)} ago`;
}

/** Returns one line, without line end. */
export function waitLine(lagging: readonly LaggingNode[], view: FleetView): string {
  const total = view.nodes.length;
  const [first, ...others] = lagging;
  if (first === undefined) return `${formatCount(total, 'node')} done${doubt(view)}`;
  const named = [first, ...others].slice(0, 3).map(laggingText).join(', ');
  const more = lagging.length > 3 ? ` and ${lagging.length - 3} more` : '';
  return `${total - lagging.length} of ${formatCount(total, 'node')} done; waiting for ${named}${more}`;
}

function doubt(view: FleetView): string {
  const trouble = troubleOf(view);
  const why = trouble === undefined ? '' : ` ${trouble}`;
  if (mayHaveOthers(view)) return `; waiting to hear of other nodes.${why}`;
  return trouble === undefined ? '' : `. There may be more nodes than are known here.${why}`;
}

function laggingText({ node, release }: LaggingNode): string {
  const lacks = isCut(node.status) ? 'not known' : 'does not have it';
  const state = release === undefined ? lacks : phaseText(release);
  return `${node.name} (${node.isAbsent ? 'silent' : state})`;
}
