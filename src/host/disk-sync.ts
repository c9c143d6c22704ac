import { stat } from 'node:fs/promises';
import { AppError, reasonOf } from '../platform/app-error.ts';
import { untilAborted, withDeadline } from '../platform/async/abort.ts';
import { runSync } from '../platform/files/file-access.ts';
import type { DiskSync } from '../ports/node.ts';

/** Memory may hold gigabytes for a disk that writes 20 MiB/s. */
const DEADLINE_MS = 10 * 60_000;

/**
 * sync(1), once for each filesystem, in a process of its own: the kernel may keep it waiting for a
 * disk. INVARIANT: a sync begins after the end of one that was given up, so that processes that
 * nobody can end don't pile up.
 */
export class SyncProgram implements DiskSync {
  private ended: Promise<unknown> = Promise.resolve();

  constructor(private readonly timeoutMs = DEADLINE_MS) {}

  async sync(paths: readonly string[], signal: AbortSignal): Promise<void> {
    try {
      await withDeadline('The disk', this.timeoutMs, signal, async (inner) => {
        await untilAborted(this.ended, inner);
        for (const args of await callsFor(paths)) await this.run(args, inner);
      });
    } catch (error) {
      signal.throwIfAborted();
      const where = paths.length === 0 ? 'all filesystems' : `the filesystem of ${paths.join(', ')}`;
      const message = `what is written to ${where} is not safe on its disk yet: ${reasonOf(error)}. Look for errors of the disk in dmesg; it is tried again automatically`;
      throw new AppError({ code: 'host/sync', message, disposition: 'retry', cause: error });
    }
  }

  private async run(args: readonly string[], signal: AbortSignal): Promise<void> {
    const running = runSync(args, signal);
    this.ended = running;
    const fault = await untilAborted(running, signal);
    if (fault !== undefined) throw new Error(`sync ${args.join(' ')} failed: ${fault}`);
  }
}

/**
 * One for each filesystem. All filesystems of the machine where none is named, or where one is
 * hidden from this process (`ProtectHome=`).
 */
async function callsFor(paths: readonly string[]): Promise<readonly (readonly string[])[]> {
  const devices = new Map<number, string>();
  for (const path of paths) {
    const found = await stat(path).catch(() => undefined);
    if (found === undefined) return [[]];
    if (!devices.has(found.dev)) devices.set(found.dev, path);
  }
  return devices.size === 0 ? [[]] : [...devices.values()].map((path) => ['-f', path]);
}
