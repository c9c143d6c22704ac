import type { KeyProblem } from '../../../bundle/keys/keys-folder.ts';
import type { TrustedKeys } from '../../../bundle/keys/trusted-keys.ts';
import { messageIds } from '../../../platform/message-ids.ts';
import { type NodeKeys, readFolder, takeFolder } from './node-keys.ts';

/**
 * How long the previous keys stay in use while a `*.revoked` file can't be read. Short, because the
 * file may revoke a key.
 */
const GRACE_MS = 5_000;
/** Pause before such a file is read again, within the grace. */
const REREAD_MS = 1_500;
/** The pause afterwards. Nothing signals that a disk works again. */
const REREAD_LATER_MS = 30_000;

export interface KeyReloads {
  /** Calls so far. */
  calls: number;
  /** The newest call whose result is in use. The result of an older, slower call is ignored. */
  takenCall: number;
  /** Since when revocations can't be read, in monotonic milliseconds. Undefined while they can. */
  unreadableSince: number | undefined;
}

export const noReloads = (): KeyReloads => ({ calls: 0, takenCall: 0, unreadableSince: undefined });

/**
 * Reads the folder of keys again, and calls `taken` when the keys are in use. If a `*.revoked` file
 * or the folder can't be read, it may just be being written or replaced. So the previous keys stay
 * in use for {@link GRACE_MS}, while it is read again. After that no key is valid until it can be
 * read. Resolves when everything was read, or when a later call has replaced this one.
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
    const isUnsettled = next.revocationsUnreadable || lostRole(node.fileKeys, next) !== undefined;
    const isInGrace = isUnsettled && isWorthWaiting(node, reloads, next);
    if (!isUnsettled) reloads.unreadableSince = undefined;
    if (!isInGrace || node.fileKeys.revocationsUnreadable) {
      reloads.takenCall = call;
      takeFolder(node, next);
      taken();
    }
    const isDone = isInGrace ? false : !next.revocationsUnreadable;
    if (isDone || call !== reloads.calls) return;
    await node.clock.sleep(isInGrace ? REREAD_MS : REREAD_LATER_MS, signal);
    if (call !== reloads.calls) return;
  }
}

/**
 * Whether what can't be read may still be readable in a moment. Logged when that begins.
 */
function isWorthWaiting({ fileKeys, clock, log }: NodeKeys, reloads: KeyReloads, next: TrustedKeys): boolean {
  const now = clock.monotonic();
  if (reloads.unreadableSince === undefined && !fileKeys.revocationsUnreadable) {
    const bad = next.problems.find(({ hidesRevocations }) => hidesRevocations) ?? lostRole(fileKeys, next);
    log.warn(
      { messageId: messageIds.keyFileUnusable },
      `${bad?.message}; it is read again, and the keys hold until then`,
    );
  }
  reloads.unreadableSince ??= now;
  return now - reloads.unreadableSince < GRACE_MS;
}

/** The fault in the file of a role that was in force before. */
function lostRole(before: TrustedKeys, next: TrustedKeys): KeyProblem | undefined {
  const lost = before.roles.filter(({ name }) => next.roles.every((role) => role.name !== name));
  return next.problems.find(({ file }) => lost.some(({ name }) => file === `${name}.toml`));
}
