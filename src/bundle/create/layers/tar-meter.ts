import { createTarWalker } from './tar-walker.ts';

/**
 * The size of an unpacked layer. `diskBytes` counts regular files rounded up to 4 KiB
 * each.
 */
interface TarTotals {
  readonly diskBytes: number;
  readonly inodes: number;
}

/** Sums up the content of a tar archive while its bytes are read. */
export interface TarMeter {
  /**
   * The next bytes, cut anywhere. @throws AppError `bundle/tar` (`reject`) when they are not a tar
   * archive
   */
  write(chunk: Uint8Array): void;
  /**
   * The sums, after all bytes were written. @throws AppError `bundle/tar` (`reject`) when the
   * archive is cut off
   */
  end(): TarTotals;
}

const DISK_BLOCK_BYTES = 4096;

/** A {@link TarMeter}: ustar, pax and GNU archives, sparse files included. */
export function createTarMeter(): TarMeter {
  let inodes = 0;
  let diskBytes = 0;
  const walker = createTarWalker(({ type, unpackedBytes }) => {
    // A hard link is another name of a file that was counted before.
    if (type !== '1') inodes += 1;
    diskBytes += Math.ceil(unpackedBytes / DISK_BLOCK_BYTES) * DISK_BLOCK_BYTES;
    return undefined;
  });
  return {
    write: walker.write,
    end: () => {
      walker.end();
      return { diskBytes, inodes };
    },
  };
}
