import * as v from 'valibot';
import { plainDocument } from '../../platform/plain-text.ts';
import { PHASES, type Phase } from '../model/phase.ts';

/** Most bytes of the annotation: annotations of a Node are read by many programs. */
export const NODE_STATUS_BYTES = 2_048;

/** Most releases of a status, also on the wire. */
export const NODE_STATUS_RELEASES = 100;

/** One release as other nodes see it. */
export interface ReleaseStatus {
  readonly name: string;
  readonly version: string;
  /** The first 16 hex digits of the id of its bundle. */
  readonly bundle: string;
  readonly phase: Phase;
  /** Whether it is the one of its stream that was activated last, whose tags hold. */
  readonly current?: boolean;
  /**
   * Whether containers run from it, where that shows; absent when it does not, or is not known.
   */
  readonly runs?: boolean;
  /** Share of its images that is loaded, 0 to 100; while it is preloaded. */
  readonly percent?: number;
  /** Images are lacking or not pinned, though the phase says more. */
  readonly incomplete?: true;
  /** Code of the reason why it does not go on. */
  readonly reason?: string;
}

/** What a node tells the others about itself, on the wire and as version 1 of the annotation. */
export interface NodeStatus {
  readonly version: 1;
  /** GOARCH of the node; absent where an older stickpin tells nothing of it. */
  readonly arch?: string;
  readonly releases: readonly ReleaseStatus[];
  /** Releases that the node lacks and no node can give: a stick in any node brings them. */
  readonly wants?: readonly { readonly name: string; readonly version: string }[];
  /**
   * The first 16 hex digits of the ids of bundles that it sees and rejects, as one without a
   * trusted signature; absent where there is none, and from an older stickpin.
   */
  readonly rejects?: readonly string[];
  /** How many releases did not fit: whether the node has one that is not named is unknown then. */
  readonly more?: number;
}

/** Whether a node has more releases than its status names. */
export function isCut(status: NodeStatus | undefined): boolean {
  return (status?.more ?? 0) > 0;
}

const shortText = (maximum: number) => v.pipe(v.string(), v.minLength(1), v.maxLength(maximum));

const shortId = v.pipe(v.string(), v.regex(/^[0-9a-f]{16}$/));

const release = v.object({
  name: shortText(253),
  version: shortText(253),
  bundle: shortId,
  phase: v.picklist(PHASES.map(({ phase }) => phase)),
  current: v.optional(v.boolean()),
  runs: v.optional(v.boolean()),
  percent: v.optional(v.pipe(v.number(), v.minValue(0), v.maxValue(100))),
  incomplete: v.optional(v.literal(true)),
  reason: v.optional(shortText(253)),
});

const nodeStatus: v.GenericSchema<unknown, NodeStatus> = v.object({
  version: v.literal(1),
  arch: v.optional(shortText(63)),
  releases: v.pipe(v.array(release), v.maxLength(NODE_STATUS_RELEASES)),
  wants: v.optional(v.pipe(v.array(v.object({ name: shortText(253), version: shortText(253) })), v.maxLength(100))),
  rejects: v.optional(v.pipe(v.array(shortId), v.maxLength(100))),
  more: v.optional(v.pipe(v.number(), v.integer(), v.minValue(0))),
}) as v.GenericSchema<unknown, NodeStatus>;

/**
 * Reads a status that another node wrote. Unknown members are ignored. Undefined for what is no
 * status of this version: another tool may have written the annotation.
 */
export function parseNodeStatus(document: unknown): NodeStatus | undefined {
  const result = v.safeParse(nodeStatus, document);
  return result.success ? result.output : undefined;
}

/** As {@link parseNodeStatus}, for the text of the annotation, without control characters. */
export function parseStatusAnnotation(text: string): NodeStatus | undefined {
  if (text.length > 4 * NODE_STATUS_BYTES) return undefined;
  try {
    return parseNodeStatus(plainDocument(JSON.parse(text)));
  } catch {
    return undefined;
  }
}
