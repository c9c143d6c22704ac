import { AppError } from '../app-error.ts';

/**
 * Internal abort reason: the work has ended. One for all, since an error with its stack for each
 * call costs more than the call's own part here.
 */
const OVER = new Error('the work is over');

/**
 * The signal of work that must be done although its surroundings are being stopped: a record of
 * what has happened already. It never aborts.
 */
export const NEVER_ABORTED: AbortSignal = new AbortController().signal;

/**
 * Runs `work` under a deadline. The signal handed to `work` aborts when `parent` does or when
 * `timeoutMs` has passed.
 *
 * @throws AppError `platform/deadline` (`retry`) when the deadline passed; whatever `work` throws
 *   otherwise.
 */
export async function withDeadline<T>(
  what: string,
  timeoutMs: number,
  parent: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  parent.throwIfAborted();
  const expiry = new AppError({
    code: 'platform/deadline',
    message: `${what} did not answer within ${timeoutMs} ms`,
    disposition: 'retry',
  });
  const deadline = new AbortController();
  const timer = setTimeout(() => deadline.abort(expiry), timeoutMs);
  const { signal, release } = linkSignals([deadline.signal, parent]);
  try {
    return await Promise.race([work(signal), rejectionOf(signal)]);
  } finally {
    clearTimeout(timer);
    deadline.abort(OVER); // releases the listener that rejectionOf() left on the signal
    release();
  }
}

/** A signal that aborts with the first of several others, until it is released. */
export interface LinkedSignal {
  readonly signal: AbortSignal;
  /** Takes the listeners from the others. */
  release(): void;
}

/**
 * Links a new signal to `parents`: it aborts with the reason of the first that does.
 *
 * This replaces `AbortSignal.any()` in the whole of `src`. In Node.js, up to 24 at least, each use
 * of that function leaves an entry on a parent which nothing removes while the parent lives, and
 * many parents live as long as the daemon.
 */
export function linkSignals(parents: readonly AbortSignal[]): LinkedSignal {
  const own = new AbortController();
  const listeners = parents.map((parent) => ({ parent, onAbort: () => own.abort(parent.reason) }));
  const release = () => {
    for (const { parent, onAbort } of listeners) parent.removeEventListener('abort', onAbort);
  };
  for (const { parent, onAbort } of listeners) parent.addEventListener('abort', onAbort, { once: true });
  const aborted = parents.find((parent) => parent.aborted);
  if (aborted !== undefined) own.abort(aborted.reason);
  return { signal: own.signal, release };
}

/**
 * Runs `work` under a signal that aborts when one of `parents` does. Nothing stays on them
 * afterwards.
 */
export async function withEither<T>(
  parents: readonly AbortSignal[],
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const { signal, release } = linkSignals(parents);
  try {
    return await work(signal);
  } finally {
    release();
  }
}

/**
 * Waits for `work` no longer than until `signal` aborts; then its reason is thrown, whatever
 * becomes of `work` (a system call that hangs).
 */
export async function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  work.catch(() => undefined); // may fail after it was given up
  signal.throwIfAborted();
  const { promise, reject } = deferred<never>();
  const onAbort = () => reject(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    return await Promise.race([work, promise]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

function rejectionOf(signal: AbortSignal): Promise<never> {
  const { promise, reject } = deferred<never>();
  signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  promise.catch(() => undefined); // the race may be over before the abort
  return promise;
}

function deferred<T>(): { promise: Promise<T>; resolve: (value: T) => void; reject: (reason: unknown) => void } {
  let resolve: (value: T) => void = () => undefined;
  let reject: (reason: unknown) => void = () => undefined;
  const promise = new Promise<T>((onResolve, onReject) => {
    resolve = onResolve;
    reject = onReject;
  });
  return { promise, resolve, reject };
}
