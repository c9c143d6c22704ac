import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { NODE_SOURCES } from '../../config/load-settings.ts';
import { loadUsableSettings } from '../../config/usable-settings.ts';
import type {
  ExaminedCrio,
  ExaminedDatabase,
  ExaminedFleet,
  ExaminedKubelet,
  ExaminedRuntime,
  SystemServices,
} from '../../doctor/check.ts';
import { checksOf, runChecks } from '../../doctor/checks.ts';
import type { FleetView } from '../../domain/fleet/node-status.ts';
import { type Finding, findingsOn } from '../../domain/model/reason.ts';
import type { TrustReport } from '../../domain/report/status-schema.ts';
import { defaultSettings, type Settings } from '../../domain/settings/settings.ts';
import { EMPTY_RECORD } from '../../domain/trust/revocation-record.ts';
import { readIdentity } from '../../fleet/identity/identity.ts';
import { readKeysIdentity } from '../../fleet/identity/node-keys.ts';
import { fleetPaths } from '../../fleet/wire/documents.ts';
import { SystemBus } from '../../host/bus/system-bus.ts';
import { readKubelet } from '../../host/kubelet.ts';
import { isClockSynchronized, nodeFacts } from '../../host/node-facts.ts';
import { loadedUnitProperty } from '../../host/units.ts';
import { AppError, systemCodeOf } from '../../platform/app-error.ts';
import { succeeds } from '../../platform/async/concurrency.ts';
import { systemClock } from '../../platform/clock.ts';
import { silentLog } from '../../platform/log.ts';
import { BUILT_AT } from '../../platform/version.ts';
import { findMirrorPlaces } from '../../runtime/containerd/mirror-folders.ts';
import { CriClient } from '../../runtime/cri/cri-client.ts';
import { filesystemAt } from '../../runtime/cri/observe.ts';
import { callAgain } from '../../runtime/cri/runtime-error.ts';
import { crioPathsOf } from '../../runtime/crio/crio-config.ts';
import { createCrioFiles } from '../../runtime/crio/crio-files.ts';
import { configuredRuntime, detectRuntime } from '../../runtime/detected-runtime.ts';
import { KINDS, type RuntimeCandidate } from '../../runtime/runtimes.ts';
import type { KeptRecords } from '../../store/database/read-copy.ts';
import { watchFleetAt } from '../fleet/watch-fleet.ts';

/**
 * Paths at which `/usr/lib/stickpin/setup` installs the files that protect CRI-O's link to the
 * pins. Version 0.1.0 had the first in `/usr`.
 */
const CRIO_TMPFILES = ['/usr/lib/tmpfiles.d/stickpin-crio.conf', '/etc/tmpfiles.d/stickpin-crio.conf'] as const;
const CRIO_GUARD = '/etc/systemd/system/crio.service.d/10-stickpin.conf';
const ROOTS_REGISTRIES_FILE = '/root/.config/containers/registries.conf';

/**
 * Checks everything on this node that stickpin needs, apart from the daemon itself. Changes
 * nothing. Throws only on abort.
 *
 * @param env may name the system bus (`DBUS_SYSTEM_BUS_ADDRESS`)
 * @param trust what the daemon says about its keys; undefined when it does not answer
 */
export async function examineNode(
  env: NodeJS.ProcessEnv,
  trust: TrustReport | undefined,
  signal: AbortSignal,
): Promise<readonly Finding[]> {
  const { settings, finding } = await settingsInForce(signal);
  const bus = new SystemBus({ clock: systemClock, log: silentLog, env });
  try {
    const isConnected = await succeeds(bus.start(signal));
    signal.throwIfAborted();
    const checks = checksOf({
      settings,
      ownUid: process.getuid?.() ?? 0,
      trust,
      services: isConnected ? servicesOver(bus) : undefined,
      clock: { now: systemClock.now(), builtAt: BUILT_AT },
      facts: nodeFacts(),
      findRuntime: (inner) => findRuntime(settings, inner),
      kubelet: (inner) => examineKubelet(settings, inner),
      database: (inner) => examineDatabase(settings.paths.state_dir, inner),
      revocations: (inner) =>
        fromRecords(settings.paths.state_dir, inner, ({ revocations }) => revocations(), EMPTY_RECORD),
      fleet: examinedFleet(settings),
      sources: (inner) => firstView(fleetPaths(settings.paths).sourcesSocket, 'stickpin-sources.service', inner),
      crio: (await hasCrio(settings)) ? examinedCrio(settings) : undefined,
    });
    return [finding, ...(await runChecks(checks, signal))];
  } finally {
    bus.close();
  }
}

/** With wrong settings the checks use those that a daemon that starts uses. */
async function settingsInForce(signal: AbortSignal): Promise<{ settings: Settings; finding: Finding }> {
  const { ok, fault: faultFinding } = findingsOn('settings');
  const { settings, fault } = await loadUsableSettings(NODE_SOURCES, defaultSettings.paths.state_dir, signal);
  if (fault === undefined) return { settings, finding: ok('the settings are valid') };
  const what = `${fault.message}; those that were valid last, or what is right in them, are taken for what follows`;
  return {
    settings,
    finding: faultFinding(what, "correct that file; 'stickpin config check' says whether it is right"),
  };
}

function servicesOver(bus: SystemBus): SystemServices {
  return {
    unitProperty: (unit, iface, name, signal) => loadedUnitProperty(bus, unit, iface, name, signal),
    isClockSynchronized: (signal) => isClockSynchronized(bus, signal),
  };
}

async function findRuntime({ runtime }: Settings, signal: AbortSignal): Promise<ExaminedRuntime | undefined> {
  const candidate = configuredRuntime(runtime, await detectRuntime(signal));
  return candidate && createExaminedRuntime(candidate);
}

async function examineKubelet({ paths }: Settings, signal: AbortSignal): Promise<ExaminedKubelet> {
  const facts = await readKubelet(signal);
  const references = await fromRecords(paths.state_dir, signal, ({ references }) => references, []);
  return { ...facts, repositories: [...new Set(references.map((one) => one.replace(/@.*$/, '')))].sort() };
}

function examinedCrio(settings: Settings): ExaminedCrio {
  const paths = crioPathsOf(settings);
  // For what others configure it does not matter where the registry is.
  const { inspectPins, hiddenMirrors } = createCrioFiles(paths, { authority: '', token: '' });
  const installed = { tmpfiles: CRIO_TMPFILES, guard: CRIO_GUARD, rootsRegistriesFile: ROOTS_REGISTRIES_FILE };
  return { paths, ...installed, inspectPins, hiddenMirrors };
}

async function hasCrio({ crio, runtime }: Settings): Promise<boolean> {
  return runtime.kind === 'cri-o' || (runtime.kind === 'auto' && (await succeeds(access(join(crio.config_dir, '..')))));
}

/** `none` where there is no database, or where only root may read it. */
async function fromRecords<T>(
  stateDirectory: string,
  signal: AbortSignal,
  use: (records: KeptRecords) => T,
  none: T,
): Promise<T> {
  try {
    const { readKeptRecords, withDatabaseCopy } = await import('../../store/database/read-copy.ts');
    const path = join(stateDirectory, 'state.db');
    return await withDatabaseCopy(path, signal, async (copy) => use(readKeptRecords(copy)));
  } catch (error) {
    if (['ENOENT', 'EACCES', 'EPERM'].includes(systemCodeOf(error) ?? '')) return none;
    throw error;
  }
}

/**
 * Looks at a copy of the database of the state.
 *
 * @throws errors of the filesystem
 */
export async function examineDatabase(stateDirectory: string, signal: AbortSignal): Promise<ExaminedDatabase> {
  const path = join(stateDirectory, 'state.db');
  try {
    const { damageIn, withDatabaseCopy } = await import('../../store/database/read-copy.ts');
    return await withDatabaseCopy(path, signal, async (copy, sizeBytes) => {
      const reason = damageIn(copy);
      return reason === undefined ? { kind: 'whole', path, sizeBytes } : { kind: 'damaged', path, reason };
    });
  } catch (error) {
    const code = systemCodeOf(error) ?? '';
    if (code === 'ENOENT') return { kind: 'absent', path };
    if (['EACCES', 'EPERM'].includes(code)) return { kind: 'private', path };
    // What opens it says why it can't be used.
    if (error instanceof AppError) return { kind: 'damaged', path, reason: error.message };
    throw error;
  }
}

/** The fleet process of this node, and the certificate of its kubelet or its own key. */
function examinedFleet({ fleet, paths }: Settings): ExaminedFleet {
  return {
    view: (signal) => firstView(fleetPaths(paths).peersSocket, 'stickpin-fleet.service', signal),
    identity: async (signal) => {
      const byKey = async () => ({
        identity: await readKeysIdentity(fleet, fleetPaths(paths).stateDir),
        validUntil: Number.POSITIVE_INFINITY,
      });
      const { identity, validUntil } = await (fleet.auth === 'keys' ? byKey() : readIdentity(fleet, signal));
      return { node: identity.node, validUntil, now: systemClock.now() };
    },
  };
}

async function firstView(path: string, unit: string, signal: AbortSignal): Promise<FleetView> {
  for await (const view of watchFleetAt(path, signal, unit)) return view;
  throw new AppError({ code: 'fleet/unreachable', message: 'it sent nothing', disposition: 'retry' });
}

/**
 * A runtime over its socket, as the checks see it. Nothing is connected before the first call.
 */
export function createExaminedRuntime({
  kind,
  title,
  socketPath,
  certsDirectory,
}: Pick<RuntimeCandidate, 'kind' | 'title' | 'socketPath' | 'certsDirectory'>): ExaminedRuntime {
  const client = KINDS[kind].probe(socketPath);
  return {
    title,
    socketPath,
    losesPins: KINDS[kind].losesPins,
    status: (signal) => callAgain((inner) => client.status(inner), systemClock, signal),
    version: (signal) => callAgain((inner) => client.version(inner), systemClock, signal),
    mirrors: async (signal) => {
      if (kind !== 'containerd') return { kind: 'read' };
      const cri = new CriClient({ socketPath });
      const places = await findMirrorPlaces(cri, { certsDirectory, configFile: undefined }, signal).finally(() =>
        cri.close(),
      );
      return places.length === 0 ? { kind: 'unset' } : { kind: 'read', folders: places.map(([folder]) => folder) };
    },
    imageFilesystem: async (signal) => {
      const path = await callAgain((inner) => client.imageFilesystemPath(inner), systemClock, signal);
      return path === undefined ? undefined : filesystemAt(path);
    },
    close: () => client.close(),
  };
}
