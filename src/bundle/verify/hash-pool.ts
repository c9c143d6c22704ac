import { startWorkerThread } from '../../platform/async/worker-thread.ts';
import { type HashMessage, type HashTask, runHashWorker } from './hash-worker.ts';

/** The result of hashing a part of a file. */
export type HashResult = Exclude<HashMessage, { readonly kind: 'progress' }>;

/** Worker threads that hash. */
export interface HashPool {
  /**
   * SHA-256 of a part of a file. Tasks beyond the number of threads wait in the threads' queues.
   *
   * @throws the signal's reason at once after an abort.
   */
  hash(task: HashTask): Promise<HashResult>;
  /** Ends the threads. Waiting tasks are rejected. */
  close(): void;
}

/** A worker is a small program that needs little heap. */
const HEAP = { maxOldGenerationSizeMb: 32, maxYoungGenerationSizeMb: 2 };

interface Waiting {
  readonly resolve: (result: HashResult) => void;
  readonly reject: (reason: unknown) => void;
}

/**
 * Starts `threads` workers. An abort ends them at the latest after their current read of 1 MiB.
 *
 * @param onBytes called repeatedly with the number of bytes hashed since the last call.
 */
export function createHashPool(threads: number, signal: AbortSignal, onBytes: (bytes: number) => void): HashPool {
  const seats = Array.from({ length: threads }, () => createSeat(onBytes));
  const end = (reason: unknown): void => {
    signal.removeEventListener('abort', onAbort);
    for (const seat of seats) seat.end(reason);
  };
  const onAbort = (): void => end(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  return {
    hash: async (task) => {
      signal.throwIfAborted();
      const [first, ...others] = seats;
      if (first === undefined) throw new Error('a pool needs a thread');
      return others.reduce((best, seat) => (seat.queued() < best.queued() ? seat : best), first).hash(task);
    },
    close: () => end(new Error('the hash pool is closed')),
  };
}

/** One worker with its tasks, which it answers in their order. */
function createSeat(onBytes: (bytes: number) => void) {
  const waiting: Waiting[] = [];
  let ended: { readonly reason: unknown } | undefined;
  const worker = startWorkerThread<HashTask, HashMessage>({
    program: `(${runHashWorker.toString()})()`,
    heap: HEAP,
    onMessage: (message) => {
      if (message.kind === 'progress') onBytes(message.bytes);
      else waiting.shift()?.resolve(message);
    },
    onEnd: (reason) => {
      ended = { reason };
      for (const { reject } of waiting.splice(0)) reject(reason);
    },
  });
  return {
    queued: () => waiting.length,
    hash: (task: HashTask) =>
      new Promise<HashResult>((resolve, reject) => {
        if (ended !== undefined) return reject(ended.reason);
        waiting.push({ resolve, reject });
        worker.post(task);
      }),
    end: worker.end,
  };
}
