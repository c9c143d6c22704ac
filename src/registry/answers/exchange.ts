import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Digest } from '../../domain/model/digest.ts';
import type { Log } from '../../platform/log.ts';
import type { LayerCopies } from '../../ports/blobs.ts';
import type { RecordingMeter } from '../meter.ts';
import type { Offer } from '../offer.ts';
import type { ReadTurns } from '../read-turns.ts';
import type { TransferDependencies } from '../transfer.ts';

/** The adapters of the pull API. */
export interface PullApiOptions extends Omit<TransferDependencies, 'onWait' | 'turn'> {
  /** 32 hex digits that every path except the ping must have, or undefined. */
  readonly token: string | undefined;
  /**
   * Finds the offer of a repository path. `namespace` is the original registry, which containerd
   * sends as `?ns=quay.io`.
   */
  readonly find: (path: string, namespace: string | undefined) => Offer | undefined;
  readonly meter: RecordingMeter;
  readonly log: Log;
  /** The store for layers, which are kept during their transfer. Default none. */
  readonly layers?: Pick<LayerCopies, 'begin'>;
}

/** A request and its response. */
export interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

/** The pull API, as the answers use it. */
export interface PullApi extends PullApiOptions {
  readonly turns: ReadTurns;
}

/** The digest, or undefined when the offer does not include it. */
export function offered(digest: Digest | undefined, { digests }: Offer): Digest | undefined {
  return digest === undefined || digests === undefined || digests.has(digest) ? digest : undefined;
}

/**
 * One shared error: every response ends with an abort, and a new error each time would also record
 * a stack.
 */
export const CLOSED = new Error('the connection to the runtime is closed');

/** Aborts when the connection of the response closes, or at once when it is closed already. */
export function closeSignal(response: ServerResponse): AbortSignal {
  const controller = new AbortController();
  // The client may have closed the connection while it was being admitted, before there was a
  // listener.
  if (response.destroyed) controller.abort(CLOSED);
  else response.once('close', () => controller.abort(CLOSED));
  return controller.signal;
}
