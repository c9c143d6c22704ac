import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { endProcess } from '../support/end-process.ts';
import { serviceFlags } from './daemon-process.ts';

/** Another process of this program that does one part of the bench, asked over IPC. */
export interface BenchChild<Told> {
  readonly pid: number;
  /** What it said first: it is ready. */
  readonly hello: Told;
  /** Asks it, and resolves with the answer. */
  ask(): Promise<Told>;
  stop(): Promise<void>;
}

/**
 * Starts this program again with the flags of the service, as `role` with `args`. @throws Error
 * when it ends before it is ready
 */
export async function startChild<Told>(
  role: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<BenchChild<Told>> {
  const child: ChildProcess = fork(process.argv[1] ?? '', [role, ...args], {
    execArgv: serviceFlags(),
    env: { ...process.env, MALLOC_ARENA_MAX: '1', UV_THREADPOOL_SIZE: '8', ...env },
  });
  const answer = async (): Promise<Told> => {
    const over = new AbortController();
    const events = ['message', 'exit'].map((event) => once(child, event, { signal: over.signal }));
    const [told] = await Promise.race(events);
    for (const event of events) event.catch(() => undefined); // the one that did not come
    over.abort();
    if (typeof told !== 'object' || told === null) throw new Error(`the bench's ${role} ended with ${told}`);
    return told as Told;
  };
  const hello = await answer();
  return {
    pid: child.pid ?? 0,
    hello,
    ask: () => {
      const told = answer();
      child.send('tell');
      return told;
    },
    stop: () => endProcess(child, 'SIGTERM'),
  };
}

/**
 * The other side: says that it is ready, and then answers with what `tell` gives, until it is
 * ended.
 */
export function serveParent(tell: () => object): void {
  process.on('message', () => process.send?.(tell()));
  process.on('disconnect', () => process.exit(1));
  process.send?.(tell());
}
