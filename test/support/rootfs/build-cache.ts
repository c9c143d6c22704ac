import { spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, readdir, rename, rm, stat, utimes } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { fitsInventory, writeInventory } from './inventory.ts';

/**
 * How many results of one kind stay in the cache, as many as a run has machines of different
 * systems; the ones that were used longest ago go first.
 */
const keptPerKind = 4;

/**
 * Where built things are kept between test runs: `STICKPIN_TEST_CACHE`, else
 * `/var/cache/stickpin-test`, or `~/.cache/stickpin-test` of a user other than root.
 */
function cacheDirectory(): string {
  const own = process.getuid?.() === 0 ? '/var/cache/stickpin-test' : join(homedir(), '.cache/stickpin-test');
  return process.env.STICKPIN_TEST_CACHE ?? own;
}

/**
 * The directory in the cache that belongs to a kind of thing and its recipe (any JSON value), built
 * or not.
 */
export function cachedPath(kind: string, recipe: unknown): string {
  const hash = createHash('sha256').update(JSON.stringify(recipe)).digest('hex').slice(0, 16);
  return join(cacheDirectory(), `${kind}-${hash}`);
}

/** Whether the cache has the thing, complete. */
export function isBuilt(kind: string, recipe: unknown): Promise<boolean> {
  return fitsInventory(cachedPath(kind, recipe));
}

/** Options of {@link buildOnce}. */
export interface BuildOptions {
  /** Builds it even if the cache has it, for a thing that turned out not to work; default false. */
  readonly anew?: boolean;
}

/**
 * The directory of a thing that is expensive to build, built by `build` if the cache lacks it. What
 * is there but doesn't fit its inventory any more counts as lacking.
 *
 * INVARIANTS: a directory under its final name was complete, since it is built beside and renamed;
 * one process builds at a time, since the lock is a flock(2) that the kernel releases when its
 * holder dies. What a killed process started may write on for a while: it does so in a directory
 * that no other process uses.
 */
export async function buildOnce(
  kind: string,
  recipe: unknown,
  build: (directory: string) => Promise<void>,
  { anew = false }: BuildOptions = {},
): Promise<string> {
  const path = cachedPath(kind, recipe);
  if (!anew && (await isUsable(path))) return path;
  await mkdir(cacheDirectory(), { recursive: true });
  const unlock = await lock(join(cacheDirectory(), `${kind}.lock`));
  try {
    if (!anew && (await isUsable(path))) return path;
    await removeRests(kind);
    const partial = `${path}.partial-${randomBytes(4).toString('hex')}`;
    await mkdir(partial);
    await build(partial);
    await writeInventory(partial);
    if (existsSync(path)) await rename(path, `${partial}-replaced`);
    await rename(partial, path);
    await removeRests(kind);
    await prune(kind, path);
    return path;
  } finally {
    await unlock();
  }
}

/** Notes the use of what is usable. */
async function isUsable(path: string): Promise<boolean> {
  if (!(await fitsInventory(path))) return false;
  const now = new Date();
  await utimes(path, now, now);
  return true;
}

/** What builds have left that were killed, and what was replaced. */
async function removeRests(kind: string): Promise<void> {
  const isRest = (name: string): boolean => name.startsWith(`${kind}-`) && name.includes('.partial');
  for (const name of (await readdir(cacheDirectory())).filter(isRest)) {
    // A program that a killed process started may still write there; the next build removes it.
    await rm(join(cacheDirectory(), name), { recursive: true, force: true }).catch(() => undefined);
  }
}

async function prune(kind: string, newest: string): Promise<void> {
  const names = (await readdir(cacheDirectory())).filter((name) => /^[0-9a-f]{16}$/.test(name.slice(kind.length + 1)));
  const paths = names.filter((name) => name.startsWith(`${kind}-`)).map((name) => join(cacheDirectory(), name));
  const aged = await Promise.all(paths.map(async (path) => ({ path, usedMs: (await stat(path)).mtimeMs })));
  aged.sort((a, b) => b.usedMs - a.usedMs);
  const stale = aged.filter(({ path }) => path !== newest).slice(keptPerKind - 1);
  for (const { path } of stale) await rm(path, { recursive: true, force: true });
}

async function lock(path: string): Promise<() => Promise<void>> {
  const holder = spawn('flock', ['--exclusive', path, 'sh', '-c', 'echo locked; exec cat'], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const ended = once(holder, 'close');
  const first = await Promise.race([once(holder.stdout, 'data'), ended]);
  if (!Buffer.isBuffer(first[0])) throw new Error(`flock on ${path} ended with ${String(first[0])}`);
  return async () => {
    holder.stdin.end();
    await ended;
  };
}
