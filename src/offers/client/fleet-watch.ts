import type { FleetView } from '../../domain/fleet/fleet-view.ts';
import { reasonOf } from '../../platform/app-error.ts';
import type { Clock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import { type Listeners, listen, notifyAll } from '../../platform/subscription.ts';
import type { FleetPort } from '../../ports/fleet.ts';
import type { OffersClient } from './client.ts';

/** The options of {@link createFleetWatch}. */
export interface FleetWatchOptions {
  /** The client of `peers.sock`. */
  readonly client: Pick<OffersClient, 'fleet'>;
  readonly clock: Clock;
  readonly log: Log;
}

/** A {@link FleetPort} that follows the fleet process. */
export interface FleetWatch extends FleetPort {
  /** Follows it until `signal` aborts. Never throws. */
  run(signal: AbortSignal): Promise<void>;
}

/** How long the fleet process may wait for a change, in milliseconds. */
const WAIT_MS = 30_000;
/** After so many failures one after the other it is told: it may start later than the daemon. */
const TOLD_AFTER = 4;
/** Shortest time between two answers, whatever they say. */
const LEAST_PAUSE_MS = 200;
/** Pauses before it is asked again that did not answer. */
const PAUSES_MS = [500, 1_000, 2_000, 5_000, 15_000, 30_000] as const;

/**
 * Waits for changes of the fleet process (`/v1/fleet`). While it does not answer, nothing is known
 * of other nodes; the journal says so once.
 */
export function createFleetWatch({ client, clock, log }: FleetWatchOptions): FleetWatch {
  const listeners: Listeners = new Set();
  let view: FleetView | undefined;
  let etag: string | undefined;
  let failures = 0;

  const lose = (error: unknown) => {
    failures += 1;
    if (failures === TOLD_AFTER) {
      log.warn(
        { err: error },
        `${reasonOf(error)}; nothing comes from other nodes, see systemctl status stickpin-fleet`,
      );
    }
    const wasKnown = view !== undefined;
    [view, etag] = [undefined, undefined];
    if (wasKnown) notifyAll(listeners);
  };
  const look = async (signal: AbortSignal) => {
    const next = await client.fleet({ etag, waitMs: WAIT_MS }, signal);
    if (failures >= TOLD_AFTER) log.info({}, 'The fleet process answers');
    failures = 0;
    if (next === undefined) return;
    const { version: _version, ...document } = next.document;
    [view, etag] = [document, next.etag];
    notifyAll(listeners);
  };
  return {
    view: () => view,
    onChange: (listener) => listen(listeners, listener),
    run: async (signal) => {
      while (!signal.aborted) {
        try {
          await look(signal);
          await clock.sleep(LEAST_PAUSE_MS, signal);
        } catch (error) {
          if (signal.aborted) return;
          lose(error);
          const pauseMs = PAUSES_MS[Math.min(failures, PAUSES_MS.length) - 1] ?? 0;
          await clock.sleep(pauseMs, signal).catch(() => undefined);
        }
      }
    },
  };
}
