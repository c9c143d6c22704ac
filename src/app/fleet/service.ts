import { hostname } from 'node:os';
import { join } from 'node:path';
import type { Settings } from '../../domain/settings/settings.ts';
import { FleetLock, giveLockBack, type LockSettings, lockClientId } from '../../fleet/fleet-lock.ts';
import { byKubelet, type Identity, IdentityKeeper, NODE_NAME } from '../../fleet/identity/identity.ts';
import { byKeys } from '../../fleet/identity/node-keys.ts';
import { KubernetesApi } from '../../fleet/kubernetes/api.ts';
import { readCredentials } from '../../fleet/kubernetes/credentials.ts';
import { KubernetesCluster } from '../../fleet/kubernetes/kubernetes-cluster.ts';
import { PublishedMark } from '../../fleet/kubernetes/own-node.ts';
import { Publisher, withdraw } from '../../fleet/kubernetes/publisher.ts';
import { labelsToRead, type OwnReport, releasesOnSticks, rollOutsOf } from '../../fleet/publish/own-report.ts';
import type { Cluster } from '../../fleet/trouble.ts';
import { fleetPaths } from '../../fleet/wire/documents.ts';
import type { ClosableLog } from '../../host/log.ts';
import { nodeFacts } from '../../host/node-facts.ts';
import { reasonOf } from '../../platform/app-error.ts';
import { linkSignals, NEVER_ABORTED, withDeadline } from '../../platform/async/abort.ts';
import { systemClock } from '../../platform/clock.ts';
import { readIfPresent, replaceFile } from '../../platform/files/durable-file.ts';
import type { Log } from '../../platform/log.ts';
import { sentence } from '../../platform/plain-text.ts';
import { lockFolders } from '../../store/files/folder-lock.ts';
import { watchSettings } from '../daemon/changes.ts';
import { runSideProcess, type SideProcess } from '../side-process.ts';
import { Fleet, OwnStatus } from './fleet.ts';

/**
 * The program of `stickpin-fleet.service`. Resolves to the exit code.
 *
 * @param args the arguments after the program's name: `--config FILE`, any number of times, and
 *   `--withdraw`, which takes away what stickpin wrote into the own Node instead; the code is 1
 *   when it could not, and stderr says what to run later
 */
export async function runFleetService(args: readonly string[]): Promise<number> {
  return runSideProcess('stickpin-fleet', args, ({ settings, log, stop, ...rest }, { withdraw }) =>
    withdraw ? withdrawAtRemoval(settings, log, stop) : serve({ settings, log, stop, ...rest }),
  );
}

/** People and package managers run it, so it prints what is left to do. */
async function withdrawAtRemoval(settings: Settings, log: ClosableLog, signal: AbortSignal): Promise<number> {
  await endLock(settings.update, undefined, log, signal);
  const withdrawn = await withdrawFromNode(settings, log, signal);
  if (withdrawn.kind === 'gone') return 0;
  process.stderr.write(`stickpin-fleet: ${withdrawn.message}\n`);
  return 1;
}

/**
 * A change of the settings restarts the service within the process. An exit would not do: systemd
 * takes it for a failure and waits before the next start.
 */
async function serve(service: SideProcess): Promise<number> {
  const { log, stop, notifier } = service;
  stop.addEventListener('abort', () => notifier.stopping(), { once: true });
  let { settings } = service;
  while (settings.fleet.enabled) {
    await work({ ...service, settings });
    if (stop.aborted) return 0;
    const { update } = settings;
    settings = await service.validSettings();
    await endLock(update, settings, log, stop);
  }
  // systemd takes an end without READY=1 for a failure.
  notifier.ready();
  log.info({}, 'fleet.enabled is false: this node takes nothing from other nodes, and gives them nothing');
  const withdrawn = await withdrawFromNode(settings, log, stop);
  if (withdrawn.kind === 'left') log.warn({}, `${withdrawn.message}. The next start and a removal try it again`);
  return 0;
}

/** Until the settings change, or the service is to stop. */
async function work(service: SideProcess): Promise<void> {
  const { stateDir, runDir } = fleetPaths(service.settings.paths);
  const lock = { program: 'stickpin-fleet', clock: systemClock, log: service.log };
  const release = await lockFolders([stateDir, runDir], lock, service.stop);
  try {
    await workLocked(service);
  } finally {
    release();
  }
}

async function workLocked({ settings, sources, log, stop, notifier }: SideProcess): Promise<void> {
  const changed = new AbortController();
  const { signal, release } = linkSignals([stop, changed.signal]);
  const ownStatus = new OwnStatus(join(settings.paths.run_dir, 'status.json'), log);
  await ownStatus.start();
  const identity = await identityOf(settings, log, stop, () => changed.abort());
  const common = { api: apiOf(settings), clock: systemClock, random: Math.random, log };
  const name = (await nameByKeys(settings, identity?.current(), log, stop)) ?? (await nodeNameOf(settings, stop));
  const kubernetes = settings.fleet.auth === 'keys' ? undefined : new KubernetesCluster({ ...common, hostname: name });
  const cluster = kubernetes ?? listedNodes(name, identity?.current()?.keys);
  const lock = lockOf(settings.update, log, () => (fleet.isDaemonAway() ? undefined : ownStatus.report()));
  const fleet: Fleet = new Fleet({
    settings,
    cluster,
    ownStatus: () => ownStatus.status(),
    lock,
    onOwnStatus: (listener) => ownStatus.onChange(listener),
    readLabels: () => labelsToRead(ownStatus.report()),
    pauses: () => ownStatus.report()?.pauses,
    rollOuts: () => rollOutsOf(ownStatus.report()),
    onSticks: () => releasesOnSticks(ownStatus.report()),
    identity,
    notifier,
    clock: systemClock,
    log,
  });
  const publisher =
    kubernetes &&
    new Publisher({
      ...common,
      cluster: kubernetes,
      report: () => ownStatus.report(),
      isDaemonUp: () => !fleet.isDaemonAway(),
      serves: () => fleet.serves(),
      mark: publishedMarkOf(settings, log),
    });
  ownStatus.onChange(() => publisher?.changed());
  fleet.onServes(() => publisher?.changed());
  const onChanged = () => changed.abort();
  const unwatch = watchSettings({ settings, sources, log, notifier, onReload: () => undefined, onChanged });
  const ended = new AbortController();
  const published = publisher?.run(ended.signal) ?? endPublished(settings, log, ended.signal);
  try {
    await fleet.run(signal);
  } finally {
    ended.abort();
    await published;
    // The name is written again where that failed at the start.
    await nameByKeys(settings, identity?.current(), log, NEVER_ABORTED);
    unwatch();
    ownStatus.stop();
    release();
  }
}

function lockOf(settings: LockSettings, log: Log, report: () => OwnReport | undefined): FleetLock | undefined {
  if (settings.fleet_lock === '') return undefined;
  return new FleetLock({ settings, id: lockId(), report, clock: systemClock, random: Math.random, log });
}

/** A hash, or the name of the node where it has no machine id. */
function lockId(): string {
  const { machineId } = nodeFacts();
  return machineId === undefined ? nodeNameOfHost() : lockClientId(machineId, nodeNameOfHost());
}

/**
 * Gives back a lock at a server that is not used any more. Tried once: without an answer the lock
 * stays there, and the log says so.
 *
 * @param next the settings from now on; undefined for a removal
 */
async function endLock(update: LockSettings, next: Settings | undefined, log: Log, signal: AbortSignal): Promise<void> {
  const isKept =
    next?.fleet.enabled === true &&
    next.update.fleet_lock === update.fleet_lock &&
    next.update.fleet_lock_group === update.fleet_lock_group;
  if (isKept || update.fleet_lock === '') return;
  try {
    await withDeadline('The FleetLock server', WITHDRAW_MS, signal, (inner) => giveLockBack(update, lockId(), inner));
  } catch (error) {
    signal.throwIfAborted();
    const where = new URL(update.fleet_lock).host;
    log.warn(
      {},
      `The lock of this node (id ${lockId()}) may stay at the FleetLock server ${where}: ${reasonOf(error)}`,
    );
  }
}

/** While the list of keys can't be used: the name that it gave this node before. */
async function nameByKeys(
  { fleet, paths }: Settings,
  identity: Identity | undefined,
  log: Log,
  signal: AbortSignal,
): Promise<string | undefined> {
  if (fleet.auth !== 'keys') return identity?.node;
  const path = join(fleetPaths(paths).stateDir, 'name');
  if (identity === undefined) {
    const name = (await readIfPresent(path).catch(() => undefined))?.trim() ?? '';
    return NODE_NAME.test(name) ? name : undefined;
  }
  await replaceFile({ path, mode: 0o600 }, `${identity.node}\n`, signal).catch((error: unknown) => {
    if (!signal.aborted) log.warn({ err: error }, `${path} can't be written: ${reasonOf(error)}`);
  });
  return identity.node;
}

/** The kubelet's certificate has it, also while no API server runs. Default: the host's name. */
async function nodeNameOf({ fleet }: Settings, signal: AbortSignal): Promise<string> {
  const credentials = await readCredentials(fleet.kubeconfig, signal).catch(() => undefined);
  return credentials?.nodeName ?? nodeNameOfHost();
}

/** Undefined with `fleet.auth = "none"`. */
async function identityOf(
  { fleet, paths }: Settings,
  log: ClosableLog,
  signal: AbortSignal,
  onOther: () => void,
): Promise<IdentityKeeper | undefined> {
  if (fleet.auth === 'none') {
    log.warn({}, 'fleet.auth is "none": whoever reaches the port reads the bundles of this node, in clear text');
    return undefined;
  }
  const shared = { clock: systemClock, log };
  // Other keys end all connections, transfers too, and change the nodes that are known.
  const keeper =
    fleet.auth === 'keys'
      ? new IdentityKeeper({ ...shared, way: byKeys(fleet, fleetPaths(paths).stateDir, log), onOther })
      : new IdentityKeeper({ ...shared, way: byKubelet(fleet) });
  await keeper.refresh(signal);
  return keeper;
}

/**
 * The nodes that `fleet.keys_file` names: no Kubernetes API is read.
 *
 * @param keys undefined while the list can't be used: stored nodes are waited for then
 */
function listedNodes(self: string, keys: ReadonlyMap<string, string> | undefined): Cluster {
  const names = [...new Set([self, ...(keys?.values() ?? [])])].sort();
  const nodes = names.map((name) => ({ name, serves: [] }));
  return {
    self: () => self,
    address: () => undefined,
    readLabels: () => undefined,
    isRemoved: () => false,
    nodes: () => nodes,
    trouble: () => 'It is not used with fleet.auth = "keys".',
    isOld: () => false,
    onChange: () => () => undefined,
    need: () => undefined,
    meet: () => undefined,
    run: async () => undefined,
    // Two keys with the name of this node alone may be two hosts.
    isListed: keys !== undefined && (names.length > 1 || keys.size === 1),
  };
}

/** What was published before `fleet.auth` became `"keys"`. */
async function endPublished(settings: Settings, log: Log, signal: AbortSignal): Promise<void> {
  const withdrawn = await withdrawFromNode(settings, log, signal).catch(() => undefined);
  if (withdrawn?.kind === 'left') log.warn({}, withdrawn.message);
}

/** How long the API server may take to remove what stickpin published. */
const WITHDRAW_MS = 10_000;

/**
 * Whether all of stickpin is gone from the own Node. `message`: what stays there, and what to do.
 */
export type Withdrawn = { readonly kind: 'gone' } | { readonly kind: 'left'; readonly message: string };

/**
 * Takes away what stickpin wrote into the own Node, if it wrote anything. When that fails, the mark
 * stays, and the next call tries it again.
 */
async function withdrawFromNode(settings: Settings, log: Log, signal: AbortSignal): Promise<Withdrawn> {
  const mark = publishedMarkOf(settings, log);
  const marked = await mark.read().catch(() => undefined);
  if (marked === undefined && (!settings.fleet.enabled || settings.fleet.auth === 'keys')) return { kind: 'gone' };
  const name = marked ?? nodeNameOfHost();
  try {
    await withDeadline('The Kubernetes API', WITHDRAW_MS, signal, (inner) => withdraw(apiOf(settings), name, inner));
    await mark.clear();
    return { kind: 'gone' };
  } catch (error) {
    signal.throwIfAborted();
    const why = `What stickpin published of this node stays on its Node: ${sentence(reasonOf(error))}`;
    return { kind: 'left', message: `${why} To remove it later, run: ${removalCommands(name)}` };
  }
}

/** The same by hand, on any machine that reaches the API server. */
function removalCommands(name: string): string {
  const node = JSON.stringify({ apiVersion: 'v1', kind: 'Node', metadata: { name } });
  const patch = JSON.stringify({ status: { conditions: [{ $patch: 'delete', type: 'StickpinHealthy' }] } });
  const apply = `echo '${node}' | kubectl apply --server-side --field-manager=stickpin -f -`;
  // An apply would make a Node that is gone.
  return `kubectl get node ${name} && ${apply} && kubectl patch node ${name} --subresource=status -p '${patch}'`;
}

function publishedMarkOf({ paths }: Settings, log: Log): PublishedMark {
  return new PublishedMark(fleetPaths(paths).stateDir, log);
}

function apiOf({ fleet }: Settings): KubernetesApi {
  return new KubernetesApi((signal) => readCredentials(fleet.kubeconfig, signal));
}

/** A kubelet without `--hostname-override` gives its Node this name. */
function nodeNameOfHost(): string {
  return hostname().trim().toLowerCase();
}
