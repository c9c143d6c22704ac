import { setMaxListeners } from 'node:events';
import { type Finding, findingsOn } from '../domain/model/reason.ts';
import { reasonOf } from '../platform/app-error.ts';
import { withDeadline } from '../platform/async/abort.ts';
import type { Check, ExaminedNode } from './check.ts';
import { checkClock } from './check-clock.ts';
import { checkCrioBoot, checkCrioGuard, checkCrioLink, checkCrioMirrors, checkCrioPins } from './check-crio.ts';
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

/**
 * No look at a node that works takes this long, however slow and busy it is; a runtime or a bus
 * that hangs must not keep the others from being told.
 */
const LOOK_MS = 30_000;

/**
 * Does all checks at once and returns what they found in their order. One that fails or hangs is a
 * fault of its own. Throws only on abort.
 */
export async function runChecks(
  checks: readonly Check[],
  signal: AbortSignal,
  lookMs = LOOK_MS,
): Promise<readonly Finding[]> {
  // Every look listens to it, and beyond ten Node warns of a leak on stderr.
  setMaxListeners(0, signal);
  const found = await Promise.all(
    checks.map(async ({ subject, remedy, look }): Promise<readonly Finding[]> => {
      try {
        return await withDeadline(`The look at ${subject}`, lookMs, signal, look);
      } catch (error) {
        signal.throwIfAborted();
        return [findingsOn(subject).fault(`could not be looked at: ${reasonOf(error)}`, remedy)];
      }
    }),
  );
  return found.flat();
}
