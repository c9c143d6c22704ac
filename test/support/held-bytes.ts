import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** Collects all garbage of this thread. */
function collectGarbage(): void {
  setFlagsFromString('--expose-gc');
  const collect: unknown = runInNewContext('gc');
  if (typeof collect === 'function') collect();
}

/**
 * How many bytes of buffers are in use after garbage was collected. Freed buffers may be counted
 * for a moment longer, so a test waits until the number is small enough.
 */
export function heldBytes(): number {
  collectGarbage();
  return process.memoryUsage().arrayBuffers;
}
