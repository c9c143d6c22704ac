import { join } from 'node:path';
import { parseContents, parsePayload } from '../bundle/schema.ts';
import type { Settings } from '../config/schema.ts';
import type { Reason } from '../domain/medium.ts';
import type { PinLedgerStore, RevocationStore, StateStore } from '../engine/ports.ts';
import { AppError } from '../platform/app-error.ts';
import type { Clock } from '../platform/clock.ts';
import type { Log } from '../platform/log.ts';
import { messageIds } from '../platform/message-ids.ts';
import { openState } from '../store/open-state.ts';
import { openPinLedger } from '../store/pin-ledger.ts';

/** All that a node records. */
export interface NodeState {
  readonly store: StateStore & RevocationStore;
  readonly pinLedger: PinLedgerStore;
  /** What was found lost or damaged. It was logged, and is in the history. */
  readonly problems: readonly Reason[];
  close(): void;
}

/**
 * Opens what is recorded in the state directory. What is damaged is renamed and begun anew, and told.
 *
 * @throws AppError `store/…` (`fatal`) when the directory or the disk does not let us work
 */
export async function openNodeState(
  { state_dir: directory, run_dir }: Settings['paths'],
  { clock, log }: { readonly clock: Clock; readonly log: Log },
): Promise<NodeState> {
  const now = clock.now();
  const state = openState({
    path: join(directory, 'state.db'),
    standbyDirectory: join(run_dir, 'state'),
    revive: ({ payload, contents }) => ({
      payload: parsePayload(Buffer.from(payload)),
      contents: parseContents(Buffer.from(contents), Number.POSITIVE_INFINITY),
    }),
    log,
    now,
  });
  const pins = await openPinLedger(join(directory, 'pins.json'), now);
  const problems: Reason[] = [];
  if (state.loss !== undefined) problems.push({ code: 'store/lost', message: state.loss });
  if (pins.damage !== undefined) {
    const message = `${join(directory, 'pins.json')} could not be used: ${pins.damage}. Every pin that the runtime shows stays`;
    problems.push({ code: 'store/lost', message });
  }
  for (const { message } of problems) {
    log.error({ messageId: messageIds.stateLost }, message);
    recordIfPossible(() => state.store.append({ at: now, kind: 'stateLost', message }));
  }
  return { store: state.store, pinLedger: pins.ledger, problems, close: state.close };
}

/** The journal has it; a disk that takes no writes is told by the daemon. */
function recordIfPossible(record: () => void): void {
  try {
    record();
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
  }
}
