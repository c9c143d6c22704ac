/** A part of a file to be hashed. `fd` belongs to the process and stays open until the answer. */
export interface HashTask {
  readonly fd: number;
  readonly startByte: number;
  readonly sizeBytes: number;
}

/**
 * A worker's messages: any number of `progress`, then one of the others. `ended`: the file ended at
 * `atByte`, before the end of the task. `failed`: a read failed with the system error `code`, as
 * `EIO`.
 */
export type HashMessage =
  | { readonly kind: 'progress'; readonly bytes: number }
  | { readonly kind: 'done'; readonly sha256Hex: string }
  | { readonly kind: 'ended'; readonly atByte: number }
  | { readonly kind: 'failed'; readonly code: string; readonly message: string };

/**
 * The program of a worker thread: hashes one {@link HashTask} after the other. It reads
 * synchronously, since its thread does nothing else, into one buffer of 1 MiB, so that its memory
 * does not depend on the file.
 *
 * INVARIANT: this function runs from its own text (see `createHashPool()`), so that it needs no
 * file beside the program. It may use nothing outside of itself except globals.
 */
export function runHashWorker(): void {
  const { createHash } = process.getBuiltinModule('node:crypto');
  const { readSync } = process.getBuiltinModule('node:fs');
  const { parentPort } = process.getBuiltinModule('node:worker_threads');
  const buffer = Buffer.allocUnsafeSlow(1024 * 1024);
  // Few messages: each one wakes the main thread, which shares its core.
  const tellBytes = 16 * buffer.length;

  const hash = ({ fd, startByte, sizeBytes }: HashTask): HashMessage => {
    const sha256 = createHash('sha256');
    let untold = 0;
    for (let at = 0; at < sizeBytes; ) {
      const filled = readSync(fd, buffer, 0, Math.min(buffer.length, sizeBytes - at), startByte + at);
      if (filled === 0) return { kind: 'ended', atByte: at };
      sha256.update(filled === buffer.length ? buffer : buffer.subarray(0, filled));
      at += filled;
      untold += filled;
      if (untold < tellBytes && at < sizeBytes) continue;
      parentPort?.postMessage({ kind: 'progress', bytes: untold } satisfies HashMessage);
      untold = 0;
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
