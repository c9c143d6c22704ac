import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { loadSettings, NODE_SOURCES } from '../../config/load-settings.ts';
import { createSystemBus, type SystemBus } from '../../dbus/system-bus.ts';
import type { ExaminedCrio, ExaminedKubelet, ExaminedRuntime, SystemServices } from '../../doctor/check.ts';
import { checksOf } from '../../doctor/checks.ts';
import { runChecks } from '../../doctor/run-checks.ts';
import { type Finding, findingsOn } from '../../domain/model/finding.ts';
import { defaultSettings, type Settings } from '../../domain/settings/settings.ts';
import type { TrustReport } from '../../domain/trust/trust-in-force.ts';
import { readKubelet } from '../../host/kubelet.ts';
import { isClockSynchronized } from '../../host/machine.ts';
import { loadedUnitProperty } from '../../host/systemd/loaded-unit.ts';
import { reasonOf } from '../../platform/app-error.ts';
import { systemClock } from '../../platform/clock.ts';
import { silentLog } from '../../platform/log.ts';
import { BUILT_AT } from '../../platform/version.ts';
import { configuredRuntime } from '../../runtime/configured-runtime.ts';
import { createCrioFiles } from '../../runtime/crio/crio-files.ts';
import { crioPathsOf } from '../../runtime/crio/crio-paths.ts';
import { detectRuntime } from '../../runtime/detect.ts';
import { openPinLedger } from '../../store/files/pin-ledger.ts';
import { examineDatabase } from './examined-database.ts';
import { examinedFleet } from './examined-fleet.ts';
import { createExaminedRuntime } from './examined-runtime.ts';

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
  const bus = createSystemBus({ clock: systemClock, log: silentLog, env });
  try {
    const isConnected = await bus.start(signal).then(
      () => true,
      () => false,
    );
    signal.throwIfAborted();
    const checks = checksOf({
      settings,
      ownUid: process.getuid?.() ?? 0,
      trust,
      services: isConnected ? servicesOver(bus) : undefined,
      clock: { now: systemClock.now(), builtAt: BUILT_AT },
      findRuntime: (inner) => findRuntime(settings, inner),
      kubelet: (inner) => examineKubelet(settings, inner),
      database: (inner) => examineDatabase(settings.paths.state_dir, inner),
      fleet: examinedFleet(settings),
      crio: (await hasCrio(settings)) ? examinedCrio(settings) : undefined,
    });
    return [finding, ...(await runChecks(checks, signal))];
  } finally {
    bus.close();
  }
}

/** With invalid settings the checks use the defaults. (The daemon keeps its current settings.) */
async function settingsInForce(signal: AbortSignal): Promise<{ settings: Settings; finding: Finding }> {
  const { ok, fault } = findingsOn('settings');
  try {
    return { settings: await loadSettings(NODE_SOURCES, signal), finding: ok('the settings are valid') };
  } catch (error) {
    signal.throwIfAborted();
    return {
      settings: defaultSettings,
      finding: fault(
        `${reasonOf(error)}; the built-in settings are taken for what follows`,
        "correct that file; 'stickpin config check' says whether it is right",
      ),
    };
  }
}

function servicesOver(bus: SystemBus): SystemServices {
  return {
    unitProperty: (unit, iface, name, signal) => loadedUnitProperty(bus, unit, iface, name, signal),
    isClockSynchronized: (signal) => isClockSynchronized(bus, signal),
  };
}

/** The runtime that the daemon uses. */
async function findRuntime({ runtime }: Settings, signal: AbortSignal): Promise<ExaminedRuntime | undefined> {
  const candidate = configuredRuntime(runtime, await detectRuntime(signal));
  return candidate && createExaminedRuntime(candidate);
}

async function examineKubelet({ paths }: Settings, signal: AbortSignal): Promise<ExaminedKubelet> {
  const facts = await readKubelet(signal);
  const { ledger } = await openPinLedger(join(paths.state_dir, 'pins.json'), systemClock.now());
  const references = ledger.load()?.releases.flatMap((release) => release.references) ?? [];
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
  return runtime.kind === 'cri-o' || (runtime.kind === 'auto' && (await exists(join(crio.config_dir, '..'))));
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
