/** After so many bytes, in buffers of their own, the old ones are freed. */
const SWEEP_BYTES = 4 * 1024 * 1024;

type Collect = (options: { readonly type: 'minor' }) => void;

/**
 * Makes a function that is told how many bytes went through buffers of their own, each of which is
 * garbage soon. The garbage collector counts the small objects around them, not the bytes: without
 * this, tens of MiB of old buffers are there before it runs. Does nothing without `--expose-gc`,
 * which the unit of the fleet process has.
 *
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
