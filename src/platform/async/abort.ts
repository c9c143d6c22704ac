import { AppError } from '../app-error.ts';

/**
 * Internal abort reason: the work has ended. It is shared, because a new error with its stack for
 * each call would cost more than the remaining call.
 */
const OVER = new Error('the work is over');

/**
 * A signal that never aborts, for work that must be done even during a stop: the record of an
 * action that has already happened.
 */
export const NEVER_ABORTED: AbortSignal = new AbortController().signal;

/**
 * Runs `work` with a deadline. The signal of `work` aborts when `parent` aborts or `timeoutMs` have
 * passed.
 * @throws AppError `platform/deadline` (`retry`) when the deadline passed; otherwise errors of
 * `work`
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

/** A signal that aborts with the first of several signals, until it is released. */
export interface LinkedSignal {
  readonly signal: AbortSignal;
  /** Removes the listeners from the other signals. */
  release(): void;
}

/**
 * Links a new signal to `parents`. It aborts with the reason of the first parent that aborts.
 *
 * All of `src` uses it instead of `AbortSignal.any()`. In Node.js (at least up to 24) each use of
 * that function adds an entry to the parent that is never removed. Many parents exist as long as
 * the daemon, so memory would grow.
 */
export function linkSignals(parents: readonly AbortSignal[]): LinkedSignal {
  const controller = new AbortController();
  const listeners = parents.map((parent) => ({ parent, onAbort: () => controller.abort(parent.reason) }));
  const release = () => {
    for (const { parent, onAbort } of listeners) parent.removeEventListener('abort', onAbort);
  };
  for (const { parent, onAbort } of listeners) parent.addEventListener('abort', onAbort, { once: true });
  const aborted = parents.find((parent) => parent.aborted);
  if (aborted !== undefined) controller.abort(aborted.reason);
  return { signal: controller.signal, release };
}

/**
 * Runs `work` with a signal that aborts when one of `parents` aborts. Removes its listeners
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
 * Waits for `work` until `signal` aborts, then throws its reason. `work` may continue, for example
 * in a system call that hangs.
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

/** A promise, and the functions that settle it. */
export function deferred<T>(): { promise: Promise<T>; resolve: (value: T) => void; reject: (reason: unknown) => void } {
  let resolve: (value: T) => void = () => undefined;
  let reject: (reason: unknown) => void = () => undefined;
  const promise = new Promise<T>((onResolve, onReject) => {
    resolve = onResolve;
    reject = onReject;
  });
  return { promise, resolve, reject };
}
