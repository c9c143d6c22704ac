import { parseArgs } from 'node:util';
import { loadSettings, NODE_SOURCES, type SettingsSources } from '../config/load-settings.ts';
import { startFaultLine } from '../domain/report/status/media-line.ts';
import type { Settings } from '../domain/settings/settings.ts';
import { type ClosableLog, createLog } from '../host/log.ts';
import { createServiceNotifier, type SystemdNotifier } from '../host/notify.ts';
import { AppError, reasonOf } from '../platform/app-error.ts';
import { systemClock } from '../platform/clock.ts';
import { messageIds } from '../platform/message-ids.ts';
import { exitCodeOf } from '../store/files/folder-lock.ts';

/** A process beside the daemon. */
export interface SideProcess {
  readonly settings: Settings;
  readonly sources: SettingsSources;
  readonly log: ClosableLog;
  /** Aborted to stop the service. */
  readonly stop: AbortSignal;
  readonly notifier: SystemdNotifier;
}

/** The program of a unit, until SIGTERM. Resolves to the exit code. @param name of the program */
export async function runSideProcess(
  name: string,
  args: readonly string[],
  work: (service: SideProcess, flags: { readonly withdraw: boolean }) => Promise<number>,
): Promise<number> {
  const log = await createLog({ env: process.env });
  const stop = new AbortController();
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => stop.abort());
  const notifier = await createServiceNotifier({ env: process.env, log, clock: systemClock, healthy: () => true });
  try {
    const { sources, withdraw } = readArguments(args);
    const settings = await loadSettings(sources, stop.signal);
    return await work({ settings, sources, log, stop: stop.signal, notifier }, { withdraw });
  } catch (error) {
    if (stop.signal.aborted) return 0;
    log.error({ err: error, messageId: messageIds.configurationRejected }, `${name} can't start: ${reasonOf(error)}`);
    const code = error instanceof AppError ? error.code : undefined;
    notifier.status(startFaultLine(name, code, reasonOf(error)));
    return exitCodeOf(error);
  } finally {
    notifier.dispose();
    log.close();
  }
}

interface Arguments {
  /** The node's fragments, and the files of `--config`, which override them. */
  readonly sources: SettingsSources;
  readonly withdraw: boolean;
}

function readArguments(args: readonly string[]): Arguments {
  const { values } = parseArgs({
    args: [...args],
    options: { config: { type: 'string', multiple: true }, withdraw: { type: 'boolean', default: false } },
  });
  const files = (values.config ?? []).map((file) => ({ file, required: true }));
  return { sources: { fragments: [...NODE_SOURCES.fragments, ...files] }, withdraw: values.withdraw };
}
