import type { NodeStatus } from '../../domain/fleet/node-status.ts';
import type { OffersClient } from '../../offers/client/client.ts';
import type { OffersDocument } from '../../offers/documents.ts';
import { reasonOf } from '../../platform/app-error.ts';
import type { Clock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import { type Listeners, listen, notifyAll, type Unsubscribe } from '../../platform/subscription.ts';
import { createTrouble, type Trouble, USUAL_MS } from '../trouble.ts';

/** The offers of the own daemon. */
export interface OwnOffers {
  /** Nothing while the daemon does not answer. */
  bundles(): OffersDocument['bundles'];
  /** For other nodes: with the name and the status of this node. */
  document(): OffersDocument;
  /** Since the start. */
  hasAnswered(): boolean;
  isDaemonAway(): boolean;
  onChange(listener: () => void): Unsubscribe;
  statusChanged(): void;
  /** Follows the daemon until `signal` aborts. Never throws. */
  run(signal: AbortSignal): Promise<void>;
}

export interface OwnOffersOptions {
  readonly client: Pick<OffersClient, 'offers'>;
  readonly self: () => string;
  readonly status: () => NodeStatus | undefined;
  readonly clock: Clock;
  readonly log: Log;
}

/** Long poll. */
const WAIT_MS = 30_000;
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 15_000;

interface Followed extends OwnOffersOptions {
  readonly listeners: Listeners;
  bundles: OffersDocument['bundles'];
  etag?: string | undefined;
  hasAnswered: boolean;
  readonly away: Trouble;
}

export function createOwnOffers(options: OwnOffersOptions): OwnOffers {
  const away = createTrouble(options.log, { clock: options.clock, forMs: USUAL_MS });
  const own: Followed = { ...options, listeners: new Set(), bundles: [], hasAnswered: false, away };
  return {
    bundles: () => own.bundles,
    document: () => {
      const status = own.status();
      const node = { name: own.self(), ...(status !== undefined && { status }) };
      return { version: 1, bundles: own.bundles, node };
    },
    hasAnswered: () => own.hasAnswered,
    isDaemonAway: () => own.away.current() !== undefined,
    onChange: (listener) => listen(own.listeners, listener),
    statusChanged: () => notifyAll(own.listeners),
    run: (signal) => follow(own, signal),
  };
}

async function follow(own: Followed, signal: AbortSignal): Promise<void> {
  let pauseMs = FIRST_PAUSE_MS;
  while (!signal.aborted) {
    try {
      const answer = await own.client.offers({ etag: own.etag, waitMs: WAIT_MS }, signal);
      pauseMs = FIRST_PAUSE_MS;
      logBack(own);
      if (answer !== undefined) takeAnswer(own, answer.document.bundles, answer.etag);
      // A daemon that does not wait needs a pause.
      else await own.clock.sleep(FIRST_PAUSE_MS, signal);
    } catch (error) {
      if (signal.aborted) return;
      logAway(own, error);
      take(own, [], undefined);
      await own.clock.sleep(pauseMs, signal).catch(() => undefined);
      pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS);
    }
  }
}

function takeAnswer(own: Followed, bundles: OffersDocument['bundles'], etag: string | undefined): void {
  const isFirst = !own.hasAnswered;
  own.hasAnswered = true;
  const isNotified = take(own, bundles, etag);
  if (isFirst && !isNotified) notifyAll(own.listeners);
}

/** @returns whether listeners were called */
function take(own: Followed, bundles: OffersDocument['bundles'], etag: string | undefined): boolean {
  own.etag = etag;
  if (JSON.stringify(bundles) === JSON.stringify(own.bundles)) return false;
  own.bundles = bundles;
  notifyAll(own.listeners);
  return true;
}

function logBack({ away, listeners }: Followed): void {
  if (away.end('The daemon answers again: other nodes get its bundles')) notifyAll(listeners);
}

function logAway({ away, listeners }: Followed, error: unknown): void {
  const isBegin = away.current() === undefined;
  away.begin(`Other nodes get nothing from this one: ${reasonOf(error)}. See systemctl status stickpin`, error);
  if (isBegin) notifyAll(listeners);
}
