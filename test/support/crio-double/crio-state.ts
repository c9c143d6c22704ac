import { type CrioConfiguration, isThere, loadConfiguration } from './configuration.ts';
import { compilePins, type PinMatcher } from './images/pin-patterns.ts';
import type { RegistriesSnapshot, SnapshotTaker } from './images/registries-snapshot.ts';
import type { Log } from './log.ts';
import type { DoubleOptions } from './options.ts';

/**
 * What the double goes by at the moment.
 *
 * INVARIANT: a reload replaces `configuration` first, then `registries`, then `isPinned`, and stops
 * at the first that fails. So a bad registries configuration leaves new pins in `configuration` and
 * old ones in `isPinned` (docs/runtime-facts.md, fact 5).
 */
export interface CrioState {
  readonly configuration: CrioConfiguration;
  readonly registries: RegistriesSnapshot;
  readonly isPinned: PinMatcher;
  /**
   * Asks for a reload, as SIGHUP does: it takes effect later. Requests during a reload lead to one
   * more.
   */
  requestReload(): void;
}

/**
 * Loads everything for the first time.
 *
 * @throws Error when CRI-O would not start: unreadable or undecodable files, bad registries.
 */
export async function startCrioState(deps: {
  options: DoubleOptions;
  snapshots: SnapshotTaker;
  log: Log;
  /** Ends the process: CRI-O panics on a pattern it can't compile. */
  panic: (error: Error) => void;
}): Promise<CrioState> {
  const { options, snapshots, log, panic } = deps;
  // CRI-O remembers the directory only if it was there at the start; one made later is not read by
  // a reload.
  const directory = isThere(options.configDirectory) ? options.configDirectory : undefined;
  const loaded = loadConfiguration(options, directory);
  const withPause = [...loaded.pinnedImages, ...(loaded.pauseImage === '' ? [] : [loaded.pauseImage])];
  const configuration: CrioConfiguration = { ...loaded, pinnedImages: withPause };
  const state = {
    configuration,
    registries: await snapshots.take().catch((error: Error) => {
      throw new Error(`invalid registries: ${error.message}`);
    }),
    isPinned: compilePins(withPause),
  };
  const reload = async () => {
    log.info('Reloading configuration');
    const fresh = loadConfiguration(options, directory);
    state.configuration = reloaded(state.configuration, fresh);
    state.registries = await snapshots.take().catch((error: Error) => {
      throw new Error(`system registries reload failed: ${options.registriesFile}: ${error.message}`);
    });
    try {
      state.isPinned = compilePins([...state.configuration.pinnedImages, state.configuration.pauseImage]);
    } catch (error) {
      panic(error as Error);
    }
    log.info('Configuration reload completed');
  };
  const requestReload = createReloader(options.reloadDelayMs, () =>
    reload().catch((error: Error) => log.error(`Unable to reload configuration: ${error.message}`)),
  );
  return Object.assign(state, { requestReload });
}

/** Of the values that can change without a restart; the others stay as they were at the start. */
function reloaded(before: CrioConfiguration, fresh: CrioConfiguration): CrioConfiguration {
  const { logLevel, pauseImage } = fresh;
  const sorted = (pins: readonly string[]) => JSON.stringify([...pins].sort());
  const same = sorted(before.pinnedImages) === sorted(fresh.pinnedImages);
  const pinnedImages = same ? before.pinnedImages : fresh.pinnedImages.filter((pin) => pin !== '');
  return { ...before, logLevel, pauseImage, pinnedImages };
}

/** One reload at a time; a request during one is remembered, more are the same one. */
function createReloader(delayMs: number, reload: () => Promise<void>): () => void {
  let isRunning = false;
  let isPending = false;
  const start = () => {
    isRunning = true;
    setTimeout(async () => {
      await reload();
      isRunning = false;
      if (!isPending) return;
      isPending = false;
      start();
    }, delayMs);
  };
  return () => {
    if (isRunning) isPending = true;
    else start();
  };
}
