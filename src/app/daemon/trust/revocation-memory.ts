import { existsSync } from 'node:fs';
import type { KeyProblem } from '../../../bundle/keys/keys-folder.ts';
import { EMPTY_RECORD, type RevocationRecord } from '../../../domain/trust/revocation-record.ts';
import { reasonOf } from '../../../platform/app-error.ts';
import { NEVER_ABORTED } from '../../../platform/async/abort.ts';
import { oneAtATime } from '../../../platform/async/concurrency.ts';
import type { Log } from '../../../platform/log.ts';
import { messageIds } from '../../../platform/message-ids.ts';
import type { EventRow, Store } from '../../../ports/state.ts';

/** The stored revocations of the node. */
export class RevocationMemory {
  private current: RevocationRecord;
  private readonly damage: KeyProblem | undefined;
  /** A damaged file that may have revocations which nothing else has. */
  private readonly hiding: string | undefined;
  /** What is stored, and in the mirror. */
  private stored: RevocationRecord | undefined;
  private logged: string | undefined;
  private readonly inTurn = oneAtATime();

  constructor(
    private readonly store: Pick<Store, 'revocationRecord' | 'setRevocationRecord' | 'document' | 'mirror'>,
    private readonly log: Log,
    hiding?: string | undefined,
  ) {
    this.hiding = hiding ?? store.document('hidden-revocations');
    try {
      this.current = store.revocationRecord() ?? EMPTY_RECORD;
    } catch (error) {
      this.current = EMPTY_RECORD;
      const remedy = 'install the version of stickpin that wrote it again';
      this.damage = { file: 'state.db', message: reasonOf(error), remedy, hidesRevocations: true };
    }
  }

  /** The record in use. No I/O. */
  record(): RevocationRecord {
    return this.current;
  }

  /** Why earlier revocations are not known. Undefined when they are known. */
  trouble(): KeyProblem | undefined {
    const file = this.hiding;
    if (file === undefined || !existsSync(file)) return this.damage;
    const message = `${file}, which lists the revoked keys, is damaged, and nothing else has them`;
    const remedy = `see that a *.revoked file in keys.d names each key that was ever revoked, then remove ${file}`;
    return { file, message, remedy, hidesRevocations: true };
  }

  /**
   * Uses a record and stores it. Never throws: a failed write is logged once, and tried again with
   * the next call.
   */
  keep(record: RevocationRecord): Promise<void> {
    this.current = record;
    return this.inTurn(NEVER_ABORTED, async () => {
      if (this.stored === this.current || this.damage !== undefined) return;
      try {
        await this.write(this.current);
        this.logged = undefined;
      } catch (error) {
        const message = `Revoked keys could not be stored: ${reasonOf(error)}; they hold, and it is tried again`;
        if (message !== this.logged) this.log.warn({ err: error, messageId: messageIds.keyFileUnusable }, message);
        this.logged = message;
      }
    });
  }

  /**
   * Uses a record with fewer revocations, once it is stored.
   *
   * @throws AppError `store/…` when it can't be stored; nothing is lifted then
   */
  lift(change: (record: RevocationRecord) => RevocationRecord, event: EventRow): Promise<void> {
    return this.inTurn(NEVER_ABORTED, async () => {
      const before = this.current;
      try {
        await this.write(change(before), event);
      } catch (error) {
        await this.write(before).catch(() => undefined); // the next keep() stores it
        throw error;
      }
      // Changes that were made meanwhile stay.
      this.current = change(this.current);
    });
  }

  private async write(record: RevocationRecord, event?: EventRow): Promise<void> {
    this.stored = undefined;
    const known = this.store.revocationRecord();
    if (event !== undefined || JSON.stringify(known) !== JSON.stringify(record)) {
      this.store.setRevocationRecord(record, event);
    }
    await this.store.mirror(NEVER_ABORTED);
    this.stored = record;
  }
}
