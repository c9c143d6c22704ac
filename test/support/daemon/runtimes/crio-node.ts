import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createFakeUnit } from '../../bus/fake-unit.ts';
import { crioSettings } from '../../crio-double/crio-settings.ts';
import {
  type CrioDouble,
  type StartOptions,
  startCrioDouble,
  wipeCrioDouble,
} from '../../crio-double/start-crio-double.ts';
import { atEnd } from '../../files/temporary-folder.ts';
import { skopeoArgv, trixieRoot } from '../../rootfs/trixie-root.ts';
import {
  createDaemonHarness,
  type DaemonHarness,
  type HarnessOptions,
  type SettingsOverrides,
} from '../daemon-harness.ts';

interface CrioNodeOptions extends Omit<HarnessOptions, 'settings' | 'units'> {
  /** `announce`: tells that the unit is active again. */
  readonly reload?: (double: CrioDouble, announce: () => void) => unknown;
}

/** The daemon and the CRI-O double beside each other, as on a node. */
export interface CrioNode {
  readonly harness: DaemonHarness;
  double(): CrioDouble;
  /** Ends CRI-O without warning. */
  killRuntime(): Promise<void>;
  /**
   * Ends it in order, unless it has ended already, and starts it again with what it has stored,
   * with other `flags` if any are given.
   */
  restartRuntime(flags?: readonly string[]): Promise<void>;
  /**
   * Ends CRI-O without warning, boots the node and has `crio-wipe` empty its storage
   * (docs/runtime-facts.md, fact 11), then starts CRI-O. The daemon goes on.
   */
  powerCutAndWipe(): Promise<void>;
  /** Ends both and removes everything. */
  dispose(): Promise<void>;
}

/**
 * Starts the double and makes a harness whose daemon is not started yet. Both end with the test;
 * what is made in `beforeAll` is disposed of by hand. `reload`: what a reload of the unit does.
 */
export async function createCrioNode(
  settings: SettingsOverrides = {},
  options: StartOptions = {},
  { reload = (double) => double.reload(), ...harnessOptions }: CrioNodeOptions = {},
): Promise<CrioNode> {
  await trixieRoot();
  const base = mkdtempSync(join(tmpdir(), 'crio-node-'));
  const cleanShutdown = `--clean-shutdown-file=${join(base, 'var/lib/crio/clean.shutdown')}`;
  let flags = [cleanShutdown, ...(options.flags ?? [])];
  const start = () => startCrioDouble({ skopeo: skopeoArgv(), ...options, base, flags });
  let double = await start();
  const { dirs } = double;
  const { runtime, crio } = crioSettings(double);
  const unit = createFakeUnit(() => reload(double, () => unit.become('active')));
  const harness = await createDaemonHarness({
    ...harnessOptions,
    settings: {
      ...settings,
      runtime,
      crio: { ...crio, ...settings.crio },
    },
    units: unit.units,
  });
  const node: CrioNode = {
    harness,
    double: () => double,
    killRuntime: () => double.kill(),
    restartRuntime: async (other) => {
      if (other !== undefined) flags = [cleanShutdown, ...other];
      await unit.restart(
        () => double.stop(),
        async () => {
          double = await start();
        },
      );
    },
    powerCutAndWipe: async () => {
      await double.kill();
      rmSync(join(dirs.run, 'version'), { force: true });
      const log = await wipeCrioDouble(base, { flags });
      if (!log.includes('Wiping')) throw new Error(`the storage was not wiped:\n${log}`);
      double = await start();
    },
    dispose: async () => {
      await harness.dispose();
      await double.stop();
      rmSync(base, { recursive: true, force: true });
    },
  };
  atEnd(node.dispose);
  return node;
}
