import type { Check } from '../../src/doctor/check.ts';
import { checkCrioBoot } from '../../src/doctor/crio/check-crio-boot.ts';
import { checkCrioGuard } from '../../src/doctor/crio/check-crio-guard.ts';
import { checkCrioLink } from '../../src/doctor/crio/check-crio-link.ts';
import { checkCrioMirrors } from '../../src/doctor/crio/check-crio-mirrors.ts';
import { checkCrioPins } from '../../src/doctor/crio/check-crio-pins.ts';
import { createCrioFiles } from '../../src/runtime/crio/crio-files.ts';
import type { CrioPaths } from '../../src/runtime/crio/crio-paths.ts';

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
