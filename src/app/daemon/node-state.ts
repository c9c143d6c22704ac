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
import { takeForeignMirror } from '../../store/database/foreign-mirror.ts';
import { type OpenState, openState } from '../../store/database/open-state.ts';
import { reviveBundle } from './signed-bundles.ts';

export interface NodeState {
  readonly store: Store;
  readonly pinLedger: PinLedgerStore;
  readonly floors: FloorStore;
  readonly hooks: HookStore;
  /** Releases may be missing: the database is new after a loss, or an earlier copy. */
  readonly isLost: boolean;
  /** What was found lost or damaged. It was logged, and is in the history. */
  readonly problems: readonly Fault[];
  /** A file that may have revocations which are not taken over yet: no key is trusted. */
  readonly hidesRevocations: string | undefined;
  /** @throws AppError `store/read` (`fatal`) when the daemon must start again */
  afterRound(): void;
  close(): void;
}

/**
 * Opens the state. What is damaged is renamed, made again from its mirror and reported.
 *
 * @throws AppError `store/…` (`fatal`) when the directory or the disk does not let us work
 */
export async function openNodeState(
  { paths: { state_dir: directory, run_dir }, history }: Settings,
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
  const { store, loss, foreignMirror, refusal } = state;
  if (refusal !== undefined) return refusedState(state, refusal, log);
  // The database has it too, since a kill may come before what it means is recorded.
  if (loss?.remains === 'earlier') ifPossible(() => store.setDocument('loss', loss.remains));
  const isEarlier = Boolean(store.document('loss')) || loss?.remains === 'earlier' || loss?.remains === 'nothing';
  const damaged = damagedMirrors(state);
  const foreign = new ForeignState(state, directory, clock);
  const taken = foreign.take();
  const isFloorLost = isEarlier || !taken.isDone;
  const { stored, ledger, hooks, areFloorsUnread, problems: unread } = readDocuments(store);
  const floors = loseFloors(stored ?? NO_FLOORS, isFloorLost || areFloorsUnread);
  const problems: Fault[] = [
    ...(loss === undefined ? [] : [loss.message]),
    ...[...damaged, ...taken.problems, ...unread],
  ].map((message) => ({ code: 'store/lost', message }));
  if (floors.areLost) {
    const message = `Which sequences were activated here is lost, with state.db and state.json in ${directory}: no release is activated automatically before one of its stream was activated by 'stickpin activate'`;
    problems.push({ code: 'store/floors-lost', message });
  }
  for (const { message } of problems) {
    log.error({ messageId: messageIds.stateLost }, message);
    ifPossible(() => store.append({ at: now, kind: 'stateLost', message }));
  }
  if (isEarlier && taken.isDone) {
    ifPossible(() => {
      if (isFloorLost) store.setDocument('floors', JSON.stringify(floorsDocument(floors)));
      if (ledger !== undefined) store.setDocument('pins', JSON.stringify({ ...ledger, isDoubted: true }));
      store.setDocument('loss', '');
    });
  }
  // Until the rounds have compared all pins, what the database says of retired releases is doubted.
  return {
    store,
    pinLedger: {
      load: () => ledger && { ...ledger, ...(isEarlier && { isDoubted: true }) },
      save: (next: PinLedger, inner) => save(store, 'pins', next, inner),
    },
    floors: {
      load: () => floors,
      isWhole: () => !taken.isDone || (stored !== undefined && !isFloorLost),
      save: (next, inner) => save(store, 'floors', floorsDocument(next), inner),
    },
    hooks: {
      load: () => hooks ?? new Map(),
      save: (next, inner) => save(store, 'hooks', hooksDocument(next), inner),
    },
    isLost: isEarlier || foreignMirror !== undefined,
    hidesRevocations: taken.isDone ? undefined : join(directory, 'state.json'),
    problems,
    afterRound: () => foreign.afterRound(),
    close: state.close,
  };
}

/** Another version wrote what is stored: pins stay as unclaimed, and nothing is recorded. */
function refusedState({ store, close }: OpenState, refusal: AppError, log: Log): NodeState {
  log.error({ err: refusal, messageId: messageIds.stateLost }, refusal.message);
  const floors = loseFloors(NO_FLOORS, true);
  const refuse = async () => {
    throw refusal;
  };
  return {
    store,
    pinLedger: { load: () => undefined, save: refuse },
    floors: { load: () => floors, isWhole: () => true, save: refuse },
    hooks: { load: () => new Map(), save: refuse },
    isLost: true,
    problems: [{ code: refusal.code, message: refusal.message }],
    hidesRevocations: undefined,
    afterRound: () => undefined,
    close,
  };
}

/** What another database has recorded beside this one. */
class ForeignState {
  private isDone: boolean;

  constructor(
    private readonly state: OpenState,
    private readonly directory: string,
    private readonly clock: Clock,
  ) {
    this.isDone = state.foreignMirror === undefined;
  }

  /** On a full disk, for example, nothing can be taken over yet. @throws AppError (`fatal`) */
  take(): { readonly isDone: boolean; readonly problems: readonly string[] } {
    const { store, mirror, foreignMirror } = this.state;
    if (foreignMirror === undefined || this.isDone) return { isDone: true, problems: [] };
    try {
      const unread = takeForeignMirror(foreignMirror, store, this.clock.now());
      const [aside = ''] = mirror.release();
      this.isDone = true;
      if (unread !== undefined) store.setDocument('hidden-revocations', aside);
      return { isDone: true, problems: [foreignText(this.directory, aside)] };
    } catch (error) {
      if (!(error instanceof AppError) || error.disposition === 'fatal') throw error;
      const message = `What another state database recorded in ${this.directory} can't be taken over yet: ${error.message}. Until then no key is trusted, and no release is activated automatically; it is retried automatically`;
      return { isDone: false, problems: [message] };
    }
  }

  /**
   * @throws AppError `store/read` (`fatal`) when all was taken over late: the next start works by
   *   it
   */
  afterRound(): void {
    if (this.isDone || this.state.store.trouble() !== undefined || !this.take().isDone) return;
    const message = 'What was recorded beside the state database is taken over now: the daemon starts again with it';
    throw new AppError({ code: 'store/read', message, disposition: 'fatal' });
  }
}

function foreignText(directory: string, aside: string): string {
  return `The state database in ${directory} is not the one to which state.json beside it belongs: the higher floors, and all rejections, revocations and pins of both count. That file is kept as ${aside}. Look at 'stickpin list', and plug in the stick of each release that is missing there`;
}

async function save(store: Store, name: DocumentName, value: unknown, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  store.setDocument(name, JSON.stringify(value));
  await store.mirror(signal);
}

/** The documents of the store, and what another version wrote, so that it does not count. */
function readDocuments(store: Store) {
  const unread: DocumentName[] = [];
  const read = <T>(name: DocumentName, parse: (value: unknown) => T | undefined): T | undefined => {
    const text = store.document(name);
    const found = text === undefined ? undefined : parse(JSON.parse(text));
    if (text !== undefined && found === undefined) unread.push(name);
    return found;
  };
  const documents = {
    stored: read('floors', parseFloors),
    ledger: read('pins', parsePins),
    hooks: read('hooks', parseHooks),
  };
  const problems = unread.map(
    (name) =>
      `What the state database has of ${name} was written by another version of stickpin, and does not count: install that version again`,
  );
  return { ...documents, areFloorsUnread: unread.includes('floors'), problems };
}

function damagedMirrors({ mirror, loss }: OpenState): readonly string[] {
  const damage = mirror.damage();
  const unreadable = mirror.unreadable();
  ifPossible(() => mirror.setAside());
  const has = loss === undefined ? 'The database has all that it had' : 'What is left counts';
  return [
    ...damage.map(({ path, aside, reason }) => `${path} could not be used: ${reason}; it is kept as ${aside}. ${has}`),
    ...unreadable.map((message) => `${message}. ${has}`),
  ];
}

/** The journal has it; the daemon reports a disk that takes no writes. */
function ifPossible(work: () => void): void {
  try {
    work();
  } catch (error) {
    if (!(error instanceof Error)) throw error;
  }
}
