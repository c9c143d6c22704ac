import { afterAll, beforeAll, beforeEach, describe } from 'vitest';
import { have, program } from '../../support/requirements.ts';
import { type Machine, type MachineOptions, startMachine } from './machine.ts';

/**
 * A group of tests that share one machine, booted before the first and ended after the last. Tests run in order, and what one
 * leaves behind the next one finds. When a test fails, the console and the journal of the present boot are printed.
 *
 * @param body is handed a function that returns the machine; call it inside tests and hooks.
 */
export function describeMachine(name: string, options: MachineOptions, body: (machine: () => Machine) => void): void {
  describe.runIf(have('root', 'qemu', 'mmdebstrap', x86, ...imageTools))(name, () => {
    let machine: Machine | undefined;
    const current = (): Machine => {
      if (machine === undefined) throw new Error('the machine runs only inside tests and hooks');
      return machine;
    };
    beforeAll(async () => {
      machine = await startMachine(options);
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

/** The machine is one, and emulating it on another kind would take minutes to boot. */
const x86 = { name: 'an x86-64 machine', isMet: () => process.arch === 'x64', remedy: 'run on one' };

const imageTools = [
  program('qemu-img', 'apt-get install qemu-utils'),
  program('sfdisk', 'apt-get install fdisk'),
  program('mkfs.ext4', 'apt-get install e2fsprogs'),
  program('mkfs.vfat', 'apt-get install dosfstools'),
  program('mkfs.exfat', 'apt-get install exfatprogs'),
  program('mkudffs', 'apt-get install udftools'),
  program('mcopy', 'apt-get install mtools'),
  program('xorriso', 'apt-get install xorriso'),
  program('mksquashfs', 'apt-get install squashfs-tools'),
  program('xz', 'apt-get install xz-utils'),
];

async function printLogs(machine: Machine): Promise<void> {
  const journal = await machine
    .run('journalctl --boot --no-pager --lines=300 --output=short-precise _TRANSPORT=journal + _TRANSPORT=stdout')
    .then(({ stdout }) => stdout)
    .catch((error: unknown) => `not to be had: ${String(error)}`);
  const console = (await machine.consoleLog()).slice(-8000);
  process.stderr.write(`\n--- console of the machine ---\n${console}\n--- its journal ---\n${journal}\n--- end ---\n`);
}
