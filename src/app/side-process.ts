import { parseArgs } from 'node:util';
import { loadSettings, NODE_SOURCES, type SettingsSources } from '../config/load-settings.ts';
import { statusText } from '../domain/report/line.ts';
import { startFaultLine, wrongSettingsLine } from '../domain/report/reasons/node-lines.ts';
import type { Settings } from '../domain/settings/settings.ts';
import { type ClosableLog, createLog } from '../host/log.ts';
import { createServiceNotifier, type SystemdNotifier } from '../host/notify.ts';
import { nameProcess } from '../host/process-name.ts';
import { AppError, reasonOf } from '../platform/app-error.ts';
import { untilAborted } from '../platform/async/abort.ts';
import { systemClock } from '../platform/clock.ts';
import { messageIds } from '../platform/message-ids.ts';
import { sentence } from '../platform/plain-text.ts';
import type { Unsubscribe } from '../platform/subscription.ts';
import { exitCodeOf } from '../store/files/folder-lock.ts';
import { watchSettings } from './daemon/changes.ts';

/** A process beside the daemon. */
export interface SideProcess {
  readonly settings: Settings;
  readonly sources: SettingsSources;
  readonly log: ClosableLog;
  /** Aborted to stop the service. */
  readonly stop: AbortSignal;
  readonly notifier: SystemdNotifier;
  /** Reads the settings again, and waits until they are valid. */
  readonly validSettings: () => Promise<Settings>;
}

/** The program of a unit, until SIGTERM. Resolves to the exit code. @param name of the program */
export async function runSideProcess(
  name: string,
  args: readonly string[],
  work: (service: SideProcess, flags: { readonly withdraw: boolean }) => Promise<number>,
): Promise<number> {
  nameProcess(name);
  const log = await createLog({ env: process.env });
  const stop = new AbortController();
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => stop.abort());
  const notifier = await createServiceNotifier({ env: process.env, log, clock: systemClock, healthy: () => true });
  try {
    const { sources, withdraw } = readArguments(args);
    const shared = { sources, log, stop: stop.signal, notifier };
    const validSettings = () => awaitSettings(name, shared);
    const settings = await (withdraw ? loadSettings(sources, stop.signal) : validSettings());
    return await work({ ...shared, settings, validSettings }, { withdraw });
  } catch (error) {
    if (stop.signal.aborted) return 0;
    log.error({ err: error, messageId: messageIds.configurationRejected }, `${name} can't start: ${reasonOf(error)}`);
    const code = error instanceof AppError ? error.code : undefined;
    notifier.status(statusText(startFaultLine(code, reasonOf(error))));
    return exitCodeOf(error);
  } finally {
    notifier.dispose();
    log.close();
  }
}

/**
 * Wrong settings are waited out: a restart does not mend them. systemd gets READY=1 meanwhile, so
 * that it does not end the start. @throws whatever aborted `stop`
 */
async function awaitSettings(
  name: string,
  { sources, log, stop, notifier }: Pick<SideProcess, 'sources' | 'log' | 'stop' | 'notifier'>,
): Promise<Settings> {
  for (;;) {
    try {
      return await loadSettings(sources, stop);
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
      const show = (fault: string) =>
        notifier.status(statusText(wrongSettingsLine(fault, `${name} waits until they are corrected.`)));
      log.error(
        { err: error, messageId: messageIds.configurationRejected },
        `The settings are wrong: ${sentence(error.message)} ${name} waits until they are corrected`,
      );
      show(error.message);
      notifier.ready();
      await untilMended({ sources, log, stop, notifier }, show);
    }
  }
}

async function untilMended(
  { sources, log, stop, notifier }: Pick<SideProcess, 'sources' | 'log' | 'stop' | 'notifier'>,
  show: (fault: string) => void,
): Promise<void> {
  let unwatch: Unsubscribe = () => undefined;
  const mended = new Promise<void>((resolve) => {
    const onRefused = (fault?: string) => fault !== undefined && show(fault);
    unwatch = watchSettings({
      settings: undefined,
      sources,
      log,
      notifier,
      onReload: resolve,
      onChanged: resolve,
      onRefused,
    });
  });
  try {
    await untilAborted(mended, stop);
  } finally {
    unwatch();
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
