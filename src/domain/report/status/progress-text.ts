import { formatBytes, formatBytesOf, formatDuration } from '../../../platform/sizes.ts';

/** How a preload goes, in bytes of compressed blobs. */
export interface TransferProgress {
  readonly doneBytes: number;
  readonly totalBytes: number;
  /** Smoothed; undefined until there is enough to judge by. */
  readonly bytesPerSecond?: number | undefined;
  /** Everything that the runtime asked for was transferred, and it unpacks that. Default false. */
  readonly isUnpacking?: boolean;
}

/** How the preload that STATUS speaks of goes. */
export interface Progress extends TransferProgress {
  /** Transfers that have waited for their medium for some seconds. */
  readonly waitingTransfers: number;
  /** Images that were pulled since the runtime was last asked for its images. Default none. */
  readonly landedImages?: readonly string[];
}

/** A time left beyond this says only that it hardly moves. */
const MAX_LEFT_MS = 24 * 60 * 60 * 1000;

/**
 * A STATUS line without its rate and the time left, for one that is not of now: both are the words
 * of {@link progressText}, and of the place in the queue of another node.
 */
export function withoutRate(line: string): string {
  return line
    .replace(/, [\d.]+ (?:[KMGT]i)?B\/s/, '')
    .replace(/, about (?:\d+ (?:s|min|h) ?)+(?:left)?/, '')
    .trimEnd();
}

/** `5.1 of 16.0 GiB, 84 MiB/s, about 2 min 10 s left`, or that the runtime is unpacking. */
export function progressText({ doneBytes, totalBytes, bytesPerSecond, isUnpacking = false }: TransferProgress): string {
  const bytes = formatBytesOf(doneBytes, totalBytes);
  if (isUnpacking) return `${bytes}, the runtime is unpacking`;
  const leftBytes = totalBytes - doneBytes;
  if (leftBytes <= 0 || bytesPerSecond === undefined) return bytes;
  const leftMs = (leftBytes / bytesPerSecond) * 1000;
  const left = leftMs > MAX_LEFT_MS ? '' : `, about ${formatDuration(Math.max(1_000, leftMs))} left`;
  return `${bytes}, ${formatBytes(bytesPerSecond)}/s${left}`;
}
