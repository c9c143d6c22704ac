import { join } from 'node:path';
import type { Fault } from '../../domain/model/reason.ts';
import { knownFromReport } from '../../domain/release/rebuild.ts';
import { isAsNew } from '../../domain/release/unclaimed-pins.ts';
import type { Settings } from '../../domain/settings/settings.ts';
import type { KnownRelease } from '../../domain/state/release-record.ts';
import { AppError } from '../../platform/app-error.ts';
import type { Clock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import { messageIds } from '../../platform/message-ids.ts';
import type { HookStore } from '../../ports/node.ts';
import type { FloorStore, PinLedgerStore, RevocationStore, StateStore, StreamStore } from '../../ports/state.ts';
import { openState } from '../../store/database/open-state.ts';
import { openFloors, openHookLedger, openPinLedger, readReportedReleases } from '../../store/files/node-records.ts';
import { reviveBundle } from './signed-bundles.ts';

export interface NodeState {
  readonly store: StateStore & RevocationStore & StreamStore;
  readonly pinLedger: PinLedgerStore;
  readonly floors: FloorStore;
  readonly hooks: HookStore;
  /** The database is new after a loss, or an earlier copy of the one that was lost. */
  readonly isLost: boolean;
  /** What the status document said of releases before the daemon started. */
  readonly reportedBefore: readonly KnownRelease[];
  /** What was found lost or damaged. It was logged, and is in the history. */
  readonly problems: readonly Fault[];
  close(): void;
}

/**
 * Opens the records in the state directory. Damaged ones are renamed, begun anew and reported.
 *
 * @throws AppError `store/…` (`fatal`) when the directory or the disk does not let us work
 */
export async function openNodeState(
  { paths: { state_dir: directory, run_dir }, history }: Pick<Settings, 'paths' | 'history'>,
  { clock, log }: { readonly clock: Clock; readonly log: Log },
  signal: AbortSignal,
): Promise<NodeState> {
  const now = clock.now();
  const state = openState({
    path: join(directory, 'state.db'),
    standbyDirectory: join(run_dir, 'state'),
    revive: reviveBundle,
    ...(history.keep !== 'keep' && { keptMs: history.keep }),
    log,
    now,
  });
  const pins = await openPinLedger(join(directory, 'pins.json'), now);
  const ledger = pins.ledger.load();
  const isOlder = ledger !== undefined && !isAsNew(state.store.load().age ?? ledger.state, ledger.state);
  const isStateLost = state.loss !== undefined || isOlder;
  const floors = await openFloors({ path: join(directory, 'floors.json'), record: state.store, isStateLost, now });
  const hooks = await openHookLedger(join(directory, 'hooks.json'), now);
  const problems: Fault[] = [];
  // From now on it gets ahead of the ledger by itself.
  if (isStateLost) recordIfPossible(() => state.store.renewOrigin());
  if (state.loss === undefined && isOlder) {
    const message = `The state database in ${directory} is an earlier copy, or lost what was recorded last: it knows less than pins.json beside it. All pins stay; look at 'stickpin list', and plug in the stick of each release that is missing there`;
    problems.push({ code: 'store/lost', message });
  }
  if (state.loss !== undefined) problems.push({ code: 'store/lost', message: state.loss });
  if (pins.damage !== undefined) {
    const message = `${join(directory, 'pins.json')} could not be used: ${pins.damage}. Every pin that the runtime shows stays`;
    problems.push({ code: 'store/lost', message });
  }
  if (floors.damage !== undefined) {
    const message = `${join(directory, 'floors.json')} could not be used: ${floors.damage}. The floors that the database remembers count`;
    problems.push({ code: 'store/lost', message });
  }
  if (hooks.damage !== undefined) {
    const message = `${join(directory, 'hooks.json')} could not be used: ${hooks.damage}. Hooks tell of what happens from now on`;
    problems.push({ code: 'store/lost', message });
  }
  if (isStateLost) await floors.floors.save(floors.floors.load(), signal).catch(ignoreOwn); // the rounds try again
  if (floors.floors.load().areLost) {
    const message = `Which sequences were activated here is lost, with state.db and floors.json in ${directory}: no release is activated automatically before one of its stream was activated by 'stickpin activate'`;
    problems.push({ code: 'store/floors-lost', message });
  }
  for (const { message } of problems) {
    log.error({ messageId: messageIds.stateLost }, message);
    recordIfPossible(() => state.store.append({ at: now, kind: 'stateLost', message }));
  }
  return {
    store: state.store,
    pinLedger: pins.ledger,
    floors: floors.floors,
    hooks: hooks.store,
    isLost: isStateLost,
    reportedBefore: knownFromReport(await readReportedReleases(join(directory, 'status.json'))),
    problems,
    close: state.close,
  };
}

/** The journal has it; the daemon reports a disk that takes no writes. */
function recordIfPossible(record: () => void): void {
  try {
    record();
  } catch (error) {
    ignoreOwn(error);
  }
}

function ignoreOwn(error: unknown): void {
  if (!(error instanceof AppError)) throw error;
}
