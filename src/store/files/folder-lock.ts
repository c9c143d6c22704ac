import { closeSync, constants, fstatSync, ftruncateSync, mkdirSync, openSync, readFileSync, writeSync } from 'node:fs';
import { rename } from 'node:fs/promises';
import { join } from 'node:path';
import { AppError, reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import type { Clock } from '../../platform/clock.ts';
import { isNoFile } from '../../platform/files/durable-file.ts';
import type { Log } from '../../platform/log.ts';
import { sentence } from '../../platform/plain-text.ts';
import { damagedName } from './write-error.ts';

// flock(2), the same on all architectures.
const LOCK_EX = 2;
const LOCK_NB = 4;

/** A pipe is not waited for. Only the owner of the file may open it, and so lock it. */
const FLAGS = constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW | constants.O_NONBLOCK;
const MODE = 0o600;
const LOCK = 'lock';

const MAX_TRIES = 100;
const PAUSE_MS = 100;

export interface LockOptions {
  /** For example `stickpin`. */
  readonly program: string;
  readonly clock: Clock;
  readonly log: Log;
}

/** Bit 8 of the signal masks in /proc/PID/status: signal 9. */
const SIGKILL_BIT = 0x100;

/** The exit code for `store/in-use` (EX_TEMPFAIL of sysexits.h): systemd does not restart it. */
const EXIT_IN_USE = 75;

export function exitCodeOf(thrown: unknown): number {
  return thrown instanceof AppError && thrown.code === 'store/in-use' ? EXIT_IN_USE : 1;
}

/**
 * Locks folders for this process. Its end releases the locks, also by SIGKILL, and no child
 * inherits them. This waits 10 s for another process. A folder whose lock can't be made, as on a
 * full disk, is not locked, and the log says so.
 * @returns releases the locks
 * @throws AppError `store/in-use` (`fatal`); `store/dying` (`retry`) when the other process was
 *   killed and has not ended yet
 */
export async function lockFolders(
  folders: readonly string[],
  options: LockOptions,
  signal: AbortSignal,
): Promise<() => void> {
  const held: number[] = [];
  const release = () => {
    for (const fd of held.splice(0)) closeSync(fd);
  };
  try {
    for (const folder of folders) {
      const fd = await lockFolder(folder, held, options, signal);
      if (fd !== undefined) held.push(fd);
    }
    return release;
  } catch (error) {
    release();
    throw error;
  }
}

async function lockFolder(
  folder: string,
  held: readonly number[],
  options: LockOptions,
  signal: AbortSignal,
): Promise<number | undefined> {
  const path = join(folder, LOCK);
  let fd: number | undefined;
  try {
    mkdirSync(folder, { recursive: true });
    fd = await openLock(path, options.clock.now());
    if (isAmong(held, fd)) {
      closeSync(fd);
      return undefined;
    }
    await takeLock(fd, folder, options, signal);
  } catch (error) {
    if (fd !== undefined) closeSync(fd);
    if (signal.aborted || error instanceof AppError) throw error;
    const { log, program } = options;
    log.warn({ err: error }, `${path} can't be locked: ${reasonOf(error)}. See that no second ${program} runs`);
    return undefined;
  }
  noteOwner(fd);
  return fd;
}

/** Two settings may name one folder. */
function isAmong(held: readonly number[], fd: number): boolean {
  const { dev, ino } = fstatSync(fd);
  return held.map((other) => fstatSync(other)).some((other) => other.dev === dev && other.ino === ino);
}

/** Renames what has this path and is no file. */
async function openLock(path: string, now: number): Promise<number> {
  try {
    const fd = openFile(path);
    if (fstatSync(fd).isFile()) return fd;
    closeSync(fd);
  } catch (error) {
    if (!isNoFile(error)) throw error;
  }
  await rename(path, damagedName(path, now));
  return openSync(path, FLAGS, MODE);
}

/** On a read-only disk a lock that is there holds as well. */
function openFile(path: string): number {
  try {
    return openSync(path, FLAGS, MODE);
  } catch (error) {
    if (systemCodeOf(error) !== 'EROFS') throw error;
    return openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  }
}

async function takeLock(
  fd: number,
  folder: string,
  { program, clock, log }: LockOptions,
  signal: AbortSignal,
): Promise<void> {
  // Only programs that use koffi need it.
  const { default: koffi } = await import('koffi');
  const flock = koffi.load(null).func('int flock(int, int)');
  for (let tries = 1; flock(fd, LOCK_EX | LOCK_NB) !== 0; tries += 1) {
    if (koffi.errno() !== koffi.os.errno.EAGAIN) throw new Error(`flock(2) fails with error ${koffi.errno()}`);
    const owner = ownerOf(folder);
    const other = `another ${program} (process ${owner}) uses ${folder}`;
    if (tries === 1) log.info({}, `${sentence(other)} This one waits for its end`);
    if (tries === MAX_TRIES && isDying(owner)) {
      throw new AppError({
        code: 'store/dying',
        message: `${other}: it was killed, and ends when the kernel no longer waits for a device, such as a stick that does not answer; pull that out. It is tried again`,
        disposition: 'retry',
      });
    }
    if (tries === MAX_TRIES) {
      throw new AppError({
        code: 'store/in-use',
        message: `${other}; stop that one first, or give this one other folders in [paths]`,
        disposition: 'fatal',
      });
    }
    await clock.sleep(PAUSE_MS, signal);
  }
}

function ownerOf(folder: string): string {
  return readFileSync(join(folder, LOCK), 'utf8').trim();
}

/** A killed process keeps its locks while a thread waits for a device. */
function isDying(pid: string): boolean {
  if (!/^\d+$/.test(pid)) return false;
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    const masks = [...status.matchAll(/^(?:SigPnd|ShdPnd):\s*([0-9a-f]+)$/gm)].map(([, mask]) => `0x${mask}`);
    return /^State:\s+[ZX]/m.test(status) || masks.some((mask) => (BigInt(mask) & BigInt(SIGKILL_BIT)) !== 0n);
  } catch {
    return true;
  }
}

/** Another process names the owner in its message. */
function noteOwner(fd: number): void {
  try {
    ftruncateSync(fd);
    writeSync(fd, `${process.pid}\n`, 0);
  } catch {
    // a full disk, which is reported elsewhere
  }
}
