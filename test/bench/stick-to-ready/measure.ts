import { mkdirSync, mkdtempSync, rmSync, statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { createDisposalStack } from '../../../src/platform/async/disposal.ts';
import type { SampleBundle } from '../../support/bundles/sample-bundle.ts';
import { eventually } from '../../support/eventually.ts';
import { execute } from '../../support/rootfs/execute.ts';
import type { RuntimeKind } from '../bench-runtime.ts';
import { childrenUse, cpuMsOf, peakMiBOf } from '../process-cost.ts';
import { sized } from '../size.ts';
import type { Stick } from './stick-set.ts';
import { type Attempt, pulls, REGISTRIES, type Way } from './ways.ts';

/** What a way took from the moment that the stick is there until all its images are. */
export interface Result {
  readonly wallMs: number;
  /** Of all processes that take part. */
  readonly cpuMs: number;
  /** Of the daemon or the registry alone, and its greatest resident memory. */
  readonly own?: { readonly cpuMs: number; readonly peakBytes: number };
  /** Read from the device, not from page cache. */
  readonly stickBytes: number;
  readonly writtenBytes: number;
  /** Most that was taken of the node's file system at a time. */
  readonly spaceBytes: number;
  /** Whether all are pinned at the end, before any is pinned by hand. */
  readonly isPinned: boolean;
  /** What it took more to pin them by hand, where that is possible. */
  readonly pinMs?: number;
}

/** A stick that is plugged into a node. */
export interface Plugged {
  readonly stick: Stick;
  /** For the files of a node; a new folder in it for each way. */
  readonly folder: string;
  /** Before each way: the page cache has all that it reads, or nothing of it. */
  prepare(way: Way): Promise<unknown>;
  readBytes(): number;
}

const SPACE_EVERY_MS = 200;
const BRING_TIMEOUT_MS = sized(3_600_000, 300_000);

/** @throws Error unless the runtime has all images afterwards */
export function measure(way: Way, plugged: Plugged): Promise<Result> {
  return onNewNode(way, plugged, async (attempt, node) => {
    const pid = attempt.ownPid?.();
    const images = plugged.stick.bundle.contents.images.length;
    const before = { use: childrenUse(), ownMs: cpuMsOf(pid ?? 0), stickBytes: plugged.readBytes() };
    const space = watchSpace(node);
    const startedAt = performance.now();
    await bring(way, attempt);
    const wallMs = performance.now() - startedAt;
    const spaceBytes = space.stop();
    const use = childrenUse();
    const own = pid && { cpuMs: cpuMsOf(pid) - before.ownMs, peakBytes: peakMiBOf(pid) * 1024 ** 2 };
    const stickBytes = plugged.readBytes() - before.stickBytes;
    await untilListed(way, attempt, images);
    const isPinned = ((await attempt.runtime?.pinnedCount()) ?? 0) >= images;
    const pinMs = isPinned || way.pin === undefined ? undefined : await pinByHand(way, attempt, images);
    return {
      ...{ wallMs, stickBytes, spaceBytes, isPinned },
      cpuMs: use.cpuMs - before.use.cpuMs,
      writtenBytes: use.writtenBytes - before.use.writtenBytes,
      ...(own && { own }),
      ...(pinMs !== undefined && { pinMs }),
    };
  });
}

/** The time of two pulls at once from stickpin's registry without the daemon. */
export async function pullByHand(kind: RuntimeKind, bundle: SampleBundle): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), 'stickpin-bench-'));
  const stick = { bundle, tar: '', registry: '' };
  const way = { ...pulls(REGISTRIES.own, kind, 2), pin: undefined };
  try {
    return (await measure(way, { stick, folder, prepare: async () => undefined, readBytes: () => 0 })).wallMs;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/**
 * What passes until all images are there, from the start of the runtime and of all that the way has
 * running, after all were killed `afterMs` from the beginning, or sooner where it was over by then.
 * Unlike after a power cut, the node has all that was written.
 */
export async function measureKilled(way: Way, plugged: Plugged, afterMs: number): Promise<number> {
  const killedMs = await onNewNode(way, plugged, async (attempt) => {
    const power = new AbortController();
    let isOver = false;
    const brought = attempt.bring(power.signal).then(
      () => {
        isOver = true;
      },
      () => undefined,
    );
    await delay(afterMs);
    if (isOver) return undefined;
    power.abort();
    await Promise.all([attempt.runtime?.kill(), attempt.killOwn?.()]);
    await brought;
    await plugged.prepare(way);
    const startedAt = performance.now();
    await attempt.runtime?.restart();
    await attempt.restartOwn?.();
    await bring(way, attempt);
    const wallMs = performance.now() - startedAt;
    await untilListed(way, attempt, plugged.stick.bundle.contents.images.length);
    return wallMs;
  });
  return killedMs ?? (await measureKilled(way, plugged, afterMs / 2));
}

/** All that a runtime and a way write lies below one folder, which is removed. */
async function onNewNode<T>(
  way: Way,
  plugged: Plugged,
  use: (attempt: Attempt, node: string) => Promise<T>,
): Promise<T> {
  const node = join(plugged.folder, 'node');
  const base = join(node, 'way');
  const { TMPDIR } = process.env;
  const stack = createDisposalStack();
  mkdirSync(base, { recursive: true });
  process.env.TMPDIR = node;
  try {
    const attempt = await way.open(plugged.stick, base, stack);
    // What the last one left to be written must not burden this one.
    await execute(['sync']);
    await plugged.prepare(way);
    return await use(attempt, node);
  } finally {
    await stack.dispose((what, error) => {
      process.stderr.write(`${way.name}: the ${what} did not end: ${error}\n`);
    });
    if (TMPDIR === undefined) delete process.env.TMPDIR;
    else process.env.TMPDIR = TMPDIR;
    rmSync(node, { recursive: true, force: true });
  }
}

async function bring(way: Way, attempt: Attempt): Promise<void> {
  await attempt.bring(AbortSignal.timeout(BRING_TIMEOUT_MS)).catch((error: unknown) => {
    throw new Error(`${way.name} failed`, { cause: error });
  });
}

function watchSpace(folder: string): { stop(): number } {
  const free = () => {
    const { bfree, bsize } = statfsSync(folder);
    return bfree * bsize;
  };
  const before = free();
  let least = before;
  const look = () => {
    least = Math.min(least, free());
  };
  const timer = setInterval(look, SPACE_EVERY_MS);
  return {
    stop: () => {
      clearInterval(timer);
      look();
      return before - least;
    },
  };
}

async function untilListed(way: Way, { runtime }: Attempt, images: number): Promise<void> {
  await eventually(async () => {
    const count = (await runtime?.imageCount()) ?? images;
    if (count < images) throw new Error(`${way.name}: the runtime has ${count} of ${images} images`);
  });
}

async function pinByHand(way: Way, { runtime }: Attempt, images: number): Promise<number | undefined> {
  if (runtime?.pinByHand === undefined) return undefined;
  const startedAt = performance.now();
  await runtime.pinByHand();
  await eventually(async () => {
    const count = await runtime.pinnedCount();
    if (count < images) throw new Error(`${way.name}: the runtime keeps ${count} of ${images} images`);
  });
  return performance.now() - startedAt;
}
