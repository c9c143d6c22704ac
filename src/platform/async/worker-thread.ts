import { type ResourceLimits, SHARE_ENV, type TransferListItem, Worker } from 'node:worker_threads';

export interface WorkerThreadOptions<Message> {
  /** The text of a program that needs no other file, or a file. */
  readonly program: string | URL;
  /** Limits in MiB. Transferred buffers do not count. */
  readonly heap: Pick<ResourceLimits, 'maxOldGenerationSizeMb' | 'maxYoungGenerationSizeMb'>;
  readonly onMessage: (message: Message) => void;
  /** It is called once: with the reason of `end()`, or with the thread's error. */
  readonly onEnd: (reason: unknown) => void;
}

export interface WorkerThread<Task> {
  /** `transfer` names buffers that are moved instead of copied. */
  post(task: Task, transfer?: readonly TransferListItem[]): void;
  end(reason: unknown): void;
}

/** Node.js: the heap has reached its limit. */
export const OUT_OF_MEMORY = 'ERR_WORKER_OUT_OF_MEMORY';

/** The thread does not get the flags of this process, for example loaders of another program. */
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
