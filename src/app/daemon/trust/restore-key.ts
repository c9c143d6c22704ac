import { keyProblemLine } from '../../../bundle/keys/keys-folder.ts';
import type { TrustedKeys } from '../../../bundle/keys/trust.ts';
import { callerText } from '../../../domain/report/events/asked-event.ts';
import { withRestored } from '../../../domain/trust/revocation-record.ts';
import { AppError } from '../../../platform/app-error.ts';
import type { Clock } from '../../../platform/clock.ts';
import type { Log } from '../../../platform/log.ts';
import { messageIds } from '../../../platform/message-ids.ts';
import type { RevocationMemory } from './revocation-memory.ts';

/**
 * Removes the stored revocation of a key, named by its id or at least the first 12 digits of it.
 * This also overrides a bundle that revoked the key. Resolves to a sentence that states the effect.
 *
 * @param uid the caller, for the history; undefined when not known.
 * @throws AppError `trust/no-key`, `trust/ambiguous`, `trust/file` (`reject`), `trust/unreadable`
 *   (`wait`); `runtime/write`, `store/write`
 */
export type KeyRestorer = (name: string, uid: number | undefined) => Promise<string>;

/** The adapters of {@link restoreKey}. */
export interface RestoreKeyDependencies {
  /** Reads the folder of keys now. */
  readonly load: () => Promise<TrustedKeys>;
  /** Uses the given content of the folder. */
  readonly take: (own: TrustedKeys) => void;
  /** All keys and revocations in use. */
  readonly keysNow: () => TrustedKeys;
  readonly memory: Pick<RevocationMemory, 'lift'>;
  readonly clock: Pick<Clock, 'now'>;
  readonly log: Log;
}

/** As {@link KeyRestorer}. */
export async function restoreKey(
  name: string,
  uid: number | undefined,
  { load, take, keysNow, memory, clock, log }: RestoreKeyDependencies,
): Promise<string> {
  const own = await load();
  const bad = [...own.problems, ...keysNow().problems].find(({ hidesRevocations }) => hidesRevocations);
  if (bad !== undefined) {
    throw refusal('unreadable', `no key can be restored while revocations can't be read: ${keyProblemLine(bad)}`);
  }
  const keyId = keyNamed(name, [...new Set([...own.revoked, ...keysNow().revoked])]);
  const ids = [...(own.formsOf.get(keyId) ?? []), ...(keysNow().formsOf.get(keyId) ?? [keyId])];
  const files = own.byFile.filter((one) => ids.includes(one.keyId));
  if (files.length > 0) {
    const paths = [...new Set(files.map(({ file }) => `${own.folder}/${file}`))].join(' and ');
    throw refusal('file', `key ${keyId} is revoked by ${paths}: remove it from there first, then restore the key`);
  }
  take(own);
  const by = uid === undefined ? 'somebody' : `user ${uid}`;
  const message = `Key ${keyId} was restored by ${by}: it is revoked no longer`;
  await memory.lift((record) => withRestored(record, ids, clock.now()), {
    at: clock.now(),
    kind: 'keyRestored',
    message,
    by: callerText('restoreKey', uid),
  });
  log.warn({ messageId: messageIds.keyRestored, keyId, ...(uid !== undefined && { uid }) }, message);
  const isTrusted = keysNow().keys.some((key) => key.keyId === keyId);
  return `${message}, and ${isTrusted ? 'it is trusted' : `it counts again once its .pub file is in ${own.folder}`}.`;
}

function keyNamed(name: string, revoked: readonly string[]): string {
  const sought = name.toLowerCase().replace(/…$/, '');
  const found = /^[0-9a-f]{12,64}$/.test(sought) ? revoked.filter((keyId) => keyId.startsWith(sought)) : [];
  const [keyId, second] = found;
  if (keyId !== undefined && second === undefined) return keyId;
  if (keyId !== undefined) {
    throw refusal('ambiguous', `${sought} begins the ids of several revoked keys: give the whole id of one`);
  }
  const shown = JSON.stringify(name.slice(0, 80));
  throw refusal('no-key', `no revoked key has the id ${shown}: 'stickpin trust list' has the ids of those that are`);
}

function refusal(code: 'no-key' | 'ambiguous' | 'file' | 'unreadable', message: string): AppError {
  return new AppError({ code: `trust/${code}`, message, disposition: code === 'unreadable' ? 'wait' : 'reject' });
}
