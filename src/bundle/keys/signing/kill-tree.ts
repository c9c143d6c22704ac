import { readdirSync, readFileSync } from 'node:fs';

/**
 * Kills a process, and every process that it and its children have started (proc(5)). One that has
 * lost its parent is no longer found.
 *
 * INVARIANTS: a process is stopped before its children are listed, so that it starts no more of
 * them and its number is not given to another one.
 */
export function killTree(pid: number): void {
  const stopped = new Set<number>();
  for (let found = [pid]; found.length > 0; found = childrenOf(stopped).filter((one) => !stopped.has(one))) {
    for (const one of found) {
      send(one, 'SIGSTOP');
      stopped.add(one);
    }
  }
  for (const one of stopped) send(one, 'SIGKILL');
}

function childrenOf(parents: ReadonlySet<number>): number[] {
  const pids = readdirSync('/proc').flatMap((name) => (/^[0-9]+$/.test(name) ? [Number(name)] : []));
  return pids.filter((pid) => parents.has(parentOf(pid)));
}

/** The field after the state, which follows the name in brackets. */
function parentOf(pid: number): number {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
  } catch {
    return 0; // gone
  }
}

function send(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has ended by itself.
  }
}
