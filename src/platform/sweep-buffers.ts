/** Old buffers are freed after this many bytes. */
const SWEEP_BYTES = 4 * 1024 * 1024;

type Collect = (options: { readonly type: 'minor' }) => void;

/**
 * Counts bytes in short-lived buffers: the garbage collector counts only the small objects around
 * them, and tens of MiB would remain. Does nothing without `--expose-gc`, which the unit of the
 * fleet process has.
 * @param collect default: the garbage collector
 */
export function createBufferSweep(collect: Collect | undefined = globalThis.gc): (bytes: number) => void {
  let sinceBytes = 0;
  return (bytes) => {
    sinceBytes += bytes;
    if (sinceBytes < SWEEP_BYTES) return;
    sinceBytes = 0;
    collect?.({ type: 'minor' });
  };
}
