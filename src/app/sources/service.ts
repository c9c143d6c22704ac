import { hasSources } from '../../domain/settings/settings.ts';
import { Sources } from '../../fleet/sources/sources.ts';
import { fleetPaths } from '../../fleet/wire/documents.ts';
import { serveSocket } from '../../fleet/wire/server.ts';
import { linkSignals } from '../../platform/async/abort.ts';
import { systemClock } from '../../platform/clock.ts';
import { watchSettings } from '../daemon/changes.ts';
import { runSideProcess, type SideProcess } from '../side-process.ts';

/** The program of `stickpin-sources.service`, as `runFleetService()`. */
export async function runSourcesService(args: readonly string[]): Promise<number> {
  return runSideProcess('stickpin-sources', args, serve);
}

/** A change of the settings restarts it within the process, as the fleet process. */
async function serve(service: SideProcess): Promise<number> {
  const { log, stop, notifier } = service;
  stop.addEventListener('abort', () => notifier.stopping(), { once: true });
  let { settings } = service;
  while (hasSources(settings)) {
    await work({ ...service, settings });
    if (stop.aborted) return 0;
    settings = await service.validSettings();
  }
  // systemd takes an end without READY=1 for a failure.
  notifier.ready();
  log.info({}, 'No section [sources.NAME] of the settings has a reference: nothing comes from registries');
  return 0;
}

const TICK_MS = 2_000;

/** Until the settings change, or the service is to stop. */
async function work({ settings, sources: from, log, stop, notifier }: SideProcess): Promise<void> {
  const changed = new AbortController();
  const { signal, release } = linkSignals([stop, changed.signal]);
  const sources = new Sources({ settings, clock: systemClock, log, random: Math.random });
  // Its folder is for root and for the user of the unit; the daemon may only search in it.
  const mode = 0o666;
  const socket = await serveSocket(
    fleetPaths(settings.paths).sourcesSocket,
    (...call) => sources.answer(...call),
    mode,
  );
  const onChanged = () => changed.abort();
  const unwatch = watchSettings({ settings, sources: from, log, notifier, onReload: () => undefined, onChanged });
  notifier.ready();
  try {
    await Promise.all([sources.run(signal), showStatus(sources, notifier, signal)]);
  } finally {
    unwatch();
    release();
    await socket.close();
  }
}

async function showStatus(sources: Sources, notifier: SideProcess['notifier'], signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    notifier.status(sources.statusLine());
    await systemClock.sleep(TICK_MS, signal).catch(() => undefined);
  }
}
