import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Digest } from '../../domain/model/digest.ts';
import type { Log } from '../../platform/log.ts';
import type { LayerCopies } from '../../ports/blobs.ts';
import type { RecordingMeter } from '../meter.ts';
import type { Offer } from '../offer.ts';
import type { OfferedProbes } from '../probes.ts';
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
  /**
   * Aborts when the offers are known for the first time. Requests that come before wait for it.
   * Undefined: they are known.
   */
  readonly firstOffers?: AbortSignal;
  readonly meter: RecordingMeter;
  readonly log: Log;
  /** Manifests of probes. Default none. */
  readonly probes?: Pick<OfferedProbes, 'manifest' | 'isConfig'>;
  /**
   * Whether the runtime has the image of this reference at this moment. It is asked anew for each
   * request. Default: never.
   */
  readonly isHeld?: (reference: string, signal: AbortSignal) => Promise<boolean>;
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
  /** The manifests that each index names, as far as they were asked for. */
  readonly indexes: Map<Digest, ReadonlySet<Digest>>;
}

/** The digest, or undefined when the offer does not include it. */
export function offered(digest: Digest | undefined, { digests }: Offer): Digest | undefined {
  return digest === undefined || digests === undefined || digests.has(digest) ? digest : undefined;
}
