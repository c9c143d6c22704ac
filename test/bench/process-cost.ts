import { readdirSync, readFileSync } from 'node:fs';

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

/** What all processes below this one have used so far. */
interface ChildrenUse {
  readonly cpuMs: number;
  /** That they gave to file systems on disks, without what was removed before it was written. */
  readonly writtenBytes: number;
}

/** The kernel adds what an ended process has used to its parent, so they are counted too. */
export function childrenUse(): ChildrenUse {
  const pids = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number);
  const parents = new Map(pids.map((pid) => [pid, parentOf(pid)]));
  const isBelow = (pid: number | undefined): boolean =>
    pid !== undefined && (parents.get(pid) === process.pid || isBelow(parents.get(pid)));
  const below = pids.filter(isBelow);
  const written = [process.pid, ...below].map((pid) => {
    const io = procFile(pid, 'io');
    const of = (name: string) => Number(new RegExp(`^${name}: (\\d+)`, 'm').exec(io)?.[1] ?? 0);
    return of('write_bytes') - of('cancelled_write_bytes');
  });
  const sum = (numbers: readonly number[]) => numbers.reduce((a, b) => a + b, 0);
  return { cpuMs: endedChildrenCpuMs() + sum(below.map(cpuMsOf)), writtenBytes: sum(written) };
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
 * utime, stime, cutime, cstime in ticks. The name of the program may hold blanks and brackets, so
 * counting begins behind its last one.
 */
function processorTimes(pid: number | 'self'): number[] {
  return statFields(pid).slice(11, 15).map(Number);
}

function parentOf(pid: number): number {
  return Number(statFields(pid)[1]);
}

/** Behind the name of the program. */
function statFields(pid: number | 'self'): string[] {
  const text = procFile(pid, 'stat');
  return text.slice(text.lastIndexOf(')') + 2).split(' ');
}

function procFile(pid: number | 'self', name: string): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'utf8');
  } catch {
    return '';
  }
}
