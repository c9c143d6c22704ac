import type { Check } from '../../src/doctor/check.ts';
import {
  checkCrioBoot,
  checkCrioGuard,
  checkCrioLink,
  checkCrioMirrors,
  checkCrioPins,
} from '../../src/doctor/check-crio.ts';
import type { CrioPaths } from '../../src/runtime/crio/crio-config.ts';
import { createCrioFiles } from '../../src/runtime/crio/crio-files.ts';

/** The checks of CRI-O's files over the real adapter, on files at these paths. */
export function crioChecksOn(node: {
  readonly paths: CrioPaths;
  readonly tmpfiles: readonly string[];
  readonly guard: string;
  /** Default: a path where nothing is. */
  readonly rootsRegistriesFile?: string;
}): readonly Check[] {
  const { inspectPins, hiddenMirrors } = createCrioFiles(node.paths, { authority: '', token: '' });
  const crio = { rootsRegistriesFile: `${node.guard}.none`, ...node, inspectPins, hiddenMirrors };
  return [checkCrioLink, checkCrioBoot, checkCrioGuard, checkCrioPins, checkCrioMirrors].flatMap((check) =>
    check({ crio }),
  );
}
