import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { loadSettings, NODE_SOURCES } from '../config/load-settings.ts';
import { defaultSettings, type Settings } from '../config/schema.ts';
import { createSystemBus, type SystemBus } from '../dbus/system-bus.ts';
import { type Finding, findingsOn } from '../domain/model/finding.ts';
import type { TrustReport } from '../domain/trust/trust-in-force.ts';
import { isClockSynchronized } from '../host/machine.ts';
import { loadedUnitProperty } from '../host/systemd/loaded-unit.ts';
import { reasonOf } from '../platform/app-error.ts';
import { systemClock } from '../platform/clock.ts';
import { silentLog } from '../platform/log.ts';
import { crioPathsOf } from '../runtime/crio/crio-paths.ts';
import { detectRuntime } from '../runtime/detect.ts';
import { checkCrioFiles } from './check-crio-files.ts';
import { checkKeys } from './check-keys.ts';
import { checkRuntime } from './check-runtime.ts';
import { checkUnits } from './check-units.ts';
import { type Check, runChecks } from './run-checks.ts';

/** What lies on a node and is looked for. The first of several that exists counts. */
const PLACES = {
  rules: ['/etc/udev/rules.d/90-stickpin.rules', '/usr/lib/udev/rules.d/90-stickpin.rules'],
  busPolicy: ['/etc/dbus-1/system.d/io.stickpin1.conf', '/usr/share/dbus-1/system.d/io.stickpin1.conf'],
  crioTmpfiles: ['/etc/tmpfiles.d/stickpin-crio.conf', '/usr/lib/tmpfiles.d/stickpin-crio.conf'],
  crioGuard: '/etc/systemd/system/crio.service.d/10-stickpin.conf',
} as const;

/**
 * Looks at everything on this node that stickpin needs, apart from the daemon itself. `trust`: what the daemon says of its keys, if it answers. Changes
 * nothing. Throws only on abort.
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
    const checks = [
      checkKeys(
        {
          folder: settings.trust.keys_dir,
          threshold: settings.trust.threshold,
          stateDirectory: settings.paths.state_dir,
          ownUid: process.getuid?.() ?? 0,
        },
        trust,
      ),
      isPresent('udev rules', PLACES.rules, 'no stick is noticed'),
      isPresent('bus policy', PLACES.busPolicy, 'nobody may talk to the daemon'),
      ...(isConnected ? checksOverBus(bus, settings) : [noBus]),
      checkRuntime({ detect: runtimeOf(settings), minFreePercent: settings.preload.min_free_percent }),
      ...((await hasCrio(settings))
        ? checkCrioFiles({ paths: crioPathsOf(settings), tmpfiles: PLACES.crioTmpfiles, guard: PLACES.crioGuard })
        : []),
    ];
    return [finding, ...(await runChecks(checks, signal))];
  } finally {
    bus.close();
  }
}

/** With settings that are wrong the daemon goes on with those it has; the looks take the built-in ones. */
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

function checksOverBus(bus: SystemBus, settings: Settings): Check[] {
  const { ok, warning } = findingsOn('clock');
  return [
    ...checkUnits(
      { unitProperty: (unit, iface, name, signal) => loadedUnitProperty(bus, unit, iface, name, signal) },
      settings.registry.listen,
    ),
    {
      subject: 'clock',
      remedy: "look at it with 'timedatectl'; stickpin works without it",
      look: async (signal) => [
        (await isClockSynchronized(bus, signal)) === true
          ? ok('the clock is synchronised')
          : warning(
              'the clock is not synchronised, so that a bundle from the future is not noticed',
              'set the clock; on a node without a network it may stay like this',
            ),
      ],
    },
  ];
}

const noBus: Check = {
  subject: 'units',
  remedy: "run 'systemctl start dbus'",
  look: async () => [
    findingsOn('units').fault(
      'the system bus does not answer',
      "run 'systemctl start dbus', then 'stickpin doctor' again",
    ),
  ],
};

function isPresent(subject: string, candidates: readonly string[], consequence: string): Check {
  const { ok, fault } = findingsOn(subject);
  return {
    subject,
    remedy: "run 'sudo stickpin doctor'",
    look: async () => {
      for (const path of candidates) if (await exists(path)) return [ok(`${path} is there`)];
      return [fault(`${candidates.at(-1)} is missing, so that ${consequence}`, "run the archive's install.sh again")];
    },
  };
}

function runtimeOf({ runtime }: Settings): Parameters<typeof checkRuntime>[0]['detect'] {
  const { kind, socket } = runtime;
  if (kind === 'auto' && socket === undefined) return (signal) => detectRuntime(signal);
  return async (signal) => {
    const found = await detectRuntime(signal);
    if (socket === undefined) return found;
    return {
      kind: kind === 'containerd' ? 'containerd' : 'crio',
      title: found?.title ?? 'the runtime',
      socketPath: socket,
    };
  };
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
