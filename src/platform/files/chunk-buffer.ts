/**
 * Gives a buffer of `sizeBytes`, or of less when so much is not to be read at once; what is in it
 * is left over.
 */
export type Allocate = (sizeBytes: number) => Buffer;

/** A buffer for each chunk, which whoever gets the chunk may keep. */
export const newBuffer: Allocate = (sizeBytes) => Buffer.allocUnsafeSlow(sizeBytes);

/**
 * One buffer for all chunks of one stream: a chunk is good until the next is asked for. Large
 * buffers that live for a moment cost more than the copying of their bytes, since memory has to be
 * mapped, cleared and collected for each.
 */
export function oneBuffer(): Allocate {
  let buffer: Buffer | undefined;
  return (sizeBytes) => {
    if (buffer === undefined || buffer.length < sizeBytes) buffer = newBuffer(sizeBytes);
    return buffer.subarray(0, sizeBytes);
  };
}
