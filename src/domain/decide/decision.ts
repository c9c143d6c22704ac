import type { PullQueue } from '../preload/pull-schedule.ts';
import type { DocumentLookTest } from '../release/document-look.ts';
import type { PullTest } from '../release/pulls.ts';
import type { Effect } from '../state/effect.ts';
import type { CheckDue } from './release-effects.ts';

export interface Decision {
  readonly effects: readonly Effect[];
  /**
   * Pulls that may follow those of `effects` without another decision; undefined when none may run
   * now.
   */
  readonly pullQueue?: PullQueue;
  /** Starts when all effects are done. */
  readonly pullTest?: PullTest;
  /** Starts when all effects are done. */
  readonly contentCheck?: CheckDue;
  /** Starts when all effects are done. */
  readonly documentLook?: DocumentLookTest;
  /** Pulls begin once the pins and mirrors of this decision are in place. */
  readonly pullsFollow?: true;
  /** When the next round is due at the latest, in milliseconds since the epoch. */
  readonly wakeAt: number | undefined;
}

/** The client of our registry, by `User-Agent`. For routing only: anybody may send any text. */
export type Client = 'runtime' | 'other';

/** What our registry can send of an image now: everything, all but its layers, or less. */
export type Extent = 'whole' | 'documents' | 'partial';

interface ManifestRequest {
  readonly client: Client;
  /**
   * Whether the runtime is to pull this image from us now: its missing layers come, or it waits for
   * them.
   */
  readonly isArriving: boolean;
  readonly extent: Extent;
}

/**
 * Whether a manifest is sent: yes, no, or only if the runtime has the image at this moment. After a
 * 404 the client uses the next registry.
 */
type ManifestAnswer = 'send' | 'withhold' | 'send-if-held';

/**
 * CRI-O, containerd (docs/runtime-facts.md, fact 28) and the embedded runtime. Not skopeo, podman
 * or rpm-ostree.
 */
const RUNTIMES = /^(?:cri-o|containerd|stickpin)\//i;

export function clientOf(userAgent: string | undefined): Client {
  return userAgent !== undefined && RUNTIMES.test(userAgent) ? 'runtime' : 'other';
}

/**
 * A client that has our manifest searches the layers nowhere else (docs/runtime-facts.md, fact 12).
 * So nobody gets a manifest without its layers, but the runtime when it needs none of them: it has
 * the image (docs/runtime-facts.md, fact 50), or it is being loaded from us.
 */
export function manifestAnswer({ client, isArriving, extent }: ManifestRequest): ManifestAnswer {
  if (extent === 'whole') return 'send';
  if (client === 'other') return 'withhold';
  if (isArriving) return 'send';
  return extent === 'documents' ? 'send-if-held' : 'withhold';
}
