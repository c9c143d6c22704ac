import type { QueuePlace } from '../../domain/model/reason.ts';
import type { Clock } from '../../platform/clock.ts';
import { type Busy, wireLimits } from '../wire/documents.ts';

/** Times are monotonic milliseconds. */
interface Holder {
  readonly sinceMs: number;
  running: number;
  /** Meaningless while requests run. */
  idleSinceMs: number;
  isLost: boolean;
}

interface Waiting {
  readonly node: string;
  readonly untilMs: number;
  /** The interval of its requests. */
  readonly retryMs: number;
}

/** How long a node keeps its turn between two blobs while others wait. */
const LINGER_MS = 5_000;
const SHORT_LINGER_MS = 1_000;

/** The longest turn while others wait. Then the node goes to the end of the queue. */
const TURN_MS = 10 * 60_000;

/** The interval of requests of the next node; those behind it wait longer. */
const RETRY_MS = 2_000;

/** A free slot waits for nodes that come this often, not for those behind them. */
const KEEPS_SLOT_MS = 15_000;

/** How late a request may come without the loss of its place. */
const LATE_MS = 3_000;

const REMEMBERED_TURNS = 8;

/** Nodes that load blobs from this one, and those that wait. */
export class ServeTurns {
  private readonly holders = new Map<string, Holder>();
  private queue: Waiting[] = [];
  private tookMs: number[] = [];

  /** @param most `fleet.max_clients` */
  constructor(
    private readonly most: number,
    private readonly clock: Pick<Clock, 'monotonic'>,
  ) {}

  served(): readonly string[] {
    this.tidy();
    return [...this.holders.keys()];
  }

  waiting(): number {
    this.tidy();
    return this.queue.length;
  }

  /** Undefined: the request may run. */
  request(node: string): Busy | undefined {
    const nowMs = this.tidy();
    const holder = this.holders.get(node);
    const others = this.queue.filter((one) => one.node !== node);
    if (holder !== undefined && !isOver(holder, others, nowMs)) {
      holder.running += 1;
      this.queue = others;
      return undefined;
    }
    if (others.length === this.queue.length) this.queue.push({ node, untilMs: nowMs, retryMs: 0 });
    const at = this.queue.findIndex((one) => one.node === node);
    const before = this.queue.slice(0, at).filter(({ retryMs }) => retryMs <= KEEPS_SLOT_MS).length;
    if (holder === undefined && before < this.most - this.holders.size) {
      this.holders.set(node, { sinceMs: nowMs, running: 1, idleSinceMs: nowMs, isLost: false });
      this.queue = others;
      return undefined;
    }
    const place = at + 1;
    const retryMs = Math.min(wireLimits.longestRetryMs, RETRY_MS * Math.ceil(place / this.most));
    this.queue[at] = { node, untilMs: nowMs + retryMs + Math.min(retryMs, KEEPS_SLOT_MS) + LATE_MS, retryMs };
    return { queue: { place, waiting: this.queue.length, ...this.waitOf(place, nowMs) }, retryMs };
  }

  endRequest(node: string): void {
    const holder = this.holders.get(node);
    if (holder === undefined) return;
    holder.running -= 1;
    holder.idleSinceMs = this.clock.monotonic();
    this.tidy();
  }

  /** While others wait. */
  lose(node: string): void {
    this.tidy();
    const holder = this.holders.get(node);
    if (holder !== undefined && this.queue.length > 0) holder.isLost = true;
  }

  isLost(node: string): boolean {
    this.tidy();
    return this.queue.length > 0 && this.holders.get(node)?.isLost === true;
  }

  /** Drops finished nodes, and nodes that did not repeat their request. @returns the time */
  private tidy(): number {
    const nowMs = this.clock.monotonic();
    this.queue = this.queue.filter(({ untilMs }) => untilMs >= nowMs);
    const lingerMs = this.queue.length > 0 ? SHORT_LINGER_MS : LINGER_MS;
    for (const [node, holder] of this.holders) {
      const { running, sinceMs, idleSinceMs } = holder;
      if (running > 0 || (nowMs - idleSinceMs <= lingerMs && !isOver(holder, this.queue, nowMs))) continue;
      this.holders.delete(node);
      this.tookMs = [...this.tookMs, idleSinceMs - sinceMs].slice(-REMEMBERED_TURNS);
    }
    return nowMs;
  }

  /** An estimate from past turns, else from the longest turn. */
  private waitOf(place: number, nowMs: number): Pick<QueuePlace, 'waitMs' | 'mostMs'> {
    const { tookMs, holders, most } = this;
    const isKnown = tookMs.length > 0;
    const turnMs = isKnown ? tookMs.reduce((sum, one) => sum + one, 0) / tookMs.length : TURN_MS;
    const had = Math.max(0, ...[...holders.values()].map(({ sinceMs }) => nowMs - sinceMs));
    const leftMs = Math.round(Math.max(0, Math.ceil(place / most) * turnMs - Math.min(had, turnMs)));
    return isKnown ? { waitMs: leftMs } : { mostMs: leftMs };
  }
}

function isOver({ sinceMs, isLost }: Holder, others: readonly Waiting[], nowMs: number): boolean {
  return others.length > 0 && (isLost || nowMs - sinceMs > TURN_MS);
}
