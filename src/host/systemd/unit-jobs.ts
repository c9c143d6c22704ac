import type { SystemBus } from '../../dbus/system-bus.ts';
import { AppError } from '../../platform/app-error.ts';
import { MANAGER_SIGNALS } from './systemd-names.ts';
import { asUnitError, type HostErrorCode, jobFailed } from './unit-error.ts';
import { subscribeToSignals } from './unit-events.ts';

/**
 * Runs `start`, which returns a job's path, and waits for `JobRemoved` of that job.
 *
 * @throws AppError `host/unit` (`retry`) when systemd refuses or the job fails; `host/no-such-unit`
 *   (`retry`).
 */
export type JobRunner = (
  doing: string,
  unit: string,
  start: () => Promise<readonly unknown[]>,
  signal: AbortSignal,
) => Promise<void>;

/** Makes a {@link JobRunner}. */
export function createJobRunner(bus: SystemBus): JobRunner {
  const resultOf = createJobWaiter(bus);
  return async (doing, unit, start, signal) => {
    try {
      const result = await resultOf(doing, unit, start, signal);
      if (result !== 'done' && result !== 'skipped') throw jobFailed(doing, unit, result);
    } catch (error) {
      throw asUnitError(doing, unit, error);
    }
  };
}

/**
 * As {@link JobRunner}, but resolves to the result in JobRemoved, whatever it is.
 *
 * @throws AppError `host/unit` (`retry`) when the connection broke meanwhile; what `start` throws
 */
export type JobWaiter = (...args: Parameters<JobRunner>) => Promise<string>;

/** Makes a {@link JobWaiter}. */
export function createJobWaiter(bus: SystemBus): JobWaiter {
  return async (doing, unit, start, signal) => {
    const watch = watchJobs(bus);
    try {
      await subscribeToSignals(bus, signal);
      const [job] = await start();
      const result = await watch.resultOf(String(job), signal);
      if (result === undefined) throw connectionLost(doing, unit);
      return result;
    } finally {
      watch.stop();
    }
  };
}

interface JobWatch {
  /** The result in JobRemoved. Undefined when the connection broke meanwhile. */
  resultOf(job: string, signal: AbortSignal): Promise<string | undefined>;
  stop(): void;
}

/** Starts before the job exists, because a short job may end before its path is known. */
function watchJobs(bus: SystemBus): JobWatch {
  const results = new Map<string, string>();
  /** Undefined before the path of the job is known. A job may run for days, while others end. */
  let wanted: string | undefined;
  let lost = false;
  let wake: () => void = () => undefined;
  const stopSignals = bus.onSignal({ ...MANAGER_SIGNALS, member: 'JobRemoved' }, ({ body }) => {
    const job = String(body[1]);
    if (wanted !== undefined && job !== wanted) return;
    results.set(job, String(body[3]));
    wake();
  });
  const stopConnected = bus.onConnected(() => {
    lost = true;
    wake();
  });
  return {
    resultOf: (job, signal) =>
      new Promise((resolve, reject) => {
        const onAbort = (): void => reject(signal.reason);
        wanted = job;
        for (const other of [...results.keys()]) if (other !== job) results.delete(other);
        wake = () => {
          if (!results.has(job) && !lost) return;
          signal.removeEventListener('abort', onAbort);
          resolve(results.get(job));
        };
        signal.throwIfAborted();
        signal.addEventListener('abort', onAbort, { once: true });
        wake();
      }),
    stop: () => {
      stopSignals();
      stopConnected();
    },
  };
}

function connectionLost(doing: string, unit: string): AppError<HostErrorCode> {
  return new AppError({
    code: 'host/unit',
    message: `${doing} ${unit}: the connection to systemd broke before the job was over`,
    disposition: 'retry',
  });
}
