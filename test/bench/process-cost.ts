import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';

/** What a piece of work cost. */
export interface Cost {
  readonly wallMs: number;
  /** Of everything that took part: who serves or copies, and the runtime. */
  readonly cpuMs: number;
  /** Of who serves or copies alone: the daemon, the registry, `ctr`, `skopeo`. */
  readonly ownCpuMs: number;
  /** Read with read(2) and its kin by who serves or copies. */
  readonly readBytes: number;
  /** Greatest resident memory of who serves or copies. */
  readonly peakMiB: number;
}

/**
 * The kernel's unit of processor time in proc_pid_stat(5); `getconf CLK_TCK` says 100 on every
 * Linux that Node runs on.
 */
const TICK_MS = 10;

/**
 * Processor time of a process, its threads, and those of its children that have ended. 0 for one
 * that is gone.
 */
export function cpuMsOf(pid: number | 'self'): number {
  const [user = 0, system = 0, childUser = 0, childSystem = 0] = processorTimes(pid);
  return (user + system + childUser + childSystem) * TICK_MS;
}

/** Processor time of the children of this process that have ended. */
function endedChildrenCpuMs(): number {
  const [, , childUser = 0, childSystem = 0] = processorTimes('self');
  return (childUser + childSystem) * TICK_MS;
}

/**
 * `rchar` of proc_pid_io(5): bytes read with read(2) and its kin, from files and sockets, by a
 * process and its children that have ended.
 */
export function readBytesOf(pid: number | 'self'): number {
  return Number(/rchar: (\d+)/.exec(procFile(pid, 'io'))?.[1] ?? 0);
}

/** Greatest resident memory so far (`VmHWM`), in MiB; 0 for a process that is gone. */
export function peakMiBOf(pid: number | 'self'): number {
  return Number(/VmHWM:\s+(\d+)/.exec(procFile(pid, 'status'))?.[1] ?? 0) / 1024;
}

/** Resident memory now (`VmRSS`), in MiB. */
export function residentMiBOf(pid: number | 'self'): number {
  return Number(/VmRSS:\s+(\d+)/.exec(procFile(pid, 'status'))?.[1] ?? 0) / 1024;
}

/**
 * Runs programs one after the other to their ends, and adds up what they cost. @throws Error when
 * one fails
 */
export async function runMeasured(commands: readonly (readonly string[])[]): Promise<Cost> {
  const before = { at: performance.now(), cpuMs: endedChildrenCpuMs(), readBytes: readBytesOf('self') };
  let peakMiB = 0;
  for (const [file = '', ...args] of commands) {
    const child = spawn(file, args, { stdio: ['ignore', 'ignore', 'inherit'] });
    const watch = setInterval(() => {
      peakMiB = Math.max(peakMiB, peakMiBOf(child.pid ?? 0));
    }, 20);
    const [code] = await once(child, 'close');
    clearInterval(watch);
    if (code !== 0) throw new Error(`${file} ${args.join(' ')} ended with ${code}`);
  }
  const cpuMs = endedChildrenCpuMs() - before.cpuMs;
  return {
    wallMs: performance.now() - before.at,
    cpuMs,
    ownCpuMs: cpuMs,
    // The kernel adds what an ended child has read to its parent; what this process reads itself
    // meanwhile are some files of /proc.
    readBytes: readBytesOf('self') - before.readBytes,
    peakMiB,
  };
}

/**
 * utime, stime, cutime, cstime in ticks. The name of the program may hold blanks and brackets, so
 * counting begins behind its last one.
 */
function processorTimes(pid: number | 'self'): number[] {
  const text = procFile(pid, 'stat');
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return fields.slice(11, 15).map(Number);
}

function procFile(pid: number | 'self', name: string): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'utf8');
  } catch {
    return '';
  }
}
