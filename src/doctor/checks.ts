import { setMaxListeners } from 'node:events';
import { access } from 'node:fs/promises';
import { clockFault } from '../domain/adoption/floors.ts';
import { type Finding, findingsOn } from '../domain/model/reason.ts';
import { timeText } from '../domain/report/texts/short-texts.ts';
import { reasonOf } from '../platform/app-error.ts';
import { withDeadline } from '../platform/async/abort.ts';
import { succeeds } from '../platform/async/concurrency.ts';
import { formatBytes } from '../platform/sizes.ts';
import { type Check, type ExaminedNode, type Found, INSTALL_AGAIN } from './check.ts';
import { checkCrio } from './check-crio.ts';
import { checkFleet } from './check-fleet.ts';
import { checkFolders } from './check-folders.ts';
import { checkKeys } from './check-keys.ts';
import { checkKubelet } from './check-kubelet.ts';
import { checkRuntime } from './check-runtime.ts';
import { checkSources } from './check-sources.ts';
import { checkHooks, checkRegistrySocket, checkUnits } from './check-units.ts';

const UDEV_PLACES = ['/etc/udev/rules.d/90-stickpin.rules', '/usr/lib/udev/rules.d/90-stickpin.rules'] as const;
const BUS_PLACES = ['/etc/dbus-1/system.d/io.stickpin1.conf', '/usr/share/dbus-1/system.d/io.stickpin1.conf'] as const;

/** The checks in the order of the output of `stickpin doctor`. */
const CHECKS: readonly ((node: ExaminedNode) => readonly Check[])[] = [
  checkKeys,
  checkDatabase,
  () => checkPresence('udev rules', UDEV_PLACES, 'no stick is noticed'),
  () => checkPresence('bus policy', BUS_PLACES, 'nobody may talk to the daemon'),
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
  checkSources,
  checkCrio,
];

export function checksOf(node: ExaminedNode): readonly Check[] {
  return CHECKS.flatMap((check) => check(node));
}

/**
 * The limit of a check. Every check of a working node is faster. A hanging runtime or bus must not
 * delay the other findings.
 */
const CHECK_MS = 30_000;

/**
 * Runs all at once; findings come in the order of the checks. A check that fails or hangs is a
 * fault. Throws only on abort.
 */
export async function runChecks(
  checks: readonly Check[],
  signal: AbortSignal,
  checkMs = CHECK_MS,
): Promise<readonly Finding[]> {
  // Every check listens to it, and beyond ten Node warns of a leak on stderr.
  setMaxListeners(0, signal);
  const found = await Promise.all(
    checks.map(async ({ subject, remedy, run }): Promise<Found> => {
      try {
        return await withDeadline(`The look at ${subject}`, checkMs, signal, run);
      } catch (error) {
        signal.throwIfAborted();
        return findingsOn(subject).fault(`could not be looked at: ${reasonOf(error)}`, remedy);
      }
    }),
  );
  return findingsIn(found);
}

function findingsIn(found: Found): readonly Finding[] {
  if (!found) return [];
  return 'verdict' in found ? [found] : found.flatMap(findingsIn);
}

export function checkClock({ services, clock }: ExaminedNode): readonly Check[] {
  const remedy = "look at it with 'timedatectl', then run 'stickpin doctor' again";
  const run = async (signal: AbortSignal) =>
    wrongTime(clock) ?? (services && synchronisation(await services.isClockSynchronized(signal)));
  return [{ subject: 'clock', remedy, run }];
}

/** Judges like the gate `clock`, without releases. */
function wrongTime({ now, builtAt }: ExaminedNode['clock']): Finding | undefined {
  const { fault } = findingsOn('clock');
  const wrong = clockFault(now, builtAt, undefined);
  return (
    wrong &&
    fault(
      `the clock is wrong: it shows ${timeText(now)}, and this program was built at ${timeText(wrong.least)}. Releases with a window, a rollout or an end of life wait`,
      "set it with 'timedatectl set-time', or connect a source of time",
    )
  );
}

function synchronisation(isSynchronised: boolean | undefined): Finding {
  const { ok, warning } = findingsOn('clock');
  if (isSynchronised === true) return ok('the clock is synchronised');
  return warning(
    'the clock is not synchronised, so that a bundle from the future is not noticed',
    'set the clock; on a node without a network it may stay like this while its time is about right',
  );
}

export function checkDatabase({ database }: ExaminedNode): readonly Check[] {
  const { ok, warning, fault } = findingsOn('database');
  const remedy = 'check the disk';
  const run = async (signal: AbortSignal) => {
    const found = await database(signal);
    switch (found.kind) {
      case 'absent':
        return warning(`${found.path} is not there: nothing was recorded yet`, 'start stickpin, which makes it');
      case 'private':
        return warning(`${found.path} was not checked: only root can read it`, "run 'sudo stickpin doctor'");
      case 'damaged':
        return fault(
          `${found.path} is damaged: ${found.reason}`,
          'restart stickpin, which puts its newest good copy in its place, and check the disk',
        );
      case 'whole':
        return ok(`${found.path} is whole (${formatBytes(found.sizeBytes)})`);
    }
  };
  return [{ subject: 'database', remedy, run }];
}

/** `consequence`: what does not work without the file. */
function checkPresence(subject: string, candidates: readonly string[], consequence: string): readonly Check[] {
  const { ok, fault } = findingsOn(subject);
  const run = async () => {
    for (const path of candidates) if (await succeeds(access(path))) return ok(`${path} is there`);
    return fault(`${candidates.at(-1)} is missing, so that ${consequence}`, INSTALL_AGAIN);
  };
  return [{ subject, remedy: "run 'sudo stickpin doctor'", run }];
}

const OWN_PULLS =
  'uses our registry for what stickpin loads only: it finds the tags of activated releases on the node, and a pull by another program asks the registry of the image, which fails without a network';

/**
 * The settings for pulls of activated releases. The daemon reports under `pulls` whether they are
 * answered now.
 */
export function checkServe({ settings, findRuntime }: ExaminedNode): readonly Check[] {
  const { ok } = findingsOn('mirrors');
  const { activated, except } = settings.serve;
  const exceptions = except.length === 0 ? '' : `, but for ${except.join(', ')} (serve.except)`;
  const words = {
    'digests-and-tags': `stickpin is set to answer pulls of activated releases by digest and by tag, with or without a network${exceptions}: for a tag that a release holds, the node gets the image of the release, whatever the tag names elsewhere (serve.activated)`,
    digests: `stickpin is set to answer pulls of activated releases by digest, with or without a network${exceptions}; pulls by tag are not answered (serve.activated)`,
    off: 'stickpin is set not to answer pulls of activated releases, which fail without a network (serve.activated)',
  };
  const remedy = 'check section [serve] of the settings';
  const run = async (signal: AbortSignal) => {
    const runtime = settings.runtime.kind === 'embedded' ? undefined : await findRuntime(signal);
    runtime?.close();
    return ok(runtime?.losesPins ? `${runtime.title} ${OWN_PULLS}` : words[activated]);
  };
  return [{ subject: 'mirrors', remedy, run }];
}

/** A node without windows has no finding. */
export function checkWindows({ settings }: ExaminedNode): readonly Check[] {
  const { windows, strategy } = settings.update;
  if (windows.length === 0 || strategy === 'window') return [];
  const { warning } = findingsOn('windows');
  const what = `update.windows is set and update.strategy is "${strategy}", so that no activation waits for a window`;
  const remedy = 'set update.strategy = "window", or remove update.windows';
  return [{ subject: 'windows', remedy, run: async () => warning(what, remedy) }];
}
