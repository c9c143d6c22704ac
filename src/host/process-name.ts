import { writeFileSync } from 'node:fs';

/**
 * Sets the name in `ps` and `top`, of which the kernel keeps 15 bytes (proc_pid_comm(5)). The name
 * of Node.js is `MainThread`. `process.title` would overwrite the command line too.
 */
export function nameProcess(name: string): void {
  try {
    writeFileSync('/proc/self/comm', name);
  } catch {
    // Without /proc it keeps its name, which only people read.
  }
}
