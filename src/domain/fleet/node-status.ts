import * as v from 'valibot';
import { digestOf } from '../../platform/digest.ts';
import { plainDocument } from '../../platform/plain-text.ts';
import { is, maybe, type Parsed } from '../../platform/schema.ts';
import { PHASES } from '../model/condition.ts';
import { type BundleId, hexOf } from '../model/digest.ts';
import type { Labels } from '../model/roll-out-order.ts';
import { MOST_PAUSES, type Pause, pause } from './pause.ts';
import type { RollOutProgress } from './progress.ts';

/** Most bytes of the annotation: annotations of a Node are read by many programs. */
export const NODE_STATUS_BYTES = 2_048;

/** Most releases of a status, also on the wire. */
export const NODE_STATUS_RELEASES = 100;

const shortText = (maximum: number) => v.pipe(v.string(), v.minLength(1), v.maxLength(maximum));
const shortId = v.pipe(v.string(), v.regex(/^[0-9a-f]{16}$/));

/** A release as other nodes see it. */
const release = v.object({
  name: shortText(253),
  version: shortText(253),
  bundle: is(shortId, 'The first 16 hex digits of the id of its bundle.'),
  phase: v.picklist(PHASES.map(({ phase }) => phase)),
  current: maybe(v.boolean(), 'It was activated last of its stream: its tags are in force.'),
  runs: maybe(v.boolean(), "Whether containers run from it; absent when they don't show it, or it is not known."),
  percent: maybe(
    v.pipe(v.number(), v.minValue(0), v.maxValue(100)),
    'Share of its images that is loaded; while it is preloaded.',
  ),
  incomplete: maybe(v.literal(true), 'Images are lacking or not pinned, though the phase says more.'),
  reason: maybe(shortText(253), 'Code of the reason why it does not continue.'),
  begun: maybe(v.literal(true), 'Its activation is due, or runs.'),
  rolledBack: maybe(v.literal(true), 'It was rolled back after its last activation.'),
  back: maybe(v.literal(true), 'It was rolled back, and only a pause holds it on the other nodes.'),
  disturbedMs: maybe(
    v.pipe(v.number(), v.minValue(0)),
    'Changes when containers of it restart: then a soak begins anew on the other nodes.',
  ),
  fails: maybe(v.literal(true), 'Containers of it exit with errors, and none of these components runs.'),
  degraded: maybe(
    v.literal(true),
    'It is activated, and its images or pins are missing, or it is not trusted any more.',
  ),
});

/** What a node reports to the others, on the wire and as version 1 of the annotation. */
export const nodeStatus = v.object({
  version: v.literal(1),
  arch: maybe(shortText(63), 'GOARCH of the node; absent from an older stickpin.'),
  releases: v.pipe(v.array(release), v.maxLength(NODE_STATUS_RELEASES)),
  wants: maybe(
    v.pipe(v.array(v.object({ name: shortText(253), version: shortText(253) })), v.maxLength(100)),
    'Releases that the node lacks and no node can give: a stick in any node brings them.',
  ),
  rejects: maybe(
    v.pipe(v.array(shortId), v.maxLength(100)),
    'The first 16 hex digits of the ids of bundles that it sees and rejects, as one without a trusted signature; absent where there is none, and from an older stickpin.',
  ),
  more: maybe(
    v.pipe(v.number(), v.integer(), v.minValue(0)),
    'How many releases did not fit. Whether the node has an unnamed release is unknown then.',
  ),
  pauses: maybe(v.pipe(v.array(pause), v.maxLength(MOST_PAUSES)), 'Pauses of roll-outs, also lifted ones.'),
});

export type ReleaseStatus = Parsed<typeof release>;
export type NodeStatus = Parsed<typeof nodeStatus>;

/** Whether a node has more releases than its status names. */
export function isCut(status: NodeStatus | undefined): boolean {
  return (status?.more ?? 0) > 0;
}

/**
 * Unknown members are ignored. Undefined for what is no status of this version: another tool may
 * have written the annotation.
 */
export function parseNodeStatus(document: unknown): NodeStatus | undefined {
  const result = v.safeParse(nodeStatus, document);
  return result.success ? result.output : undefined;
}

/** {@link parseNodeStatus} for the text of the annotation. Control characters are removed. */
export function parseStatusAnnotation(text: string): NodeStatus | undefined {
  if (text.length > 4 * NODE_STATUS_BYTES) return undefined;
  try {
    return parseNodeStatus(plainDocument(JSON.parse(text)));
  } catch {
    return undefined;
  }
}

/** Prefix of all that stickpin writes into the metadata of a Node. */
export const LABEL_PREFIX = 'stickpin.io/';

/**
 * The longest part of a label's key behind the slash, and the longest value (Kubernetes, "Labels").
 */
const LABEL_CHARACTERS = 63;

const LABEL_TEXT = /^[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?$/;

/** The longest of both, so that both labels of a stream end in the same name. */
const LONGEST_KIND = 'release-'.length;

/**
 * `release`: the activated release of a stream; `ready`: the newest one whose images are all
 * present and pinned: `stickpin.io/ready-ocp`.
 */
export function releaseLabel(kind: 'release' | 'ready', stream: string): string {
  return `${LABEL_PREFIX}${kind}-${streamInLabels(stream)}`;
}

/**
 * The version, or `v-` and 16 hex digits where it is no valid label value, as with a `+`.
 *
 * @param bundle the first 16 hex digits of the bundle's id
 */
export function versionInLabels({ version, bundle }: { readonly version: string; readonly bundle: string }): string {
  return isLabelText(version, LABEL_CHARACTERS) ? version : `v-${bundle}`;
}

/** The name, or 12 hex digits of its SHA-256 where it does not fit. */
function streamInLabels(stream: string): string {
  if (isLabelText(stream, LABEL_CHARACTERS - LONGEST_KIND)) return stream;
  return hexOf(digestOf(stream)).slice(0, 12);
}

function isLabelText(text: string, longest: number): boolean {
  return text.length <= longest && LABEL_TEXT.test(text);
}

/** Code of the reason why nothing is taken from a peer. */
export const LEFT_OUT = 'fleet/left-out';

export interface OfferedBundle {
  readonly bundleId: BundleId;
  /** Its payload has this name. It is for people, and not verified. */
  readonly name: string;
  readonly version: string;
  readonly sequence: number;
  /** Whether the node has every blob of the bundle itself. */
  readonly isWhole: boolean;
  /** Changes with the set of present blobs. */
  readonly revision: string;
}

export interface Peer {
  /** The name of its Node, or its address where that is not known. */
  readonly name: string;
  /** `10.0.0.4:9777`. */
  readonly address: string;
  /** Why it does not answer; absent while it does. */
  readonly trouble?: string;
  /** Since when, in milliseconds since the epoch, once that has lasted for a minute. */
  readonly since?: number;
  /** Why the fleet process requests nothing of it for a time; absent while it does. */
  readonly leftOut?: string;
  /** `sha256:…` of its certificate, once it proved who it is. */
  readonly certificate?: string;
  /** Bundles that it offered or announced, once it has not answered for a minute. */
  readonly unreached?: readonly BundleId[];
  readonly bundles: readonly OfferedBundle[];
}

export interface FleetNode {
  readonly name: string;
  /** Its last report; absent when there was none that could be read. */
  readonly status?: NodeStatus;
  /**
   * Its last sign of life, in milliseconds since the epoch, for people; absent when there was none.
   */
  readonly seenAt?: number;
  /**
   * It gave no sign of life for `fleet.absent`, by the monotonic clock, while the fleet process
   * listened. A jump of the wall clock and a restart of the process make no node absent.
   */
  readonly isAbsent: boolean;
  /** It gave no sign of life for minutes. */
  readonly isSilent?: true;
  /** Absent where the Kubernetes API has not shown its Node. */
  readonly facts?: NodeFacts;
}

/** What its Node object says. Other nodes can't write to it. */
export interface NodeFacts {
  /** Those that {@link FleetView.readLabels} names, and that of the control plane. */
  readonly labels: Labels;
  /** Its kubelet says so. Absent while only metadata is read. */
  readonly isReady?: boolean;
  readonly isCordoned?: boolean;
}

/** What the fleet process reports to the daemon about the cluster. */
export interface FleetView {
  /** The name of the own Node. */
  readonly self: string;
  /** By name, with the own one. */
  readonly nodes: readonly FleetNode[];
  readonly peers: readonly Peer[];
  /** Why the Kubernetes API is not read now; absent while it is. */
  readonly apiTrouble?: string;
  /** With `fleet.auth = "keys"`: a list takes the place of the Kubernetes API. */
  readonly keys?: FleetKeys;
  /** Other nodes may have changed: they are read anew once this node needs something. */
  readonly isOld?: true;
  /** Kubernetes has no Node of this name any more: other nodes do not listen to this one. */
  readonly isRemoved?: true;
  /** How long the fleet process has searched other nodes. Default `new`. */
  readonly search?: Search;
  /** Keys of the labels that are read, with `Ready` and cordons; absent while they are not. */
  readonly readLabels?: readonly string[];
  /** The lock of `update.fleet_lock`; absent without that setting. */
  readonly lock?: RebootLock;
  /** Setting `fleet.exclude`: names of nodes that are in none of the lists here. */
  readonly removed?: readonly string[];
  /** All that the daemon of this node knows; the part of others is in their reports too. */
  readonly pauses?: readonly Pause[];
  /** Releases that this node waits for or runs, while other nodes are not done. */
  readonly rollOuts?: readonly ShownRollOut[];
}

/** What is known of the list in `fleet.keys_file`. */
export interface FleetKeys {
  /** A list is in use that names all nodes. Otherwise nodes may be missing. */
  readonly isRead: boolean;
  /** What a person corrects; absent where nothing is wrong. */
  readonly trouble?: string;
}

/** What the daemon of this node reported. */
export interface ShownRollOut {
  readonly name: string;
  readonly version: string;
  readonly progress: RollOutProgress;
}

export interface RebootLock {
  readonly isHeld: boolean;
  /** Why it was not given; absent while nothing was tried. */
  readonly why?: string;
}

export type Search = (typeof SEARCHES)[number];

/**
 * Since the start of the fleet process. `new`: the Kubernetes API and peers may not have answered
 * yet. `long`: for `fleet.absent`.
 */
export const SEARCHES = ['new', 'short', 'long'] as const;
