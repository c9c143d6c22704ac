import type { Check, ExaminedNode } from './check.ts';
import { checkClock } from './check-clock.ts';
import { checkDatabase } from './check-database.ts';
import { checkFleet } from './check-fleet.ts';
import { checkFolders } from './check-folders.ts';
import { checkHooks } from './check-hooks.ts';
import { checkBusPolicy, checkUdevRules } from './check-installed-files.ts';
import { checkKeys } from './check-keys.ts';
import { checkKubelet } from './check-kubelet.ts';
import { checkRegistrySocket } from './check-registry-socket.ts';
import { checkRuntime } from './check-runtime.ts';
import { checkServe } from './check-serve.ts';
import { checkUnits } from './check-units.ts';
import { checkWindows } from './check-windows.ts';
import { checkCrioBoot } from './crio/check-crio-boot.ts';
import { checkCrioGuard } from './crio/check-crio-guard.ts';
import { checkCrioLink } from './crio/check-crio-link.ts';
import { checkCrioMirrors } from './crio/check-crio-mirrors.ts';
import { checkCrioPins } from './crio/check-crio-pins.ts';

/**
 * All checks, in the order of the output of `stickpin doctor`. A new check needs its file and a
 * line here.
 */
const CHECKS: readonly ((node: ExaminedNode) => readonly Check[])[] = [
  checkKeys,
  checkDatabase,
  checkUdevRules,
  checkBusPolicy,
  checkUnits,
  checkHooks,
  checkRegistrySocket,
  checkClock,
  checkWindows,
  checkRuntime,
  checkKubelet,
  checkFolders,
  checkServe,
  checkFleet,
  checkCrioLink,
  checkCrioBoot,
  checkCrioGuard,
  checkCrioPins,
  checkCrioMirrors,
];

/** The checks that apply to a node. */
export function checksOf(node: ExaminedNode): readonly Check[] {
  return CHECKS.flatMap((check) => check(node));
}
