import type { FileHandle } from 'node:fs/promises';

/** What readers of archives and disks need of a file with these bytes. */
export function inMemoryFile(bytes: Buffer): FileHandle {
  const read = async (buffer: Buffer, offset: number, length: number, position: number) => {
    if (!Number.isSafeInteger(position)) throw new RangeError(`position ${position}`);
    return { bytesRead: bytes.subarray(position, position + length).copy(buffer, offset), buffer };
  };
  return { read } as unknown as FileHandle;
}
