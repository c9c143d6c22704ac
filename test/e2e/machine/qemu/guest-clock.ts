import { setTimeout as delay } from 'node:timers/promises';
import type { GuestAgent } from './guest-agent.ts';

/**
 * The guest's clock runs at another speed than the host's: its kernel measured the speed of its
 * processor wrongly. Then nothing waits as long as it should.
 */
export class WrongClock extends Error {
  constructor(
    rate: number,
    /** How fast the processor counts, as the host's clock shows it. */
    readonly tscKhz: number,
  ) {
    super(`the guest's clock runs ${rate.toFixed(2)} times as fast as the host's`);
  }
}

const WINDOW_MS = 4_000;
/** What Linux itself accepts is far less; what matters here begins at several times. */
const TOLERANCE = 0.1;

/** Of the guest's clock, and of the host's before and after it was read. Milliseconds. */
interface Reading {
  readonly guest: number;
  readonly before: number;
  readonly after: number;
}

/** Rejects with {@link WrongClock}. A guest that answers slowly is never taken for a wrong one. */
export async function checkClock(agent: GuestAgent): Promise<void> {
  const first = await read(agent);
  await delay(WINDOW_MS);
  const second = await read(agent);
  const passed = second.guest - first.guest;
  const atLeast = passed / (second.after - first.before);
  const atMost = passed / (second.before - first.after);
  if (atLeast <= 1 + TOLERANCE && atMost >= 1 - TOLERANCE) return;
  const rate = passed / ((second.before + second.after - first.before - first.after) / 2);
  throw new WrongClock(rate, Math.round((await kernelTscKhz(agent)) * rate));
}

/** What the guest's kernel goes by, as it measured it or was given it. */
export async function kernelTscKhz(agent: Pick<GuestAgent, 'run'>): Promise<number> {
  const { stdout } = await agent.run('dmesg');
  const [, mhz] =
    [...stdout.matchAll(/tsc: (?:Detected|Refined TSC clocksource calibration:) ([0-9.]+) MHz/g)].at(-1) ?? [];
  if (mhz === undefined) throw new Error("the guest's kernel does not say how fast its processor counts");
  return Math.round(Number(mhz) * 1_000);
}

async function read(agent: GuestAgent): Promise<Reading> {
  const before = performance.now();
  const [seconds = ''] = (await agent.readFile('/proc/uptime')).toString().split(' ');
  return { guest: Number(seconds) * 1_000, before, after: performance.now() };
}
