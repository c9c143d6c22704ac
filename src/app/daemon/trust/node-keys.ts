import { keyProblemLine } from '../../../bundle/keys/keys-folder.ts';
import { newKeyRemedy, revokedClause } from '../../../bundle/keys/revocation-record.ts';
import { loadTrustedKeys, type TrustedKeys } from '../../../bundle/keys/trust.ts';
import { withRotation } from '../../../bundle/keys/with-rotation.ts';
import type { Settings } from '../../../domain/settings/settings.ts';
import type { KeyRotation } from '../../../domain/trust/approval.ts';
import {
  type RevocationRecord,
  revocationsInForce,
  withFolder,
  withSeen,
} from '../../../domain/trust/revocation-record.ts';
import type { Clock } from '../../../platform/clock.ts';
import type { Log } from '../../../platform/log.ts';
import { messageIds } from '../../../platform/message-ids.ts';
import type { StateStore } from '../../../ports/state.ts';
import type { RevocationMemory } from './revocation-memory.ts';

/**
 * The keys of this node: those of the folder, those that came by rotation, and the revocations that
 * are remembered.
 */
export interface NodeKeys {
  readonly settings: Settings['trust'];
  /** The user who, beside root, may own the folder; undefined: anybody may. */
  readonly ownUid: number | undefined;
  readonly store: Pick<StateStore, 'load'>;
  readonly memory: RevocationMemory;
  readonly clock: Clock;
  readonly log: Log;
  /** The folder as it was read last. */
  fileKeys: TrustedKeys;
  /** What {@link keysNow} gave last, and from what. */
  last?: DerivedKeys;
}

interface DerivedKeys {
  readonly fileKeys: TrustedKeys;
  readonly rotation: KeyRotation;
  readonly record: RevocationRecord;
  readonly trouble: unknown;
  readonly keys: TrustedKeys;
}

export function readFolder(
  { settings, ownUid, memory }: Pick<NodeKeys, 'settings' | 'ownUid' | 'memory'>,
  signal: AbortSignal,
): Promise<TrustedKeys> {
  const wasSeen = memory.record().folders.includes(settings.keys_dir);
  return loadTrustedKeys(settings.keys_dir, signal, { wasSeen, ...(ownUid !== undefined && { ownUid }) });
}

/**
 * The keys in use. They are computed again when the folder, the rotation or the record has changed.
 */
export function keysNow(node: NodeKeys): TrustedKeys {
  const { fileKeys, store, memory, clock, last } = node;
  const [{ rotation }, record, trouble] = [store.load(), memory.record(), memory.trouble()];
  const isSame =
    last?.fileKeys === fileKeys && last.rotation === rotation && last.record === record && last.trouble === trouble;
  if (last !== undefined && isSame) return last.keys;
  const revoked = revocationsInForce(withSeen(record, rotation.revoked, clock.now()));
  const problems = trouble === undefined ? [] : [trouble];
  const keys = withRotation(fileKeys, { keys: rotation.keys, revoked, problems });
  node.last = { fileKeys, rotation, record, trouble, keys };
  return keys;
}

/** Stores the revocations of the folder and of bundles. Never throws. */
export function rememberRevocations({ settings, fileKeys, store, memory, clock }: NodeKeys): Promise<void> {
  const ofFolder = fileKeys.byFile.map(({ keyId, otherIds }) => ({ keyId, ...(otherIds && { otherIds }) }));
  const seen = withSeen(memory.record(), ofFolder, clock.now());
  const all = withSeen(seen, store.load().rotation.revoked, clock.now());
  return memory.keep(fileKeys.isListed ? withFolder(all, settings.keys_dir) : all);
}

/** Uses the given content of the folder. Logs the keys when they changed. */
export function takeFolder(node: NodeKeys, next: TrustedKeys): void {
  const before = keysNow(node).revision;
  node.fileKeys = next;
  void rememberRevocations(node);
  if (keysNow(node).revision !== before) logKeys(node, true);
}

/** That no key is trusted, why, and what to do. */
export function noKeyText({ revokedKeys }: TrustedKeys, folder: string): string {
  if (revokedKeys.length === 0) return `No key is trusted: copy the factory's .pub file to ${folder}`;
  return `No key is trusted, since ${revokedClause(revokedKeys)}: ${newKeyRemedy(revokedKeys, folder)}`;
}

/** Logs the trusted keys, and the files that can't be used. A start is no change of keys. */
export function logKeys(node: NodeKeys, areChanged: boolean): void {
  const { settings, log } = node;
  const keys = keysNow(node);
  for (const problem of keys.problems) {
    const { hidesRevocations, isPrivateKey } = problem;
    const messageId = hidesRevocations ? messageIds.revocationsUnreadable : messageIds.keyFileUnusable;
    log.warn({ messageId: isPrivateKey ? messageIds.privateKeyFound : messageId }, keyProblemLine(problem));
  }
  const counting = [...keys.keys, ...keys.roles.flatMap((role) => role.keys)];
  const names = counting.map((key) => key.name).join(', ');
  if (keys.revocationsUnreadable) {
    log.warn({ messageId: messageIds.revocationsUnreadable }, "No key is trusted while revocations can't be read");
  } else if (names === '') {
    log.warn({ messageId: messageIds.noKeys }, noKeyText(keys, settings.keys_dir));
  } else {
    log.info({ ...(areChanged && { messageId: messageIds.keysChanged }) }, `Trusted keys: ${names}`);
  }
}
