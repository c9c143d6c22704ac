import { hostname } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { loadSettings, NODE_SOURCES, type SettingsSources } from '../../config/load-settings.ts';
import type { Settings } from '../../domain/settings/settings.ts';
import { createIdentityKeeper, type IdentityKeeper } from '../../fleet/identity/identity.ts';
import { type ClosableLog, createLog } from '../../host/log/log.ts';
import { createServiceNotifier, type SystemdNotifier } from '../../host/notify/notify.ts';
import { reasonOf } from '../../platform/app-error.ts';
import { systemClock } from '../../platform/clock.ts';
import { messageIds } from '../../platform/message-ids.ts';
import { watchSettings } from '../daemon/watch-settings.ts';
import { createFleet } from './fleet.ts';
import { createNodeCluster } from './node-cluster.ts';
import { followOwnStatus } from './own-status.ts';

/** systemd starts the process again after this exit code (`RestartForceExitStatus=`): EX_TEMPFAIL. */
const START_AGAIN = 75;

/** The parts of the service. */
interface Service {
  readonly settings: Settings;
  readonly sources: SettingsSources;
  readonly log: ClosableLog;
  /** Aborted to stop the service. */
  readonly stop: AbortController;
}

/**
 * The program of `stickpin-fleet.service`. Resolves to the exit code.
 *
 * @param args the arguments after the program's name: `--config FILE`, any number of times
 */
export async function runFleetService(args: readonly string[]): Promise<number> {
  const log = await createLog({ env: process.env });
  const stop = new AbortController();
  for (const name of ['SIGTERM', 'SIGINT'] as const) process.once(name, () => stop.abort());
  try {
    const sources = sourcesOf(args);
    const settings = await loadSettings(sources, stop.signal);
    return await serve({ settings, sources, log, stop });
  } catch (error) {
    if (stop.signal.aborted) return 0;
    log.error(
      { err: error, messageId: messageIds.configurationRejected },
      `stickpin-fleet can't start: ${reasonOf(error)}`,
    );
    return 1;
  } finally {
    log.close();
  }
}

async function serve(service: Service): Promise<number> {
  const { settings, log } = service;
  const notifier = await createServiceNotifier({ env: process.env, log, healthy: () => true });
  try {
    if (settings.fleet.enabled) return await work(service, notifier);
    // systemd takes an end without READY=1 for a failure.
    notifier.ready();
    log.info({}, 'fleet.enabled is false: this node takes nothing from other nodes, and gives them nothing');
    return 0;
  } finally {
    notifier.dispose();
  }
}

async function work({ settings, sources, log, stop }: Service, notifier: SystemdNotifier): Promise<number> {
  const own = await followOwnStatus(join(settings.paths.run_dir, 'status.json'), log);
  const identity = await identityOf(settings, log, stop.signal);
  const name = identity?.current()?.node ?? hostname();
  const fleet = createFleet({
    settings,
    cluster: createNodeCluster(name),
    ownStatus: own.status,
    onOwnStatus: own.onChange,
    identity,
    notifier,
    clock: systemClock,
    log,
  });
  let exitCode = 0;
  const unwatch = watchSettings({
    settings,
    sources,
    log,
    notifier,
    onReload: () => undefined,
    onChanged: () => {
      exitCode = START_AGAIN;
      stop.abort();
    },
  });
  stop.signal.addEventListener('abort', notifier.stopping, { once: true });
  try {
    await fleet.run(stop.signal);
  } finally {
    unwatch();
    own.stop();
  }
  return exitCode;
}

/** Undefined with `fleet.auth = "none"`. */
async function identityOf(
  { fleet }: Settings,
  log: ClosableLog,
  signal: AbortSignal,
): Promise<IdentityKeeper | undefined> {
  if (fleet.auth === 'none') {
    log.warn({}, 'fleet.auth is "none": whoever reaches the port reads the bundles of this node, in clear text');
    return undefined;
  }
  const keeper = createIdentityKeeper({ settings: fleet, clock: systemClock, log });
  await keeper.refresh(signal);
  return keeper;
}

/** These files are read after the node's fragments and override them. */
function sourcesOf(args: readonly string[]): SettingsSources {
  const { values } = parseArgs({ args: [...args], options: { config: { type: 'string', multiple: true } } });
  return { fragments: [...NODE_SOURCES.fragments, ...(values.config ?? []).map((file) => ({ file, required: true }))] };
}
