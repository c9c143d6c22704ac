import { reasonOf } from '../../../platform/app-error.ts';
import { withDeadline } from '../../../platform/async/abort.ts';
import type { Clock } from '../../../platform/clock.ts';
import type { Log } from '../../../platform/log.ts';

/** What {@link startAgain} needs. */
export interface StartAgainOptions {
  /**
   * Has systemd restart the service; a SIGTERM follows, which aborts `stop`. Undefined where no
   * systemd started the daemon.
   */
  readonly restart: ((signal: AbortSignal) => Promise<void>) | undefined;
  /** Aborted to stop the daemon. */
  readonly stop: AbortController;
  readonly clock: Clock;
  readonly log: Log;
}

/** How long systemd may take to answer, and then to send its SIGTERM. */
const ANSWER_MS = 10_000;

/**
 * Ends the daemon so that it starts with other settings. Never throws.
 *
 * It asks systemd for a restart, because systemd waits longer before each automatic restart
 * (`RestartSteps=`), and does not forget the earlier ones. Where that is refused, or leads to
 * nothing, the daemon ends by itself, and `Restart=always` starts it.
 */
export async function startAgain({ restart, stop, clock, log }: StartAgainOptions): Promise<void> {
  if (restart !== undefined) {
    const { problem, err } = await restartProblem(restart, clock, stop.signal);
    if (stop.signal.aborted) return;
    log.warn({ err }, `systemd did not restart the service (${problem}), so that it ends by itself`);
  }
  stop.abort();
}

/** Why the service still runs. @param signal aborts with the SIGTERM */
async function restartProblem(
  restart: (signal: AbortSignal) => Promise<void>,
  clock: Clock,
  signal: AbortSignal,
): Promise<{ readonly problem: string; readonly err?: unknown }> {
  try {
    await withDeadline('systemd, asked for a restart,', ANSWER_MS, signal, restart);
    await clock.sleep(ANSWER_MS, signal);
    return { problem: `it agreed, and sent no SIGTERM within ${ANSWER_MS} ms` };
  } catch (err) {
    return { problem: reasonOf(err), err };
  }
}
