import { createHmac } from 'node:crypto';
import * as v from 'valibot';
import type { RebootLock } from '../domain/fleet/node-status.ts';
import type { Settings } from '../domain/settings/settings.ts';
import { reasonOf } from '../platform/app-error.ts';
import { withDeadline } from '../platform/async/abort.ts';
import { pauseAfter } from '../platform/backoff.ts';
import type { Clock } from '../platform/clock.ts';
import { defined } from '../platform/defined.ts';
import { HttpClient, wholeBody } from '../platform/http-client.ts';
import type { Log } from '../platform/log.ts';
import { clip, oneLine } from '../platform/plain-text.ts';
import { Observable } from '../platform/subscription.ts';
import type { OwnBundle, OwnReport } from './publish/own-report.ts';
import { Trouble } from './trouble.ts';

type Operation = 'pre-reboot' | 'steady-state';

const ANSWER_MS = 30_000;
const MOST_BYTES = 4_096;
const WHY_CHARACTERS = 200;

const PAUSES = { firstMs: 5_000, longestMs: 5 * 60_000 };

const TICK_MS = 1_000;

/** How long a lock is kept before a line says so. */
const KEPT_MS = 24 * 3_600_000;

/** A report may lag behind what it is about, as after a boot. */
const SETTLE_MS = 30_000;

/** It is stickpin's own: another program on this node has another lock. */
const APPLICATION = Buffer.from('5b0f4c1c9f4e4a6c8d2f3e7a61c0b894', 'hex');

/**
 * 32 hex digits that do not show the machine id: `sd_id128_get_machine_app_specific(3)`, with the
 * name of the host, since cloned disks have one machine id.
 */
export function lockClientId(machineId: string, hostName: string, application: Buffer = APPLICATION): string {
  const hmac = createHmac('sha256', Buffer.from(machineId, 'hex')).update(application).update(hostName);
  const id = hmac.digest().subarray(0, 16);
  // A UUID of version 4 and of the variant of RFC 9562.
  id.writeUInt8((id.readUInt8(6) & 0x0f) | 0x40, 6);
  id.writeUInt8((id.readUInt8(8) & 0x3f) | 0x80, 8);
  return id.toString('hex');
}

export type LockSettings = Pick<Settings['update'], 'fleet_lock' | 'fleet_lock_group'>;

interface FleetLockOptions {
  readonly settings: LockSettings;
  /** The server knows this node by it. */
  readonly id: string;
  /** Undefined while it is not known what the daemon does. */
  readonly report: () => OwnReport | undefined;
  readonly clock: Clock;
  /** 0 to 1, for jitter. */
  readonly random: () => number;
  readonly log: Log;
}

/**
 * Client of the FleetLock protocol, version 1. The server remembers the lock, and both requests may
 * be repeated, so nothing is stored: after any start the report of the daemon says whether a lock
 * is needed.
 */
export class FleetLock extends Observable {
  /** `unknown`: the server may have a lock of this node. */
  private state: 'unknown' | 'held' | 'free' = 'unknown';
  private why: string | undefined;
  private failures = 0;
  private nextMs = Number.NEGATIVE_INFINITY;
  private wanted: Operation | undefined;
  private idleSinceMs: number | undefined;
  private keptSinceMs: number | undefined;
  private readonly trouble: Trouble;
  private readonly unproven: Trouble;

  constructor(private readonly options: FleetLockOptions) {
    super();
    this.trouble = new Trouble(options.log);
    this.unproven = new Trouble(options.log);
  }

  view(): RebootLock {
    return defined({ isHeld: this.state === 'held', why: this.why });
  }

  /** Never throws. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock } = this.options;
    while (!signal.aborted) {
      await this.step(signal);
      await clock.sleep(TICK_MS, signal).catch(() => undefined);
    }
  }

  /** Makes the request that is due, if any. Never throws. */
  async step(signal: AbortSignal): Promise<void> {
    const operation = this.next();
    if (operation !== this.wanted) {
      this.failures = 0;
      this.nextMs = Number.NEGATIVE_INFINITY;
    }
    this.wanted = operation;
    if (operation !== undefined && this.options.clock.monotonic() >= this.nextMs) await this.try(operation, signal);
  }

  /** Which request is due; undefined for none. */
  private next(): Operation | undefined {
    const report = this.options.report();
    const nowMs = this.options.clock.monotonic();
    const need = report && needOf(report);
    if (need !== 'none') this.idleSinceMs = undefined;
    this.watchKept(need === 'keep', nowMs);
    switch (need) {
      case undefined:
      case 'keep':
        return undefined;
      case 'lock':
        return this.state === 'held' ? undefined : 'pre-reboot';
      case 'none':
        this.idleSinceMs ??= nowMs;
        return this.state === 'free' || nowMs - this.idleSinceMs < SETTLE_MS ? undefined : 'steady-state';
    }
  }

  /** Other nodes may wait for it, until the server has confirmed that it has it back. */
  private watchKept(isNeeded: boolean, nowMs: number): void {
    const { state, unproven } = this;
    if (state === 'free') {
      this.keptSinceMs = undefined;
      unproven.end('The lock of the FleetLock server is not kept any more');
    } else if (state === 'held' || isNeeded) this.keptSinceMs ??= nowMs;
    if (this.keptSinceMs !== undefined && nowMs - this.keptSinceMs >= KEPT_MS) {
      unproven.begin(
        'This node may keep the lock of the FleetLock server from others: for 24 h no release was proven or rolled back, or the server did not confirm that it has the lock back',
      );
    }
  }

  private async try(operation: Operation, signal: AbortSignal): Promise<void> {
    const { settings, id, log } = this.options;
    const before = this.state;
    // Not held any more before the server may give it to another node.
    this.set('unknown', this.why);
    try {
      const refused = await post(settings, { id, operation }, signal);
      if (refused !== undefined) return this.failed(refused);
      this.trouble.end('The FleetLock server answers again');
      this.set(operation === 'pre-reboot' ? 'held' : 'free', undefined);
      if (operation === 'pre-reboot') log.info({}, 'This node has the lock of the FleetLock server');
      else if (before === 'held') log.info({}, 'This node gave its lock back to the FleetLock server');
    } catch (error) {
      if (signal.aborted) return;
      const why = clip(oneLine(reasonOf(error)), WHY_CHARACTERS);
      this.trouble.begin(`The FleetLock server can't be used, and it is tried again: ${why}`);
      this.failed(why);
    }
  }

  private failed(why: string): void {
    const { clock, random } = this.options;
    this.failures += 1;
    this.nextMs = clock.monotonic() + pauseAfter(this.failures, PAUSES) * (0.9 + 0.2 * random());
    this.set('unknown', why);
  }

  private set(state: typeof this.state, why: string | undefined): void {
    if (this.state === state && this.why === why) return;
    this.state = state;
    this.why = why;
    this.notify();
  }
}

/** @throws Error when the server did not confirm it */
export async function giveLockBack(settings: LockSettings, id: string, signal: AbortSignal): Promise<void> {
  const refused = await post(settings, { id, operation: 'steady-state' }, signal);
  if (refused !== undefined) throw new Error(refused);
}

/**
 * - `lock`: the activation of a release has begun, or would with the lock;
 * - `keep`: one is activated and not proven: it may have to reboot the node, or is about to prove
 *   that the reboot went well.
 */
function needOf({ bundles }: OwnReport): 'lock' | 'keep' | 'none' {
  if (bundles.some(hasBegun)) return 'lock';
  return bundles.some(isUnproven) ? 'keep' : 'none';
}

function hasBegun({ phase, rollOut }: OwnBundle): boolean {
  return phase === 'ready' && rollOut?.begun === true;
}

function isUnproven({ phase, current }: OwnBundle): boolean {
  return current === true && (phase === 'activated' || phase === 'active');
}

interface LockRequest {
  readonly id: string;
  readonly operation: Operation;
}

/** @returns why the server refused it (4xx). @throws Error for any other failure, or an abort */
function post(settings: LockSettings, { id, operation }: LockRequest, signal: AbortSignal) {
  return withDeadline('The FleetLock server', ANSWER_MS, signal, async (inner) => {
    const url = `${settings.fleet_lock}/v1/${operation}`;
    const headers = { 'fleet-lock-protocol': 'true', 'content-type': 'application/json' };
    const body = JSON.stringify({ client_params: { id, group: settings.fleet_lock_group } });
    const response = await new HttpClient().open({ url, method: 'POST', headers, body }, inner);
    const { statusCode = 0 } = response;
    try {
      if (statusCode === 200) return undefined;
      const text = await wholeBody(response, MOST_BYTES).catch(() => '');
      const why = explained(statusCode, text.toString());
      if (statusCode >= 400 && statusCode < 500) return why;
      throw new Error(why);
    } finally {
      response.destroy();
    }
  });
}

/** FleetLock, "Errors". */
const refusal = v.object({ kind: v.string(), value: v.string() });

function explained(statusCode: number, text: string): string {
  const result = v.safeParse(refusal, parsed(text));
  const why = result.success
    ? `${result.output.value} (${result.output.kind})`
    : `it answers with status ${statusCode}`;
  return clip(oneLine(why), WHY_CHARACTERS);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
