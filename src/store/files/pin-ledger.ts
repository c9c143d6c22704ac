import * as v from 'valibot';
import { type BundleId, isDigest } from '../../domain/model/digest.ts';
import type { PinLedger } from '../../domain/state/pin-ledger.ts';
import { NEVER_ABORTED } from '../../platform/async/abort.ts';
import type { PinLedgerStore } from '../../ports/state.ts';
import { createDamagedFile, readSealed, writeSealed } from './sealed-file.ts';

const digest = v.custom<BundleId>((value) => typeof value === 'string' && isDigest(value));
const references = v.array(v.string());
const schema = v.object({
  releases: v.array(v.object({ bundleId: digest, name: v.string(), version: v.string(), references })),
  unclaimed: references,
  givenUp: references,
  state: v.object({ origin: v.string(), revision: v.number() }),
  stamp: v.number(),
});

/**
 * An opened ledger. `damage`: why an existing ledger could not be used, with the path of its copy.
 */
export interface OpenedPinLedger {
  readonly ledger: PinLedgerStore;
  readonly damage: string | undefined;
}

/**
 * Opens the pin ledger at `path` (`/var/lib/stickpin/pins.json`). A damaged one counts as missing,
 * so that every pin of the runtime is kept. It is renamed before a new one is written.
 *
 * @throws AppError `store/read` (`fatal`)
 */
export async function openPinLedger(path: string, now: number): Promise<OpenedPinLedger> {
  const content = await readSealed(path);
  const parsed = content.kind === 'read' ? v.safeParse(schema, content.value) : undefined;
  const loaded: PinLedger | undefined = parsed?.success ? parsed.output : undefined;
  if (content.kind === 'absent' || loaded !== undefined) {
    return {
      ledger: { load: () => loaded, save: (ledger, signal) => writeSealed(path, ledger, signal) },
      damage: undefined,
    };
  }
  const damaged = createDamagedFile(path, now);
  const save = async (ledger: PinLedger, signal: AbortSignal) => {
    signal.throwIfAborted();
    await damaged.setAside();
    // Once the damaged file is renamed, another one must follow in its place.
    await writeSealed(path, ledger, NEVER_ABORTED);
  };
  const reason = content.kind === 'damaged' ? content.reason : 'its content is not what stickpin writes';
  return { ledger: { load: () => undefined, save }, damage: `${reason}; it is kept as ${damaged.aside}` };
}
