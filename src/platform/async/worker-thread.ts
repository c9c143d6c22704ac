import { type ResourceLimits, SHARE_ENV, type TransferListItem, Worker } from 'node:worker_threads';

/** What {@link startWorkerThread} needs. */
export interface WorkerThreadOptions<Message> {
  /** The text of a program that needs no file beside it, or the file of one. */
  readonly program: string | URL;
  /** Limits of its heap, in MiB. Buffers that are transferred to it do not count. */
  readonly heap: Pick<ResourceLimits, 'maxOldGenerationSizeMb' | 'maxYoungGenerationSizeMb'>;
  readonly onMessage: (message: Message) => void;
  /**
   * Called once, when the thread is over: with the reason given to `end()`, or with the error that
   * ended it.
   */
  readonly onEnd: (reason: unknown) => void;
}

/** A thread that runs a program of ours. */
export interface WorkerThread<Task> {
  /**
   * Hands a task to the program. `transfer` names buffers that are moved to it instead of being
   * copied.
   */
  post(task: Task, transfer?: readonly TransferListItem[]): void;
  /** Ends the thread at once, whatever it does. */
  end(reason: unknown): void;
}

/** The code of the error with which Node ends a thread whose heap has reached its limit. */
export const OUT_OF_MEMORY = 'ERR_WORKER_OUT_OF_MEMORY';

/**
 * Starts a thread. It gets none of the flags of this process, as loaders: they are meant for
 * another program.
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
