import * as v from 'valibot';
import { type BundleId, isDigest } from '../../domain/model/digest.ts';
import { RULE_CODES } from '../../domain/model/reason.ts';
import type { PinLedger } from '../../domain/state/pin-ledger.ts';
import type { PinLedgerStore } from '../../ports/state.ts';
import { openSealed } from './sealed-file.ts';

const digest = v.custom<BundleId>((value) => typeof value === 'string' && isDigest(value));
const references = v.array(v.string());
const time = v.exactOptional(v.number());
const known = v.object({
  bundleId: digest,
  adoptedAt: v.number(),
  claimedAt: time,
  resetAt: time,
  readyAt: time,
  activationRequestedAt: time,
  activationOverrides: v.exactOptional(v.array(v.picklist(RULE_CODES))),
  activatedAt: time,
  activeAt: time,
  provenAt: time,
  rolledBackAt: time,
  rolledBackReason: v.exactOptional(v.string()),
  cancelled: v.exactOptional(v.object({ at: v.number(), media: v.array(v.string()) })),
  isNotice: v.exactOptional(v.boolean()),
});
const verdict = v.object({
  bundleId: digest,
  verdict: v.picklist(['approved', 'rejected']),
  reason: v.exactOptional(v.string()),
  at: v.number(),
});
const rejectedName = v.object({
  name: v.string(),
  version: v.string(),
  at: v.number(),
  reason: v.exactOptional(v.string()),
});
const schema = v.object({
  releases: v.array(v.object({ bundleId: digest, name: v.string(), version: v.string(), references })),
  unclaimed: references,
  givenUp: references,
  known: v.exactOptional(v.array(known)),
  verdicts: v.exactOptional(v.array(verdict)),
  rejectedNames: v.exactOptional(v.array(rejectedName)),
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
  const { loaded, damage, save } = await openSealed<PinLedger>(path, now, (value) => {
    const parsed = v.safeParse(schema, value);
    return parsed.success ? parsed.output : undefined;
  });
  return { ledger: { load: () => loaded, save }, damage };
}
