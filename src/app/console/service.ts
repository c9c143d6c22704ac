import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { EMPTY_REPORT, type StatusReport } from '../../domain/report/status-schema.ts';
import { bootTime } from '../../host/node-facts.ts';
import { openTerminal } from '../../host/virtual-terminal.ts';
import { linkSignals } from '../../platform/async/abort.ts';
import { systemClock } from '../../platform/clock.ts';
import { readIfPresent } from '../../platform/files/durable-file.ts';
import { watchSettings } from '../daemon/changes.ts';
import { runSideProcess, type SideProcess } from '../side-process.ts';
import { Screen } from './screen.ts';

/** The program of `stickpin-console.service`, as `runFleetService()`. */
export async function runConsoleService(args: readonly string[]): Promise<number> {
  return runSideProcess('stickpin-console', args, serve);
}

/** A change of the settings restarts it within the process, as the fleet process. */
async function serve(service: SideProcess): Promise<number> {
  const { log, stop, notifier } = service;
  stop.addEventListener('abort', () => notifier.stopping(), { once: true });
  let { settings } = service;
  for (;;) {
    const { vt } = settings.console;
    if (vt === undefined) break;
    await work({ ...service, settings }, vt);
    if (stop.aborted) return 0;
    settings = await service.validSettings();
  }
  // systemd takes an end without READY=1 for a failure.
  notifier.ready();
  log.info({}, 'console.vt is not set: nothing is shown on a terminal');
  return 0;
}

/** The daemon writes at once when a stick is plugged in or unplugged. */
const TICK_MS = 250;

/** Until the settings change, or the service is to stop. */
async function work({ settings, sources, log, stop, notifier }: SideProcess, vt: number): Promise<void> {
  const changed = new AbortController();
  const { signal, release } = linkSignals([stop, changed.signal]);
  const screen = new Screen(await openTerminal(vt), vt, beforePath());
  const onChanged = () => changed.abort();
  const unwatch = watchSettings({ settings, sources, log, notifier, onReload: () => undefined, onChanged });
  notifier.ready();
  notifier.status(`On terminal ${vt}: Ctrl+Alt+F${vt} shows it.`);
  const path = join(settings.paths.run_dir, 'status.json');
  let last: string | undefined;
  let report: StatusReport | undefined;
  try {
    while (!signal.aborted) {
      // Each text is a new file; two of one moment have the same time.
      const written = await stat(path).then(
        ({ ino, mtimeMs }) => `${ino} ${mtimeMs}`,
        () => undefined,
      );
      if (written !== last) report = (await readReport(path)) ?? report;
      last = written;
      if (report !== undefined) screen.show(report);
      await systemClock.sleep(TICK_MS, signal).catch(() => undefined);
    }
  } finally {
    unwatch();
    release();
    screen.close();
  }
}

/** The folder of `RuntimeDirectory=` stays while systemd starts the unit again. */
function beforePath(): string | undefined {
  const folder = process.env.RUNTIME_DIRECTORY;
  return folder === undefined ? undefined : join(folder, 'before');
}

/**
 * Undefined for one of an earlier boot, or that can't be read. One of an earlier daemon of this
 * boot is shown until the daemon writes its first.
 */
async function readReport(path: string): Promise<StatusReport | undefined> {
  try {
    const { bootId, ...members } = JSON.parse((await readIfPresent(path)) ?? '{}');
    const isOfNow = bootId === bootTime().bootId && members.advice !== undefined;
    return isOfNow ? { ...EMPTY_REPORT, ...members } : undefined;
  } catch {
    return undefined;
  }
}
