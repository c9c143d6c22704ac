import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { loadSettings, NODE_SOURCES, type SettingsSources } from '../../config/load-settings.ts';
import { startFaultLine } from '../../domain/report/status/start-line.ts';
import type { Settings } from '../../domain/settings/settings.ts';
import { createIdentityKeeper, type IdentityKeeper } from '../../fleet/identity/identity.ts';
import { readCredentials } from '../../fleet/kubernetes/credentials.ts';
import { createKubernetesCluster } from '../../fleet/kubernetes/kubernetes-cluster.ts';
import { isKubeletReady } from '../../fleet/peers/kubelets.ts';
import { createPublisher } from '../../fleet/publisher/publisher.ts';
import { type ClosableLog, createLog } from '../../host/log/log.ts';
import { createServiceNotifier, type SystemdNotifier } from '../../host/notify/notify.ts';
import { fleetPaths } from '../../offers/fleet-paths.ts';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import { linkSignals } from '../../platform/async/abort.ts';
import { systemClock } from '../../platform/clock.ts';
import { messageIds } from '../../platform/message-ids.ts';
import { exitCodeOf, lockFolders } from '../../store/files/folder-lock.ts';
import { watchSettings } from '../daemon/changes/watch-settings.ts';
import { createFleet } from './fleet.ts';
import { followOwnStatus } from './own-status.ts';
import { apiOf, nodeNameOfHost, publishedMarkOf, withdrawFromNode } from './withdraw.ts';

/** The parts of the service. */
interface Service {
  readonly settings: Settings;
  readonly sources: SettingsSources;
  readonly log: ClosableLog;
  /** Aborted to stop the service. */
  readonly stop: AbortSignal;
  readonly notifier: SystemdNotifier;
}

/**
 * The program of `stickpin-fleet.service`. Resolves to the exit code.
 *
 * @param args the arguments after the program's name: `--config FILE`, any number of times, and
 *   `--withdraw`, which takes away what stickpin wrote into the own Node instead; the code is 1
 *   when it could not, and stderr says what to run later
 */
export async function runFleetService(args: readonly string[]): Promise<number> {
  const log = await createLog({ env: process.env });
  const stop = new AbortController();
  for (const name of ['SIGTERM', 'SIGINT'] as const) process.once(name, () => stop.abort());
  const notifier = await createServiceNotifier({ env: process.env, log, clock: systemClock, healthy: () => true });
  try {
    const options = readArguments(args);
    const { sources } = options;
    const settings = await loadSettings(sources, stop.signal);
    if (options.withdraw) return await withdrawAtRemoval(settings, log, stop.signal);
    return await serve({ settings, sources, log, stop: stop.signal, notifier });
  } catch (error) {
    if (stop.signal.aborted) return 0;
    log.error(
      { err: error, messageId: messageIds.configurationRejected },
      `stickpin-fleet can't start: ${reasonOf(error)}`,
    );
    const code = error instanceof AppError ? error.code : undefined;
    notifier.status(startFaultLine('stickpin-fleet', code, reasonOf(error)));
    return exitCodeOf(error);
  } finally {
    notifier.dispose();
    log.close();
  }
}

/** People and package managers run it, so it tells people what is left to do. */
async function withdrawAtRemoval(settings: Settings, log: ClosableLog, signal: AbortSignal): Promise<number> {
  const withdrawn = await withdrawFromNode(settings, log, signal);
  if (withdrawn.kind === 'gone') return 0;
  process.stderr.write(`stickpin-fleet: ${withdrawn.message}\n`);
  return 1;
}

/**
 * A change of the settings restarts the service within the process. An exit would not do: systemd
 * takes it for a failure and waits longer before each next start (`RestartSteps=`).
 */
async function serve(service: Service): Promise<number> {
  const { sources, log, stop, notifier } = service;
  stop.addEventListener('abort', notifier.stopping, { once: true });
  let { settings } = service;
  while (settings.fleet.enabled) {
    await work({ ...service, settings });
    if (stop.aborted) return 0;
    settings = await loadSettings(sources, stop);
  }
  // systemd takes an end without READY=1 for a failure.
  notifier.ready();
  log.info({}, 'fleet.enabled is false: this node takes nothing from other nodes, and gives them nothing');
  const withdrawn = await withdrawFromNode(settings, log, stop);
  if (withdrawn.kind === 'left') log.warn({}, `${withdrawn.message}. The next start and a removal try it again`);
  return 0;
}

/** Until the settings change, or the service is to stop. */
async function work(service: Service): Promise<void> {
  const { stateDir, runDir } = fleetPaths(service.settings.paths);
  const lock = { program: 'stickpin-fleet', clock: systemClock, log: service.log };
  const release = await lockFolders([stateDir, runDir], lock, service.stop);
  try {
    await workLocked(service);
  } finally {
    release();
  }
}

async function workLocked({ settings, sources, log, stop, notifier }: Service): Promise<void> {
  const changed = new AbortController();
  const { signal, release } = linkSignals([stop, changed.signal]);
  const own = await followOwnStatus(join(settings.paths.run_dir, 'status.json'), log);
  const identity = await identityOf(settings, log, stop);
  const common = { api: apiOf(settings), clock: systemClock, random: Math.random, log };
  const name = identity?.current()?.node ?? (await nodeNameOf(settings, stop));
  const cluster = createKubernetesCluster({ ...common, hostname: name });
  const fleet = createFleet({
    settings,
    cluster,
    ownStatus: own.status,
    onOwnStatus: own.onChange,
    identity,
    isKubeletReady: (node, inner) => isKubeletReady(common.api, node, inner),
    notifier,
    clock: systemClock,
    log,
  });
  const { report } = own;
  const isDaemonUp = () => !fleet.isDaemonAway();
  const mark = publishedMarkOf(settings, log);
  const publisher = createPublisher({ ...common, cluster, report, isDaemonUp, serves: fleet.serves, mark });
  own.onChange(publisher.changed);
  fleet.onServes(publisher.changed);
  const unwatch = watchSettings({
    settings,
    sources,
    log,
    notifier,
    onReload: () => undefined,
    onChanged: () => changed.abort(),
  });
  const ended = new AbortController();
  const published = publisher.run(ended.signal);
  try {
    await fleet.run(signal);
  } finally {
    ended.abort();
    await published;
    unwatch();
    own.stop();
    release();
  }
}

/** Of the kubelet's certificate, also while no API server runs; else that of the host. */
async function nodeNameOf({ fleet }: Settings, signal: AbortSignal): Promise<string> {
  const credentials = await readCredentials(fleet.kubeconfig, signal).catch(() => undefined);
  return credentials?.nodeName ?? nodeNameOfHost();
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
