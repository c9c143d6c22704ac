/** Takes exact amounts of bytes from chunks that are cut anywhere. */
export interface ByteInput {
  /**
   * The next `count` bytes (at least 1).
   *
   * @returns undefined at the end of the input.
   * @throws RangeError when the input ends before that many bytes.
   */
  take(count: number): Promise<Buffer | undefined>;
}

/** A {@link ByteInput}. It keeps what was read and not taken yet: less than a chunk. */
export function createByteInput(chunks: AsyncIterator<Buffer>): ByteInput {
  let rest: Buffer = Buffer.alloc(0);
  return {
    take: async (count) => {
      const parts: Buffer[] = [];
      let missing = count;
      while (missing > 0) {
        if (rest.length === 0) {
          const next = await chunks.next();
          if (next.done) break;
          rest = next.value;
        }
        const part = rest.subarray(0, missing);
        parts.push(part);
        missing -= part.length;
        rest = rest.subarray(part.length);
      }
      if (missing === count) return undefined;
      if (missing > 0) throw new RangeError('unexpected end of file');
      return parts.length === 1 ? parts[0] : Buffer.concat(parts);
    },
  };
}
