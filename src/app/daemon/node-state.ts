import { join } from 'node:path';
import { loseFloors, NO_FLOORS } from '../../domain/adoption/floors.ts';
import type { Fault } from '../../domain/model/reason.ts';
import type { Settings } from '../../domain/settings/settings.ts';
import type { PinLedger } from '../../domain/state/release-record.ts';
import { AppError } from '../../platform/app-error.ts';
import type { Clock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import { messageIds } from '../../platform/message-ids.ts';
import type { HookStore } from '../../ports/node.ts';
import type { DocumentName, FloorStore, PinLedgerStore, Store } from '../../ports/state.ts';
import { floorsDocument, hooksDocument, parseFloors, parseHooks, parsePins } from '../../store/database/documents.ts';
import { type EarlierFiles, takeEarlierFiles, takeForeignMirror } from '../../store/database/earlier-files.ts';
import type { Mirror } from '../../store/database/mirror.ts';
import { type OpenState, openState } from '../../store/database/open-state.ts';
import { reviveBundle } from './signed-bundles.ts';

export interface NodeState {
  readonly store: Store;
  readonly pinLedger: PinLedgerStore;
  readonly floors: FloorStore;
  readonly hooks: HookStore;
  /** The database is new after a loss, or was made again from what was left. */
  readonly isLost: boolean;
  /** What was found lost or damaged. It was logged, and is in the history. */
  readonly problems: readonly Fault[];
  /** After a round, files of an earlier version are needed no more. */
  afterRound(): void;
  close(): void;
}

/**
 * Opens the state. What is damaged is renamed, made again from its mirror and reported.
 *
 * @throws AppError `store/…` (`fatal`) when the directory or the disk does not let us work
 */
export async function openNodeState(
  { paths: { state_dir: directory, run_dir }, history }: Pick<Settings, 'paths' | 'history'>,
  { clock, log }: { readonly clock: Clock; readonly log: Log },
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
  const { store, mirror, loss, foreignMirror } = state;
  let isMigrated = false;
  const isLost = loss !== undefined || foreignMirror !== undefined;
  const found = [...damagedMirrors(state), ...foreignMirrors(state, directory)];
  const earlier = await takeEarlier(directory, store, { now, isLost });
  const isEarlier = loss !== undefined && loss.left !== 'mirror';
  const isFloorLost = isEarlier && !earlier.hasFloors;
  const stored = parsed(store, 'floors', parseFloors);
  const floors = loseFloors(stored ?? NO_FLOORS, isFloorLost);
  const ledger = parsed(store, 'pins', parsePins);
  const problems: Fault[] = [...(loss === undefined ? [] : [loss.message]), ...found, ...earlier.problems].map(
    (message) => ({ code: 'store/lost', message }),
  );
  if (floors.areLost) {
    const message = `Which sequences were activated here is lost, with state.db and state.json in ${directory}: no release is activated automatically before one of its stream was activated by 'stickpin activate'`;
    problems.push({ code: 'store/floors-lost', message });
  }
  for (const { message } of problems) {
    log.error({ messageId: messageIds.stateLost }, message);
    ifPossible(() => store.append({ at: now, kind: 'stateLost', message }));
  }
  if (isFloorLost) ifPossible(() => store.setDocument('floors', JSON.stringify(floorsDocument(floors))));
  // Until the rounds have compared all pins, what the database says of retired releases is doubted.
  return {
    store,
    pinLedger: {
      load: () => ledger && { ...ledger, ...(isEarlier && { isDoubted: true }) },
      save: (next: PinLedger, inner) => save(store, 'pins', next, inner),
    },
    floors: {
      load: () => floors,
      isWhole: () => stored !== undefined && !isFloorLost,
      save: (next, inner) => save(store, 'floors', floorsDocument(next), inner),
    },
    hooks: {
      load: () => parsed(store, 'hooks', parseHooks) ?? new Map(),
      save: (next, inner) => save(store, 'hooks', hooksDocument(next), inner),
    },
    isLost,
    problems,
    afterRound: () => {
      if (isMigrated || !isMirrored(mirror)) return;
      isMigrated = true;
      void earlier.migrated();
    },
    close: state.close,
  };
}

/** Reads it back. */
function isMirrored(mirror: Mirror): boolean {
  try {
    return mirror.newest() !== undefined;
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    return false;
  } finally {
    mirror.forget();
  }
}

async function save(store: Store, name: DocumentName, value: unknown, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  store.setDocument(name, JSON.stringify(value));
  await store.mirror(signal);
}

function parsed<T>(store: Store, name: DocumentName, parse: (value: unknown) => T | undefined): T | undefined {
  const text = store.document(name);
  return text === undefined ? undefined : parse(JSON.parse(text));
}

/** If nothing else is left, they may have had revocations. */
function damagedMirrors({ store, mirror, loss }: OpenState): readonly string[] {
  const damage = mirror.damage();
  const [first] = damage;
  if (first === undefined) return [];
  ifPossible(() => mirror.setAside());
  if (loss?.left === 'nothing') ifPossible(() => store.setDocument('hidden-revocations', first.aside));
  const has = loss === undefined ? 'The database has all that it had' : 'What is left counts';
  return damage.map(
    ({ path, aside, reason }) => `${path} could not be used: ${reason}; it is kept as ${aside}. ${has}`,
  );
}

/** A person may have put another database into the place of this node's own. */
function foreignMirrors({ store, foreignMirror }: OpenState, directory: string): readonly string[] {
  if (foreignMirror === undefined) return [];
  ifPossible(() => takeForeignMirror(foreignMirror, store));
  return [
    `The state database in ${directory} is not the one to which state.json beside it belongs: the higher floors, all revocations and all pins of both count. Look at 'stickpin list', and plug in the stick of each release that is missing there`,
  ];
}

async function takeEarlier(
  directory: string,
  store: Store,
  context: { readonly now: number; readonly isLost: boolean },
): Promise<EarlierFiles> {
  try {
    return await takeEarlierFiles(directory, store, context);
  } catch (error) {
    // A full disk, for example: they are read at the next start.
    if (!(error instanceof AppError) || error.disposition !== 'retry') throw error;
    return { problems: [], hasFloors: false, migrated: async () => undefined };
  }
}

/** The journal has it; the daemon reports a disk that takes no writes. */
function ifPossible(work: () => void): void {
  try {
    work();
  } catch (error) {
    if (!(error instanceof Error)) throw error;
  }
}
