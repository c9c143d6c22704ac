import type { Settings } from '../../domain/settings/settings.ts';
import type { Clock } from '../../platform/clock.ts';
import type { Busy } from '../wire/documents.ts';
import { ServeTurns } from './serve-turns.ts';

export interface ServedNode {
  readonly name: string;
  readonly bytesPerSecond: number;
}

/** What one request is granted. */
export interface Turn {
  /** Counts sent bytes. */
  add(bytes: number): void;
  /** Slow in the last minute, so that it must give way to those that wait. */
  isTooSlow(): boolean;
  /** Idempotent. */
  end(): void;
}

/** Rates are measured over slots of this length. */
const SLOT_MS = 500;
const SLOTS = 10;

/** A slow reader gives way after this time when others wait. */
const JUDGED_MS = 60_000;
const SLOW_BYTES_PER_SECOND = 64 * 1024;

/** Nodes that take blobs from this one. */
export class ServedNodes {
  private readonly slowBytesPerSecond: number;
  /** Bytes by node and slot of time. */
  private readonly sent = new Map<string, Map<number, number>>();
  /** Since the last check of its speed. */
  private readonly judged = new Map<string, { sinceMs: number; bytes: number }>();
  private readonly turns: ServeTurns;

  constructor(
    { max_clients: most, rate }: Pick<Settings['fleet'], 'max_clients' | 'rate'>,
    private readonly clock: Clock,
  ) {
    this.turns = new ServeTurns(most, clock);
    const share = rate === 'unlimited' ? SLOW_BYTES_PER_SECOND : rate / most / 4;
    this.slowBytesPerSecond = Math.min(SLOW_BYTES_PER_SECOND, share);
  }

  /** A turn for one request of a node, or when to retry. */
  request(node: string): { readonly turn: Turn } | { readonly busy: Busy } {
    const isHolder = this.turns.served().includes(node);
    const busy = this.turns.request(node);
    if (busy !== undefined) return { busy };
    if (!isHolder) this.judged.set(node, { sinceMs: this.clock.monotonic(), bytes: 0 });
    let isRunning = true;
    const end = () => {
      if (isRunning) this.end(node);
      isRunning = false;
    };
    return { turn: { add: (bytes) => this.count(node, bytes), isTooSlow: () => this.isTooSlow(node), end } };
  }

  served(): readonly ServedNode[] {
    return this.turns.served().map((name) => ({ name, bytesPerSecond: this.rateOf(name) }));
  }

  waiting(): number {
    return this.turns.waiting();
  }

  private end(node: string): void {
    // One that took nothing at all was not checked before.
    this.isTooSlow(node);
    this.turns.endRequest(node);
    if (this.turns.served().includes(node)) return;
    this.sent.delete(node);
    this.judged.delete(node);
  }

  private isTooSlow(node: string): boolean {
    const nowMs = this.clock.monotonic();
    const taken = this.judged.get(node);
    if (taken !== undefined && nowMs - taken.sinceMs >= JUDGED_MS) {
      const rate = taken.bytes / ((nowMs - taken.sinceMs) / 1_000);
      if (rate < this.slowBytesPerSecond) this.turns.lose(node);
      this.judged.set(node, { sinceMs: nowMs, bytes: 0 });
    }
    return this.turns.isLost(node);
  }

  private count(node: string, bytes: number): void {
    const taken = this.judged.get(node);
    if (taken !== undefined) taken.bytes += bytes;
    const slot = Math.floor(this.clock.monotonic() / SLOT_MS);
    const slots = this.sent.get(node) ?? new Map<number, number>();
    slots.set(slot, (slots.get(slot) ?? 0) + bytes);
    for (const old of slots.keys()) if (old <= slot - SLOTS) slots.delete(old);
    this.sent.set(node, slots);
  }

  private rateOf(node: string): number {
    const first = Math.floor(this.clock.monotonic() / SLOT_MS) - SLOTS;
    const recent = [...(this.sent.get(node) ?? [])].filter(([slot]) => slot > first);
    return recent.reduce((sum, [, bytes]) => sum + bytes, 0) / ((SLOTS * SLOT_MS) / 1_000);
  }
}

/** After a pause. */
const BURST_MS = 250;

/** Keeps all nodes together below a rate. */
export class Pace {
  private nextMs = Number.NEGATIVE_INFINITY;

  /** @param rate in bytes per second (`fleet.rate`) */
  constructor(
    private readonly rate: number | 'unlimited',
    private readonly clock: Clock,
  ) {}

  /** Resolves when `bytes` may be sent. Callers take turns. */
  async take(bytes: number, signal: AbortSignal): Promise<void> {
    if (this.rate === 'unlimited') return;
    const nowMs = this.clock.monotonic();
    this.nextMs = Math.max(this.nextMs, nowMs - BURST_MS) + (bytes / this.rate) * 1_000;
    if (this.nextMs > nowMs) await this.clock.sleep(this.nextMs - nowMs, signal);
  }
}
