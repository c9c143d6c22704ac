/** Returns a buffer of `sizeBytes`, or a smaller one to limit the read. It may contain old data. */
export type Allocate = (sizeBytes: number) => Buffer;

/** A new buffer for each chunk, which the consumer may keep. */
export const newBuffer: Allocate = (sizeBytes) => Buffer.allocUnsafeSlow(sizeBytes);

/**
 * One buffer for all chunks of a stream: a chunk is valid until the next one is read. Short-lived
 * large buffers cost more than the copy of their bytes, because memory must be mapped, cleared and
 * collected for each.
 */
export function oneBuffer(): Allocate {
  let buffer: Buffer | undefined;
  return (sizeBytes) => {
    if (buffer === undefined || buffer.length < sizeBytes) buffer = newBuffer(sizeBytes);
    return buffer.subarray(0, sizeBytes);
  };
}
