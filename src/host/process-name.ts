import { writeFileSync } from 'node:fs';

/**
 * The name in `ps` and `top`, of which the kernel keeps 15 bytes (proc_pid_comm(5)). Node.js calls
 * its process `MainThread`. `process.title` would overwrite the command line too.
 */
export function nameProcess(name: string): void {
  try {
    writeFileSync('/proc/self/comm', name);
  } catch {
    // Without /proc it keeps its name, which only people read.
  }
}
