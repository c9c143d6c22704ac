import { rename } from 'node:fs/promises';
import type { KeyProblem } from '../../../bundle/keys/keys-folder.ts';
import { formatRevocationRecord, readRevocationRecord } from '../../../bundle/keys/revocation-record.ts';
import { EMPTY_RECORD, mergeRecords, type RevocationRecord } from '../../../domain/trust/revocation-record.ts';
import { reasonOf } from '../../../platform/app-error.ts';
import { NEVER_ABORTED } from '../../../platform/async/abort.ts';
import { oneAtATime } from '../../../platform/async/concurrency.ts';
import type { Clock } from '../../../platform/clock.ts';
import type { Log } from '../../../platform/log.ts';
import { messageIds } from '../../../platform/message-ids.ts';
import type { EventRow, RevocationStore } from '../../../ports/state.ts';
import { writeDurably } from '../../../runtime/config/config-file.ts';

/**
 * The stored revocations of the node, in the state database and in a file that survives its loss.
 */
export interface RevocationMemory {
  /** The record in use. No I/O. */
  record(): RevocationRecord;
  /** Why earlier revocations are not known. Undefined when they are known. */
  trouble(): KeyProblem | undefined;
  /**
   * Uses a record and writes it to both copies, unless they have it. Never throws: a failed write
   * is logged once, and tried again with the next call.
   */
  keep(record: RevocationRecord): Promise<void>;
  /**
   * Uses a record with fewer revocations. INVARIANT: it is used only after both copies have it,
   * because after a crash the stricter copy counts.
   *
   * @throws AppError `runtime/write`, `runtime/no-space`, `store/write` when one of them can't be
   *   written; nothing is lifted then
   */
  lift(change: (record: RevocationRecord) => RevocationRecord, event: EventRow): Promise<void>;
}

export interface RevocationMemoryDependencies {
  readonly path: string;
  readonly store: RevocationStore;
  /**
   * The database is new, or an earlier copy of the one that was lost: it may lack revocations.
   * Default false.
   */
  readonly isStateLost?: boolean;
  readonly clock: Pick<Clock, 'now'>;
  readonly log: Log;
}

/**
 * Reads both copies. A revocation in either copy counts. A damaged copy is kept under another name
 * and replaced from the other, unless that one is older.
 */
export async function openRevocationMemory(deps: RevocationMemoryDependencies): Promise<RevocationMemory> {
  const { path, store, log } = deps;
  const opened = await openCopies(deps);
  let current = opened.record;
  let { trouble } = opened;
  let logged: string | undefined;
  /** The content of each copy as text. Undefined when not known. */
  let [inFile, inStore]: [string | undefined, string | undefined] = [undefined, undefined];
  const inTurn = oneAtATime();
  const write = async (record: RevocationRecord, event?: EventRow) => {
    const text = formatRevocationRecord(record);
    if (inFile !== text) await writeDurably({ path }, text);
    inFile = text;
    if (inStore !== text || event !== undefined) store.setRevocationRecord(record, event);
    inStore = text;
  };
  return {
    record: () => current,
    trouble: () => trouble,
    keep: (record) => {
      current = record;
      return inTurn(NEVER_ABORTED, async () => {
        // A file that can't be read may have more revocations, so it is not overwritten; a person
        // must check it.
        if (trouble !== undefined) {
          const again = await openCopies(deps);
          trouble = again.trouble;
          if (trouble !== undefined) return;
          current = mergeRecords(current, again.record);
        }
        try {
          await write(current);
          logged = undefined;
        } catch (error) {
          const message = `Revoked keys could not be stored: ${reasonOf(error)}; they hold, and it is tried again`;
          if (message !== logged) log.warn({ err: error, messageId: messageIds.keyFileUnusable }, message);
          logged = message;
        }
      });
    },
    lift: (change, event) =>
      inTurn(NEVER_ABORTED, async () => {
        const next = change(current);
        try {
          await write(next, event);
        } catch (error) {
          // One copy may have it and the other not; the next keep() makes them equal again.
          [inFile, inStore] = [undefined, undefined];
          throw error;
        }
        // Changes that were made meanwhile stay.
        current = change(current);
      }),
  };
}

interface Opened {
  readonly record: RevocationRecord;
  readonly trouble: KeyProblem | undefined;
}

async function openCopies({
  path,
  store,
  isStateLost = false,
  clock,
  log,
}: RevocationMemoryDependencies): Promise<Opened> {
  const stored = fromStore(store, log);
  try {
    const file = await readRevocationRecord(path);
    return { record: mergeRecords(stored ?? EMPTY_RECORD, file ?? EMPTY_RECORD), trouble: undefined };
  } catch (error) {
    if (stored === undefined || isStateLost) {
      const remedy = `see that a *.revoked file in keys.d names each key that was ever revoked, then remove ${path}`;
      return {
        record: stored ?? EMPTY_RECORD,
        trouble: { file: path, message: reasonOf(error), remedy, hidesRevocations: true },
      };
    }
    const kept = `${path}.damaged-${new Date(clock.now()).toISOString()}`;
    const isMoved = await rename(path, kept).then(
      () => true,
      () => false,
    );
    const then = `the state database has them too${isMoved ? `, and the file is now ${kept}` : ''}`;
    log.warn({ err: error, messageId: messageIds.keyFileUnusable }, `${reasonOf(error)}; ${then}`);
    return { record: stored, trouble: undefined };
  }
}

function fromStore(store: RevocationMemoryDependencies['store'], log: Log): RevocationRecord | undefined {
  try {
    return store.revocationRecord();
  } catch (error) {
    log.warn({ err: error, messageId: messageIds.keyFileUnusable }, reasonOf(error));
    return undefined;
  }
}
