import { type ResourceLimits, SHARE_ENV, type TransferListItem, Worker } from 'node:worker_threads';

/** The options of {@link startWorkerThread}. */
export interface WorkerThreadOptions<Message> {
  /** The text of a program that needs no other file, or the file of a program. */
  readonly program: string | URL;
  /** Limits of its heap, in MiB. Transferred buffers do not count. */
  readonly heap: Pick<ResourceLimits, 'maxOldGenerationSizeMb' | 'maxYoungGenerationSizeMb'>;
  readonly onMessage: (message: Message) => void;
  /**
   * Called once, when the thread has ended: with the reason of `end()`, or with the error that
   * ended it.
   */
  readonly onEnd: (reason: unknown) => void;
}

/** A thread that runs one of our programs. */
export interface WorkerThread<Task> {
  /** Sends a task to the program. `transfer` names buffers that are moved instead of copied. */
  post(task: Task, transfer?: readonly TransferListItem[]): void;
  /** Ends the thread at once. */
  end(reason: unknown): void;
}

/** The error code of Node.js for a thread whose heap has reached its limit. */
export const OUT_OF_MEMORY = 'ERR_WORKER_OUT_OF_MEMORY';

/**
 * Starts a thread without the flags of this process, for example loaders, which are for another
 * program.
 */
export function startWorkerThread<Task, Message>(options: WorkerThreadOptions<Message>): WorkerThread<Task> {
  const { program, heap, onMessage, onEnd } = options;
  const worker = new Worker(program, {
    eval: typeof program === 'string',
    execArgv: [],
    env: SHARE_ENV,
    resourceLimits: heap,
  });
  let isOver = false;
  const end = (reason: unknown): void => {
    if (isOver) return;
    isOver = true;
    void worker.terminate();
    onEnd(reason);
  };
  worker.on('message', (message: Message) => {
    if (!isOver) onMessage(message);
  });
  worker.on('error', end);
  worker.on('exit', (code) => end(new Error(`a worker thread ended by itself, with exit code ${code}`)));
  return { post: (task, transfer = []) => worker.postMessage(task, transfer), end };
}
