import type { Digest } from '../../domain/model/digest.ts';
import type { PeerState } from '../../domain/model/medium.ts';
import { type Busy, busyOf } from '../../offers/busy.ts';
import { untilAborted, withEither } from '../../platform/async/abort.ts';
import type { Clock } from '../../platform/clock.ts';
import { type Listeners, listen, notifyAll, type Unsubscribe } from '../../platform/subscription.ts';

interface PeerTurnOptions {
  /** Asks for one byte of a blob, to keep the place in the queue. Throws as the client does. */
  readonly ask: (digest: Digest, signal: AbortSignal) => Promise<void>;
  readonly changed: () => void;
  readonly clock: Clock;
  /** A number from 0 to 1, so that many nodes don't ask at the same moment. */
  readonly random: () => number;
}

/** Whether a peer can be read, and its queue. */
export interface PeerTurn {
  state(): PeerState;
  /** The peer is busy. It is asked again for this blob until it is not. */
  busy(busy: Busy, digest: Digest): void;
  /** The peer did not answer. It counts as ready again after a pause that grows. */
  failed(): void;
  worked(): void;
  /** Resolves when the peer is ready; at once while it is. @throws whatever aborted `signal` */
  untilReady(signal: AbortSignal): Promise<void>;
  close(): void;
}

/** Pauses after failures without a success between them. */
const PAUSES_MS = [1_000, 2_000, 5_000, 15_000, 30_000] as const;

interface Turn extends PeerTurnOptions {
  readonly life: AbortController;
  state: PeerState;
  failures: number;
  readonly listeners: Listeners;
}

const READY: PeerState = { isReady: true };

export function createPeerTurn(options: PeerTurnOptions): PeerTurn {
  const turn: Turn = { ...options, life: new AbortController(), state: READY, failures: 0, listeners: new Set() };
  return {
    state: () => (turn.failures === 0 ? turn.state : { ...turn.state, hasFailed: true }),
    busy: (busy, digest) => {
      if (turn.state.isReady) void queueUp(turn, busy, digest).catch(() => undefined); // only an abort throws
    },
    failed: () => {
      if (turn.state.isReady) void rest(turn).catch(() => undefined); // only an abort throws
    },
    worked: () => {
      turn.failures = 0;
    },
    untilReady: (signal) => untilReady(turn, signal),
    close: () => turn.life.abort(),
  };
}

async function untilReady({ life, listeners, state }: Turn, signal: AbortSignal): Promise<void> {
  if (state.isReady) return;
  let stop: Unsubscribe = () => undefined;
  const ready = new Promise<void>((resolve) => {
    stop = listen(listeners, resolve);
  });
  await withEither([signal, life.signal], (either) => untilAborted(ready, either)).finally(stop);
}

async function queueUp(turn: Turn, first: Busy, digest: Digest): Promise<void> {
  for (let busy: Busy | undefined = first; busy !== undefined; ) {
    const { queue, retryMs } = busy;
    move(turn, { isReady: false, ...(queue !== undefined && { queue }) });
    // Not later than the peer asks for: it keeps the place only until then.
    await turn.clock.sleep(retryMs * (0.7 + 0.3 * turn.random()), turn.life.signal);
    busy = await askAgain(turn, digest);
  }
  move(turn, READY);
}

/** Undefined when it is no longer busy: what else is wrong shows with the next read. */
async function askAgain(turn: Turn, digest: Digest): Promise<Busy | undefined> {
  try {
    await turn.ask(digest, turn.life.signal);
    return undefined;
  } catch (error) {
    turn.life.signal.throwIfAborted();
    return busyOf(error);
  }
}

async function rest(turn: Turn): Promise<void> {
  const pauseMs = PAUSES_MS[Math.min(turn.failures, PAUSES_MS.length - 1)] ?? 0;
  turn.failures += 1;
  move(turn, { isReady: false });
  await turn.clock.sleep(pauseMs * (0.7 + 0.6 * turn.random()), turn.life.signal);
  move(turn, READY);
}

function move(turn: Turn, state: PeerState): void {
  turn.state = state;
  turn.changed();
  if (state.isReady) notifyAll(turn.listeners);
}
