import { lstat, readdir, readFile, readlink, rm } from 'node:fs/promises';
import { hostname } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { hexOf } from '../../../domain/model/digest.ts';
import { systemCodeOf } from '../../../platform/app-error.ts';
import { digestOf } from '../../../platform/digest.ts';
import { bundleError } from '../../bundle-error.ts';

/**
 * The process that works in a hidden directory: enough to find out later whether it still runs.
 */
interface Owner {
  /** Identifies the machine and its PID namespace; 8 hex digits. */
  readonly host: string;
  /** Identifies the boot; 8 hex digits. */
  readonly boot: string;
  readonly pid: number;
  /**
   * Clock ticks from boot to the start of the process (proc(5), `starttime`); 0 where it can't be
   * known.
   */
  readonly startedAt: number;
}

/**
 * Prefix of the name of unfinished work for `path`: `.NAME.partial-HOST-BOOT-PID-START-`.
 * Hidden, so that no program takes it for a bundle.
 */
export async function stagingPrefix(path: string): Promise<string> {
  const { host, boot, pid, startedAt } = await thisProcess();
  return join(dirname(path), `.${basename(path)}.partial-${host}-${boot}-${pid}-${startedAt}-`);
}

/**
 * Removes unfinished work for `path` that killed processes left. Work of another machine and of
 * this process stays.
 *
 * @throws AppError `bundle/target` (`reject`) when another process is writing it: the later one
 *   would replace the result of the earlier one. System errors unchanged.
 */
export async function removeStale(path: string): Promise<void> {
  const folder = dirname(path);
  const me = await thisProcess();
  for (const name of await readdir(folder)) {
    const owner = ownerOf(name, basename(path));
    const stale = join(folder, name);
    // A link with such a name is not ours.
    if (owner === undefined || owner.host !== me.host || (await isLinkOrGone(stale))) continue;
    if (!(await isAlive(owner, me))) await rm(stale, { recursive: true, force: true });
    else if (owner.pid !== me.pid) {
      throw bundleError('bundle/target', `${path} is being written by process ${owner.pid}: wait until that has ended`);
    }
  }
}

async function isLinkOrGone(path: string): Promise<boolean> {
  return lstat(path).then(
    (found) => found.isSymbolicLink(),
    (error: unknown) => {
      if (systemCodeOf(error) === 'ENOENT') return true;
      throw error;
    },
  );
}

function ownerOf(name: string, target: string): Owner | undefined {
  const start = `.${target}.partial-`;
  if (!name.startsWith(start)) return undefined;
  const rest = /^([0-9a-f]{8})-([0-9a-f]{8})-([1-9][0-9]{0,9})-([0-9]{1,15})-[A-Za-z0-9]{6}$/.exec(
    name.slice(start.length),
  );
  const [, host, boot, pid, startedAt] = rest ?? [];
  if (host === undefined || boot === undefined) return undefined;
  return { host, boot, pid: Number(pid), startedAt: Number(startedAt) };
}

async function isAlive(owner: Owner, me: Owner): Promise<boolean> {
  if (owner.boot !== me.boot) return false;
  try {
    process.kill(owner.pid, 0);
  } catch (error) {
    // EPERM: the process exists and belongs to another user.
    return error instanceof Error && 'code' in error && error.code !== 'ESRCH';
  }
  // Process ids are reused.
  return (await startOf(owner.pid)) === owner.startedAt;
}

async function thisProcess(): Promise<Owner> {
  const machine = await textOf('/etc/machine-id');
  const names = await readlink('/proc/self/ns/pid').catch(() => '');
  return {
    host: shortHash(`${machine || hostname()} ${names}`),
    boot: shortHash(await textOf('/proc/sys/kernel/random/boot_id')),
    pid: process.pid,
    startedAt: await startOf(process.pid),
  };
}

/** Field 22 of `/proc/PID/stat`; the second one, the command in parentheses, may hold anything. */
async function startOf(pid: number): Promise<number> {
  const stat = await textOf(`/proc/${pid}/stat`);
  return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? 0);
}

async function textOf(path: string): Promise<string> {
  return readFile(path, 'utf8').catch(() => '');
}

function shortHash(text: string): string {
  return hexOf(digestOf(text)).slice(0, 8);
}
