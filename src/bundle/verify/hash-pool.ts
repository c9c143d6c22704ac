import { startWorkerThread } from '../../platform/async/worker-thread.ts';

type HashResult = Exclude<HashMessage, { readonly kind: 'progress' }>;

export interface HashPool {
  /** Tasks beyond the number of threads wait. @throws the signal's reason at once after an abort */
  hash(task: HashTask): Promise<HashResult>;
  /** Waiting tasks are rejected. */
  close(): void;
}

/** The program is small. */
const HEAP = { maxOldGenerationSizeMb: 32, maxYoungGenerationSizeMb: 2 };

interface Waiting {
  readonly resolve: (result: HashResult) => void;
  readonly reject: (reason: unknown) => void;
}

/** An abort ends the workers after their current read of 1 MiB. `onBytes`: since the last call. */
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

/** One worker answers its tasks in order. */
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

/** `fd` belongs to the process and stays open until the answer. */
interface HashTask {
  readonly fd: number;
  readonly startByte: number;
  readonly sizeBytes: number;
}

/** Any number of `progress`, then one of the others. `ended`: too early, at `atByte`. */
type HashMessage =
  | { readonly kind: 'progress'; readonly bytes: number }
  | { readonly kind: 'done'; readonly sha256Hex: string }
  | { readonly kind: 'ended'; readonly atByte: number }
  | { readonly kind: 'failed'; readonly code: string; readonly message: string };

/**
 * The program of a worker. It reads synchronously into one buffer of 1 MiB, so that its memory does
 * not depend on the file.
 *
 * INVARIANT: this function runs from its own text, and uses nothing outside itself but globals.
 */
function runHashWorker(): void {
  const { createHash } = process.getBuiltinModule('node:crypto');
  const { readSync } = process.getBuiltinModule('node:fs');
  const { parentPort } = process.getBuiltinModule('node:worker_threads');
  const buffer = Buffer.allocUnsafeSlow(1024 * 1024);
  // Each message wakes the main thread, which shares its core.
  const reportBytes = 16 * buffer.length;

  const hash = ({ fd, startByte, sizeBytes }: HashTask): HashMessage => {
    const sha256 = createHash('sha256');
    let unreported = 0;
    for (let at = 0; at < sizeBytes; ) {
      const filled = readSync(fd, buffer, 0, Math.min(buffer.length, sizeBytes - at), startByte + at);
      if (filled === 0) return { kind: 'ended', atByte: at };
      sha256.update(filled === buffer.length ? buffer : buffer.subarray(0, filled));
      at += filled;
      unreported += filled;
      if (unreported < reportBytes && at < sizeBytes) continue;
      parentPort?.postMessage({ kind: 'progress', bytes: unreported } satisfies HashMessage);
      unreported = 0;
    }
    return { kind: 'done', sha256Hex: sha256.digest('hex') };
  };
  parentPort?.on('message', (task: HashTask) => {
    try {
      parentPort.postMessage(hash(task));
    } catch (error) {
      const { code = 'unknown', message } = error as NodeJS.ErrnoException;
      parentPort.postMessage({ kind: 'failed', code, message } satisfies HashMessage);
    }
  });
}
