import { afterAll, beforeAll, beforeEach, describe, inject } from 'vitest';
import { have, type Needed } from '../../support/requirements.ts';
import type { Suite } from '../../support/rootfs/debian-root.ts';
import { type Machine, restoreMachine, startMachine } from './machine.ts';
import { machineNeeds } from './needs.ts';
import type { SavedMachines } from './product/saved-machines.ts';

/**
 * Where a machine comes from: a saved one goes on, which takes seconds; see {@link SavedMachines}.
 * `boot` boots one of another release of Debian, without the `.deb`.
 */
export type MachineOrigin = keyof SavedMachines | { readonly boot: Suite };

/**
 * A group of tests that share one machine, which is there before the first test and is ended after
 * the last. Tests run in order, and each finds what the ones before left. When a
 * test fails, the console and the journal of the present boot are printed.
 *
 * @param body is handed a function that returns the machine; call it inside tests and hooks.
 * @param needs what the host must have beside what every machine needs
 */
export function describeMachine(
  name: string,
  from: MachineOrigin,
  body: (machine: () => Machine) => void,
  needs: readonly Needed[] = [],
): void {
  describe.runIf(have(...machineNeeds, ...needs))(name, () => {
    let machine: Machine | undefined;
    const current = (): Machine => {
      if (machine === undefined) throw new Error('the machine runs only inside tests and hooks');
      return machine;
    };
    beforeAll(async () => {
      machine = await (typeof from === 'string'
        ? restoreMachine(inject('savedMachines')[from])
        : startMachine(from.boot, inject('savedMachines').booted.image.tscKhz));
    });
    beforeEach(({ onTestFailed }) => {
      onTestFailed(() => printLogs(current()));
    });
    afterAll(async () => {
      await machine?.stop();
    });
    body(current);
  });
}

async function printLogs(machine: Machine): Promise<void> {
  const journal = await machine
    .run('journalctl --boot --no-pager --lines=300 --output=short-precise _TRANSPORT=journal + _TRANSPORT=stdout')
    .then(({ stdout }) => stdout)
    .catch((error: unknown) => `not to be had: ${String(error)}`);
  const console = (await machine.consoleLog()).slice(-8000);
  process.stderr.write(`\n--- console of the machine ---\n${console}\n--- its journal ---\n${journal}\n--- end ---\n`);
}
