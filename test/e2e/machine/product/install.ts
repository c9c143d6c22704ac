import { inject } from 'vitest';
import type { Machine } from '../machine.ts';
import { type InstallOptions, installArchive } from './install-archive.ts';

/** {@link installArchive} with the archive of this working tree. */
export function installStickpin(machine: Machine, options: InstallOptions = {}): Promise<string> {
  return installArchive(machine, inject('stickpinArchive'), options);
}
