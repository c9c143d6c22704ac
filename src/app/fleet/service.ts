import { hostname } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { loadSettings, NODE_SOURCES, type SettingsSources } from '../../config/load-settings.ts';
import type { Settings } from '../../domain/settings/settings.ts';
import { createIdentityKeeper, type IdentityKeeper } from '../../fleet/identity/identity.ts';
import { createKubernetesApi, type KubernetesApi } from '../../fleet/kubernetes/api.ts';
import { readCredentials } from '../../fleet/kubernetes/credentials.ts';
import { createKubernetesCluster } from '../../fleet/kubernetes/kubernetes-cluster.ts';
import { isKubeletReady } from '../../fleet/peers/kubelets.ts';
import { createPublisher, withdraw } from '../../fleet/publisher/publisher.ts';
import { type ClosableLog, createLog } from '../../host/log/log.ts';
import { createServiceNotifier, type SystemdNotifier } from '../../host/notify/notify.ts';
import { reasonOf } from '../../platform/app-error.ts';
import { linkSignals, withDeadline } from '../../platform/async/abort.ts';
import { systemClock } from '../../platform/clock.ts';
import { messageIds } from '../../platform/message-ids.ts';
import { watchSettings } from '../daemon/watch-settings.ts';
import { createFleet } from './fleet.ts';
import { followOwnStatus } from './own-status.ts';

/** How long the API server may take to forget what stickpin told. */
const WITHDRAW_MS = 10_000;

/** The parts of the service. */
interface Service {
  readonly settings: Settings;
  readonly sources: SettingsSources;
  readonly log: ClosableLog;
  /** Aborted to stop the service. */
  readonly stop: AbortSignal;
}

/**
 * The program of `stickpin-fleet.service`. Resolves to the exit code.
 *
 * @param args the arguments after the program's name: `--config FILE`, any number of times, and
 *   `--withdraw`, which takes everything of stickpin away from the own Node instead, unless
 *   `fleet.enabled` is false
 */
export async function runFleetService(args: readonly string[]): Promise<number> {
  const log = await createLog({ env: process.env });
  const stop = new AbortController();
  for (const name of ['SIGTERM', 'SIGINT'] as const) process.once(name, () => stop.abort());
  try {
    const options = readArguments(args);
    const { sources } = options;
    const settings = await loadSettings(sources, stop.signal);
    if (options.withdraw) return settings.fleet.enabled ? await withdrawFromNode(settings, log, stop.signal) : 0;
    return await serve({ settings, sources, log, stop: stop.signal });
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

/**
 * With each change of the settings it begins anew within the process. systemd would wait longer with
 * each start that it makes by itself (`RestartSteps=`), and there is no way to it but the exit code.
 */
async function serve(service: Service): Promise<number> {
  const { sources, log, stop } = service;
  const notifier = await createServiceNotifier({ env: process.env, log, healthy: () => true });
  stop.addEventListener('abort', notifier.stopping, { once: true });
  try {
    let { settings } = service;
    while (settings.fleet.enabled) {
      await work({ ...service, settings }, notifier);
      if (stop.aborted) return 0;
      settings = await loadSettings(sources, stop);
    }
    // systemd takes an end without READY=1 for a failure.
    notifier.ready();
    log.info({}, 'fleet.enabled is false: this node takes nothing from other nodes, and gives them nothing');
    await withdrawAfterOff({ ...service, settings });
    return 0;
  } finally {
    notifier.dispose();
  }
}

/** Until the settings change, or the service is to stop. */
async function work({ settings, sources, log, stop }: Service, notifier: SystemdNotifier): Promise<void> {
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
  const publisher = createPublisher({ ...common, cluster, report, isDaemonUp, serves: fleet.serves });
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

/** The fleet may have been on before. A node without a kubelet has no Node that could tell of it. */
async function withdrawAfterOff({ settings, log, stop }: Service): Promise<void> {
  const isHere = await readCredentials(settings.fleet.kubeconfig, stop).then(
    () => true,
    () => false,
  );
  if (isHere) await withdrawFromNode(settings, log, stop);
}

async function withdrawFromNode(settings: Settings, log: ClosableLog, signal: AbortSignal): Promise<number> {
  try {
    await withDeadline('The Kubernetes API', WITHDRAW_MS, signal, (inner) =>
      withdraw(apiOf(settings), nodeNameOfHost(), inner),
    );
    return 0;
  } catch (error) {
    if (signal.aborted) throw error;
    const remedy = "'kubectl edit node' removes what begins with stickpin.io/";
    log.warn({ err: error }, `What stickpin told about this node stays on its Node: ${reasonOf(error)}; ${remedy}`);
    return 1;
  }
}

function apiOf({ fleet }: Settings): KubernetesApi {
  return createKubernetesApi((signal) => readCredentials(fleet.kubeconfig, signal));
}

/** Of the kubelet's certificate, also while no API server runs; else that of the host. */
async function nodeNameOf({ fleet }: Settings, signal: AbortSignal): Promise<string> {
  const credentials = await readCredentials(fleet.kubeconfig, signal).catch(() => undefined);
  return credentials?.nodeName ?? nodeNameOfHost();
}

/** As a kubelet without `--hostname-override` calls its Node. */
function nodeNameOfHost(): string {
  return hostname().trim().toLowerCase();
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
