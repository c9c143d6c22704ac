import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Digest } from '../../domain/model/digest.ts';
import type { Log } from '../../platform/log.ts';
import type { LayerStore } from '../../ports/blobs.ts';
import type { RecordingMeter } from '../meter.ts';
import type { Offer } from '../offer.ts';
import type { ReadTurns } from '../read-turns.ts';
import type { TransferDependencies } from '../transfer.ts';

/** What the pull API is made of. */
export interface PullApiOptions extends Omit<TransferDependencies, 'onWait' | 'turn'> {
  /** 32 hex digits that every path but the ping carries, or undefined. */
  readonly token: string | undefined;
  /**
   * What is offered under a repository's path; `namespace` is the registry that containerd says it
   * stands in for (`?ns=quay.io`).
   */
  readonly find: (path: string, namespace: string | undefined) => Offer | undefined;
  readonly meter: RecordingMeter;
  readonly log: Log;
  /** Where layers are kept while they pass by; default none are. */
  readonly layers?: Pick<LayerStore, 'begin'>;
}

/** A request and its response. */
export interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

/** What the answers work on. */
export interface PullApi extends PullApiOptions {
  readonly turns: ReadTurns;
}

/** The digest, unless the offer is limited to others. */
export function offered(digest: Digest | undefined, { digests }: Offer): Digest | undefined {
  return digest === undefined || digests === undefined || digests.has(digest) ? digest : undefined;
}

/**
 * One for all: without it each abort makes an error of its own, with the stack, and every response
 * ends with one.
 */
export const CLOSED = new Error('the connection to the runtime is closed');

/**
 * Aborts when the response's connection closes, whether it was finished or not; at once when it is
 * closed already.
 */
export function closeSignal(response: ServerResponse): AbortSignal {
  const controller = new AbortController();
  // A client that left while it was being admitted closed it before anybody listened.
  if (response.destroyed) controller.abort(CLOSED);
  else response.once('close', () => controller.abort(CLOSED));
  return controller.signal;
}
