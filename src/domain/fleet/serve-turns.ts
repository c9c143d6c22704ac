import type { QueuePlace } from '../model/reason.ts';

/** Nodes that load blobs from this one, and those that wait. Times are monotonic milliseconds. */
export interface ServeTurns {
  readonly holders: ReadonlyMap<string, Holder>;
  readonly waiting: readonly Waiting[];
  readonly tookMs: readonly number[];
}

interface Holder {
  readonly sinceMs: number;
  readonly running: number;
  /** Meaningless while requests run. */
  readonly idleSinceMs: number;
  readonly isLost?: true;
}

interface Waiting {
  readonly node: string;
  readonly untilMs: number;
  /** The interval of its requests. */
  readonly retryMs: number;
}

export type TurnAnswer =
  | { readonly kind: 'granted' }
  | { readonly kind: 'wait'; readonly queue: QueuePlace; readonly retryMs: number };

export const NO_TURNS: ServeTurns = { holders: new Map(), waiting: [], tookMs: [] };

/** How long a node keeps its turn between two blobs while others wait. */
const LINGER_MS = 5_000;
const SHORT_LINGER_MS = 1_000;

/** The longest turn while others wait. Then the node goes to the end of the queue. */
const TURN_MS = 10 * 60_000;

/** The interval of requests of the next node; those behind it wait longer. */
const RETRY_MS = 2_000;
const LONGEST_RETRY_MS = 5 * 60_000;

/** A free slot waits for nodes that come this often, not for those behind them. */
const KEEPS_SLOT_MS = 15_000;

/** How late a request may come without the loss of its place. */
const LATE_MS = 3_000;

const REMEMBERED_TURNS = 8;

/** @param most `fleet.max_clients` */
export function requestTurn(
  turns: ServeTurns,
  { node, nowMs, most }: { readonly node: string; readonly nowMs: number; readonly most: number },
): { readonly turns: ServeTurns; readonly answer: TurnAnswer } {
  const tidied = tidyTurns(turns, nowMs);
  const holder = tidied.holders.get(node);
  const others = tidied.waiting.filter((one) => one.node !== node);
  if (holder !== undefined && !isOver(holder, others, nowMs)) {
    return { turns: granted(tidied, node, { ...holder, running: holder.running + 1 }), answer: { kind: 'granted' } };
  }
  const queue = tidied.waiting.some((one) => one.node === node)
    ? tidied.waiting
    : [...tidied.waiting, { node, untilMs: nowMs, retryMs: 0 }];
  const place = queue.findIndex((one) => one.node === node) + 1;
  const before = queue.slice(0, place - 1).filter(({ retryMs }) => retryMs <= KEEPS_SLOT_MS).length;
  if (holder === undefined && before < most - tidied.holders.size) {
    const begun = { sinceMs: nowMs, running: 1, idleSinceMs: nowMs };
    return { turns: granted(tidied, node, begun), answer: { kind: 'granted' } };
  }
  const retryMs = Math.min(LONGEST_RETRY_MS, RETRY_MS * Math.ceil(place / most));
  const untilMs = nowMs + retryMs + Math.min(retryMs, KEEPS_SLOT_MS) + LATE_MS;
  const waiting = queue.map((one) => (one.node === node ? { node, untilMs, retryMs } : one));
  return {
    turns: { ...tidied, waiting },
    answer: {
      kind: 'wait',
      queue: { place, waiting: waiting.length, ...waitOf(tidied, { place, most, nowMs }) },
      retryMs,
    },
  };
}

export function endRequest(turns: ServeTurns, node: string, nowMs: number): ServeTurns {
  const holder = turns.holders.get(node);
  if (holder === undefined) return turns;
  const running = holder.running - 1;
  return tidyTurns(granted(turns, node, { ...holder, running, idleSinceMs: nowMs }, turns.waiting), nowMs);
}

export function loseTurn(turns: ServeTurns, node: string, nowMs: number): ServeTurns {
  const tidied = tidyTurns(turns, nowMs);
  const holder = tidied.holders.get(node);
  if (holder === undefined || tidied.waiting.length === 0) return tidied;
  return granted(tidied, node, { ...holder, isLost: true }, tidied.waiting);
}

export function isTurnLost(turns: ServeTurns, node: string, nowMs: number): boolean {
  const { holders, waiting } = tidyTurns(turns, nowMs);
  return waiting.length > 0 && holders.get(node)?.isLost === true;
}

/** Without finished nodes, and nodes that did not repeat their request. */
export function tidyTurns(turns: ServeTurns, nowMs: number): ServeTurns {
  const waiting = turns.waiting.filter(({ untilMs }) => untilMs >= nowMs);
  const holders = new Map<string, Holder>();
  const ended: number[] = [];
  for (const [node, holder] of turns.holders) {
    const lingerMs = waiting.length > 0 ? SHORT_LINGER_MS : LINGER_MS;
    const rests = holder.running === 0 && (nowMs - holder.idleSinceMs > lingerMs || isOver(holder, waiting, nowMs));
    if (rests) ended.push(holder.idleSinceMs - holder.sinceMs);
    else holders.set(node, holder);
  }
  return { holders, waiting, tookMs: [...turns.tookMs, ...ended].slice(-REMEMBERED_TURNS) };
}

function granted(
  turns: ServeTurns,
  node: string,
  holder: Holder,
  waiting: readonly Waiting[] = turns.waiting.filter((one) => one.node !== node),
): ServeTurns {
  return { ...turns, holders: new Map([...turns.holders, [node, holder]]), waiting };
}

function isOver({ sinceMs, isLost }: Holder, others: readonly Waiting[], nowMs: number): boolean {
  return others.length > 0 && (isLost === true || nowMs - sinceMs > TURN_MS);
}

/** An estimate from past turns, else from the longest turn. */
function waitOf(
  { tookMs, holders }: ServeTurns,
  { place, most, nowMs }: { readonly place: number; readonly most: number; readonly nowMs: number },
): Pick<QueuePlace, 'waitMs' | 'mostMs'> {
  const isKnown = tookMs.length > 0;
  const turnMs = isKnown ? tookMs.reduce((sum, one) => sum + one, 0) / tookMs.length : TURN_MS;
  const had = Math.max(0, ...[...holders.values()].map(({ sinceMs }) => nowMs - sinceMs));
  const leftMs = Math.round(Math.max(0, Math.ceil(place / most) * turnMs - Math.min(had, turnMs)));
  return isKnown ? { waitMs: leftMs } : { mostMs: leftMs };
}
