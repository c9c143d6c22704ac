import type { PullQueue } from '../preload/pull-schedule.ts';
import type { DocumentLookTest } from '../release/document-look.ts';
import type { PullTest } from '../release/pulls.ts';
import type { Effect } from '../state/effect.ts';
import type { CheckDue } from './release-effects.ts';

export interface Decision {
  readonly effects: readonly Effect[];
  readonly pullQueue?: PullQueue;
  /** Starts when all effects are done. */
  readonly pullTest?: PullTest;
  readonly contentCheck?: CheckDue;
  readonly documentLook?: DocumentLookTest;
  readonly pullsFollow?: true;
  /** When the next round is due at the latest, in milliseconds since the epoch. */
  readonly wakeAt: number | undefined;
}

/** By `User-Agent`. For routing only: a client may send any text. */
export type Client = 'runtime' | 'other';

export type Extent = 'whole' | 'documents' | 'partial';

interface ManifestRequest {
  readonly client: Client;
  readonly isArriving: boolean;
  readonly extent: Extent;
}

/** After a 404 the client uses the next registry. */
type ManifestAnswer = 'send' | 'withhold' | 'send-if-held';

/** CRI-O, containerd (docs/runtime-facts.md, fact 28) and the embedded runtime. */
const RUNTIMES = /^(?:cri-o|containerd|stickpin)\//i;

export function clientOf(userAgent: string | undefined): Client {
  return userAgent !== undefined && RUNTIMES.test(userAgent) ? 'runtime' : 'other';
}

/**
 * Once a client has our manifest, it searches the layers nowhere else (docs/runtime-facts.md, facts
 * 12 and 50). So a manifest goes out only with its layers, or to a runtime that has the image or
 * loads it from us.
 */
export function manifestAnswer({ client, isArriving, extent }: ManifestRequest): ManifestAnswer {
  if (extent === 'whole') return 'send';
  if (client === 'other') return 'withhold';
  if (isArriving) return 'send';
  return extent === 'documents' ? 'send-if-held' : 'withhold';
}
