import { AppError } from '../app-error.ts';

/**
 * Said to nobody: the work has ended. One for all, since an error with its stack for each call
 * costs more than the call's own part here.
 */
const OVER = new Error('the work is over');

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
  const own = new AbortController();
  const { signal } = own;
  const timer = setTimeout(() => own.abort(expiry), timeoutMs);
  // Not AbortSignal.any(): in Node 20 each use leaves an entry on a parent that lives as long as
  // the daemon.
  const onParent = () => own.abort(parent.reason);
  parent.addEventListener('abort', onParent, { once: true });
  try {
    return await Promise.race([work(signal), rejectionOf(signal)]);
  } finally {
    clearTimeout(timer);
    parent.removeEventListener('abort', onParent);
    own.abort(OVER); // releases the listener that rejectionOf() left on the signal
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
