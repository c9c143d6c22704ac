import type { Engine } from '../../engine/loop/engine.ts';
import type { Media } from '../../media/media.ts';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import type { Log } from '../../platform/log.ts';
import { messageIds } from '../../platform/message-ids.ts';
import type { RuntimeAdapter } from '../../runtime/runtime-adapter.ts';
import type { DaemonOptions } from './daemon-options.ts';

/** The running parts of a daemon. */
export interface RunningParts {
  readonly engine: Engine;
  readonly media: Media;
  readonly runtime: RuntimeAdapter;
  readonly authority: string;
  readonly options: Pick<DaemonOptions, 'log' | 'notifier' | 'keepsMirrors'>;
}

/**
 * Runs from `READY=1` to the removal of the mirrors. INVARIANT: `STOPPING=1` is sent before the
 * first await of the stop.
 */
export async function runDaemon(
  { engine, media, runtime, authority, options }: RunningParts,
  signal: AbortSignal,
): Promise<void> {
  const { log, notifier } = options;
  signal.addEventListener('abort', notifier.stopping, { once: true });
  await media.start(signal);
  notifier.ready();
  log.info({ messageId: messageIds.daemonStarted }, `stickpin started; its registry listens on ${authority}`);
  await engine.run(signal);
  log.info(
    { messageId: messageIds.daemonStopping },
    'stickpin stops; pins stay, and what was not loaded is loaded after the next start',
  );
  if (options.keepsMirrors !== true) await withdrawMirrors(runtime, log);
}

/**
 * Removes the mirrors, because our registry stops with the daemon. Otherwise the runtime would ask
 * a closed port first.
 */
async function withdrawMirrors(runtime: RuntimeAdapter, log: Log): Promise<void> {
  try {
    await runtime.applyMirrors([], AbortSignal.timeout(WITHDRAW_MS));
  } catch (error) {
    if (error instanceof AppError && error.code === 'runtime/unreachable') return;
    log.warn({ err: error }, `The mirrors could not be taken away: ${reasonOf(error)}; the next start does it`);
  }
}

const WITHDRAW_MS = 5_000;
