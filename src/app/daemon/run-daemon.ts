import type { Engine } from '../../engine/loop/engine.ts';
import type { Media } from '../../media/media.ts';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import type { Log } from '../../platform/log.ts';
import { messageIds } from '../../platform/message-ids.ts';
import type { RuntimeAdapter } from '../../runtime/runtime-adapter.ts';
import type { DaemonOptions } from './daemon-options.ts';

/** The parts of a daemon that run. */
export interface RunningParts {
  readonly engine: Engine;
  readonly media: Media;
  readonly runtime: RuntimeAdapter;
  readonly authority: string;
  readonly options: Pick<DaemonOptions, 'log' | 'notifier'>;
}

/**
 * From `READY=1` to the mirrors' end. INVARIANT: `STOPPING=1` goes out before anything is waited
 * for.
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
  await withdrawMirrors(runtime, log);
}

/**
 * Mirrors lead to our registry, which ends with us; the runtime would ask a closed port first until
 * somebody cleans up.
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
