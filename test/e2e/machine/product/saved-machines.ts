import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { makePackage } from '../../../support/packages/make-packages.ts';
import { have } from '../../../support/requirements.ts';
import { type Machine, makeRunDirectory, restoreMachine, type SavedMachine, startMachine } from '../machine.ts';
import { machineNeeds } from '../needs.ts';
import { copyPackage, installCopied } from './install-package.ts';

/**
 * The machines that test files go on from. `booted`: systemd has started everything, and the `.deb`
 * lies in the guest. `installed`: it has been installed as well, and stickpin has never been
 * started.
 */
export type SavedMachines = Readonly<Record<'booted' | 'installed', SavedMachine>>;

declare module 'vitest' {
  interface ProvidedContext {
    savedMachines: SavedMachines;
    /** The path of the `.deb` of this working tree. */
    deb: string;
  }
}

/**
 * Boots a machine once for all test files of a run and installs the `.deb` of this working tree
 * there.
 */
export async function setup({ provide }: TestProject): Promise<() => Promise<void>> {
  if (!have(...machineNeeds)) return async () => undefined;
  const directory = await makeRunDirectory();
  const tidyUp = () => rm(directory, { recursive: true, force: true });
  try {
    const deb = await makePackage('deb', directory);
    provide('deb', deb);
    provide('savedMachines', await saveMachines(directory, deb));
  } catch (error) {
    await tidyUp();
    throw error;
  }
  return tidyUp;
}

async function saveMachines(directory: string, deb: string): Promise<SavedMachines> {
  const booted = await savedIn(join(directory, 'booted'), await startMachine('trixie'), (machine) =>
    copyPackage(machine, deb),
  );
  const installed = await savedIn(join(directory, 'installed'), await restoreMachine(booted), (machine) =>
    installCopied(machine, { start: false }),
  );
  return { booted, installed };
}

async function savedIn(
  directory: string,
  machine: Machine,
  prepare: (machine: Machine) => Promise<unknown>,
): Promise<SavedMachine> {
  try {
    await prepare(machine);
    await mkdir(directory);
    return await machine.save(directory);
  } catch (error) {
    await machine.stop();
    throw error;
  }
}
