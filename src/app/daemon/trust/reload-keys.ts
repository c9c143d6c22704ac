import type { TrustedKeys } from '../../../bundle/keys/trust.ts';
import { messageIds } from '../../../platform/message-ids.ts';
import { type NodeKeys, readFolder, takeFolder } from './node-keys.ts';

/**
 * How long the keys that were read before hold while a `*.revoked` file can't be read. Short: it
 * may revoke a key.
 */
const GRACE_MS = 5_000;
/** Pause before such a file is read again, within the grace. */
const REREAD_MS = 1_500;
/** The pause afterwards: a disk may answer again without any sign of it. */
const REREAD_LATER_MS = 30_000;

/** The reloads of one daemon. */
export interface KeyReloads {
  /** Calls so far. */
  calls: number;
  /** The newest call whose reading is in force: an older one that was slow changes nothing. */
  takenCall: number;
  /** Since when revocations can't be read (monotonic); undefined while they can. */
  unreadableSince: number | undefined;
}

/** No reload so far. */
export const noReloads = (): KeyReloads => ({ calls: 0, takenCall: 0, unreadableSince: undefined });

/**
 * Reads the folder of keys again and calls `taken` when the keys are in force. A `*.revoked` file
 * or a folder that can't be read is often being written or replaced, or its disk hesitates: what
 * was read before holds for {@link GRACE_MS}, while it is read again. Then no key counts until it
 * can be read. Resolves once no such file is left, or a later call has taken over.
 */
export async function reloadKeys(
  node: NodeKeys,
  reloads: KeyReloads,
  signal: AbortSignal,
  taken: () => void,
): Promise<void> {
  reloads.calls += 1;
  const call = reloads.calls;
  for (;;) {
    const next = await readFolder(node, signal);
    if (call < reloads.takenCall) return;
    const isInGrace = isWorthWaiting(node, reloads, next);
    if (!isInGrace || node.own.revocationsUnreadable) {
      reloads.takenCall = call;
      takeFolder(node, next);
      taken();
    }
    if (!next.revocationsUnreadable || call !== reloads.calls) return;
    await node.clock.sleep(isInGrace ? REREAD_MS : REREAD_LATER_MS, signal);
    if (call !== reloads.calls) return;
  }
}

/**
 * Whether revocations that can't be read may still be readable in a moment. Logged when that
 * begins.
 */
function isWorthWaiting({ own, clock, log }: NodeKeys, reloads: KeyReloads, next: TrustedKeys): boolean {
  if (!next.revocationsUnreadable) {
    reloads.unreadableSince = undefined;
    return false;
  }
  const now = clock.monotonic();
  if (reloads.unreadableSince === undefined && !own.revocationsUnreadable) {
    const bad = next.problems.find(({ hidesRevocations }) => hidesRevocations);
    log.warn({ messageId: messageIds.keysChanged }, `${bad?.message}; it is read again, and the keys hold until then`);
  }
  reloads.unreadableSince ??= now;
  return now - reloads.unreadableSince < GRACE_MS;
}
