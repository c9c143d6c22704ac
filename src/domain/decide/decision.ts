import type { PullQueue } from '../preload/pull-schedule.ts';
import type { DocumentLookTest } from '../release/document-look.ts';
import type { PullTest } from '../release/pulls.ts';
import type { Effect } from '../state/effect.ts';
import type { CheckDue } from './release-effects.ts';

/** What {@link decide} returns. */
export interface Decision {
  readonly effects: readonly Effect[];
  /**
   * Pulls that may follow those of `effects` without another decision; undefined when none may run
   * now.
   */
  readonly pullQueue?: PullQueue;
  /** A pull that tests whether pulls are answered, to be started when all effects are done. */
  readonly pullTest?: PullTest;
  /** A check of the content of images, to be started when all effects are done. */
  readonly contentCheck?: CheckDue;
  /** A look at the documents of releases, to be started when all effects are done. */
  readonly documentLook?: DocumentLookTest;
  /** Pulls begin once the pins and mirrors of this decision are in place. */
  readonly pullsFollow?: true;
  /**
   * When the next round is due at the latest by what was decided, in milliseconds since the epoch.
   */
  readonly wakeAt: number | undefined;
}

/** Who asks our registry, by `User-Agent`. This is for routing only: anybody may send any text. */
export type Client = 'runtime' | 'other';

/** What our registry can send of an image now: everything, all but its layers, or less. */
export type Extent = 'whole' | 'documents' | 'partial';

/** What is known of a request for a manifest. */
interface ManifestRequest {
  readonly client: Client;
  /**
   * Whether the runtime is to pull this image from us now: its missing layers come, or are waited
   * for.
   */
  readonly isArriving: boolean;
  readonly extent: Extent;
}

/**
 * Whether a manifest is sent: yes, no, or only if the runtime has the image at this moment. What is
 * not sent is answered 404, so that the client asks the next registry.
 */
type ManifestAnswer = 'send' | 'withhold' | 'send-if-held';

/**
 * CRI-O, containerd (docs/runtime-facts.md, fact 28) and the embedded runtime. Not skopeo, podman
 * or rpm-ostree.
 */
const RUNTIMES = /^(?:cri-o|containerd|stickpin)\//i;

/** Who sends this `User-Agent`. */
export function clientOf(userAgent: string | undefined): Client {
  return userAgent !== undefined && RUNTIMES.test(userAgent) ? 'runtime' : 'other';
}

/**
 * Decides about a request for a manifest. A client that has our manifest looks for the layers
 * nowhere else (docs/runtime-facts.md, fact 12). So nobody gets a manifest whose layers are not
 * here, but the runtime when it needs none of them: it has the image (docs/runtime-facts.md, fact
 * 50), or it is being loaded from us.
 */
export function manifestAnswer({ client, isArriving, extent }: ManifestRequest): ManifestAnswer {
  if (extent === 'whole') return 'send';
  if (client === 'other') return 'withhold';
  if (isArriving) return 'send';
  return extent === 'documents' ? 'send-if-held' : 'withhold';
}
