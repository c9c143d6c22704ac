import type { Socket } from 'node:net';
import { askTurn, endRequest, isTurnLost, loseTurn, NO_TURNS, tidyTurns } from '../../domain/fleet/serve-turns.ts';
import type { Settings } from '../../domain/settings/settings.ts';
import type { Busy } from '../../offers/busy.ts';
import { wireLimits } from '../../offers/documents.ts';
import type { Clock } from '../../platform/clock.ts';
import { type Listeners, listen, notifyAll, type Unsubscribe } from '../../platform/subscription.ts';

export interface ServedNode {
  readonly name: string;
  readonly bytesPerSecond: number;
}

export interface Turn {
  /**
   * Counts sent bytes. Resolves when more may be sent: while other nodes are served as well, the
   * oldest request of a node gets most of its rate, so that the node soon has whole blobs to give
   * on.
   *
   * @throws whatever aborted `signal`
   */
  add(bytes: number, signal: AbortSignal): Promise<void>;
  /** Slow in the last minute, so that it must give way to those that wait. */
  isTooSlow(): boolean;
  /** Idempotent. */
  end(): void;
}

/** Nodes that take blobs from this one. */
export interface ServedNodes {
  /** A turn for one request of a node, or when to retry. */
  ask(node: string): { readonly turn: Turn } | { readonly busy: Busy };
  served(): readonly ServedNode[];
  waiting(): number;
  /** Called when a node begins or ends. */
  onChange(listener: () => void): Unsubscribe;
}

/** Rates are measured over slots of this length. */
const SLOT_MS = 500;
const SLOTS = 10;

/** A slow reader gives way after this time when others wait. */
const JUDGED_MS = 60_000;
const SLOW_BYTES_PER_SECOND = 64 * 1024;

/** A pause after each chunk while an older request of the node moves. */
const GIVE_WAY_MS = 200;

/** A request with bytes in this time moves. */
const MOVES_MS = 500;

interface Running {
  readonly node: string;
  lastMs: number;
}

interface Keeper {
  readonly clock: Clock;
  readonly most: number;
  readonly listeners: Listeners;
  /** Bytes by node and slot of time. */
  readonly sent: Map<string, Map<number, number>>;
  readonly slowBytesPerSecond: number;
  /** Since the last check of its speed. */
  readonly judged: Map<string, { sinceMs: number; bytes: number }>;
  /** The oldest first. */
  readonly running: Set<Running>;
  turns: typeof NO_TURNS;
}

type ServeLimits = Pick<Settings['fleet'], 'max_clients' | 'rate'>;

export function createServedNodes({ max_clients: most, rate }: ServeLimits, clock: Clock): ServedNodes {
  const share = rate === 'unlimited' ? SLOW_BYTES_PER_SECOND : rate / most / 4;
  const keeper: Keeper = {
    clock,
    most,
    listeners: new Set(),
    sent: new Map(),
    slowBytesPerSecond: Math.min(SLOW_BYTES_PER_SECOND, share),
    judged: new Map(),
    running: new Set(),
    turns: NO_TURNS,
  };
  return {
    ask: (node) => ask(keeper, node),
    served: () => {
      const nowMs = clock.monotonic();
      keeper.turns = tidyTurns(keeper.turns, nowMs);
      return [...keeper.turns.holders.keys()].map((name) => ({ name, bytesPerSecond: rateOf(keeper, name, nowMs) }));
    },
    waiting: () => tidyTurns(keeper.turns, clock.monotonic()).waiting.length,
    onChange: (listener) => listen(keeper.listeners, listener),
  };
}

function ask(keeper: Keeper, node: string): { readonly turn: Turn } | { readonly busy: Busy } {
  const { clock, most, listeners, judged } = keeper;
  const nowMs = clock.monotonic();
  const isHolder = tidyTurns(keeper.turns, nowMs).holders.has(node);
  const asked = askTurn(keeper.turns, { node, nowMs, most });
  keeper.turns = asked.turns;
  notifyAll(listeners);
  if (asked.answer.kind === 'wait') return { busy: { queue: asked.answer.queue, retryMs: asked.answer.retryMs } };
  if (!isHolder) judged.set(node, { sinceMs: nowMs, bytes: 0 });
  return { turn: turnOf(keeper, node) };
}

function turnOf(keeper: Keeper, node: string): Turn {
  const { clock } = keeper;
  const own: Running = { node, lastMs: clock.monotonic() };
  keeper.running.add(own);
  let isEnded = false;
  return {
    add: async (bytes, signal) => {
      own.lastMs = clock.monotonic();
      count(keeper, node, bytes);
      if (givesWay(keeper, own)) await clock.sleep(GIVE_WAY_MS, signal);
    },
    isTooSlow: () => isTooSlow(keeper, node),
    end: () => {
      if (isEnded) return;
      isEnded = true;
      keeper.running.delete(own);
      // One that took nothing at all was not checked before.
      isTooSlow(keeper, node);
      keeper.turns = endRequest(keeper.turns, node, clock.monotonic());
      if (!keeper.turns.holders.has(node)) {
        keeper.sent.delete(node);
        keeper.judged.delete(node);
      }
      notifyAll(keeper.listeners);
    },
  };
}

function isTooSlow(keeper: Keeper, node: string): boolean {
  const nowMs = keeper.clock.monotonic();
  const taken = keeper.judged.get(node);
  if (taken !== undefined && nowMs - taken.sinceMs >= JUDGED_MS) {
    const rate = taken.bytes / ((nowMs - taken.sinceMs) / 1_000);
    if (rate < keeper.slowBytesPerSecond) keeper.turns = loseTurn(keeper.turns, node, nowMs);
    keeper.judged.set(node, { sinceMs: nowMs, bytes: 0 });
  }
  return isTurnLost(keeper.turns, node, nowMs);
}

function givesWay({ running, clock }: Keeper, own: Running): boolean {
  const all = [...running];
  if (all.every(({ node }) => node === own.node)) return false;
  const nowMs = clock.monotonic();
  const older = all.slice(0, all.indexOf(own));
  return older.some(({ node, lastMs }) => node === own.node && nowMs - lastMs < MOVES_MS);
}

function count({ sent, judged, clock }: Keeper, node: string, bytes: number): void {
  const taken = judged.get(node);
  if (taken !== undefined) taken.bytes += bytes;
  const slot = Math.floor(clock.monotonic() / SLOT_MS);
  const slots = sent.get(node) ?? new Map<number, number>();
  slots.set(slot, (slots.get(slot) ?? 0) + bytes);
  for (const old of slots.keys()) if (old <= slot - SLOTS) slots.delete(old);
  sent.set(node, slots);
}

function rateOf({ sent }: Keeper, node: string, nowMs: number): number {
  const first = Math.floor(nowMs / SLOT_MS) - SLOTS;
  const recent = [...(sent.get(node) ?? [])].filter(([slot]) => slot > first);
  return recent.reduce((sum, [, bytes]) => sum + bytes, 0) / ((SLOTS * SLOT_MS) / 1_000);
}

/** Limits of connections to the port that other nodes reach. */
const MOST_HANDSHAKES = 64;
const MOST_HANDSHAKES_OF_ADDRESS = 8;
const MOST_KNOWN = 512;

/** Counts connections, and closes excess ones. */
export interface Connections {
  /** A connection with an unknown other end. Closed when there are too many. */
  begin(socket: Socket): boolean;
  /** The other end is known. Closed when the node, or all nodes, have too many. */
  admit(raw: Socket, node: string): boolean;
  count(): number;
  closeAll(): void;
}

export function createConnections(): Connections {
  const unknown = new Map<Socket, string>();
  const known = new Map<Socket, string>();
  const countOf = (map: ReadonlyMap<Socket, string>, key: string) =>
    [...map.values()].filter((one) => one === key).length;
  return {
    begin: (socket) => {
      const address = socket.remoteAddress ?? '';
      const isTooMany = unknown.size >= MOST_HANDSHAKES || countOf(unknown, address) >= MOST_HANDSHAKES_OF_ADDRESS;
      if (isTooMany) {
        socket.resetAndDestroy();
        return false;
      }
      unknown.set(socket, address);
      socket.once('close', () => {
        unknown.delete(socket);
        known.delete(socket);
      });
      return true;
    },
    admit: (socket, node) => {
      unknown.delete(socket);
      if (socket.destroyed) return false;
      if (known.size >= MOST_KNOWN || countOf(known, node) >= wireLimits.ofNode) {
        socket.destroy();
        return false;
      }
      known.set(socket, node);
      return true;
    },
    count: () => known.size,
    closeAll: () => {
      for (const socket of [...unknown.keys(), ...known.keys()]) socket.destroy();
    },
  };
}
