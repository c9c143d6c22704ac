import { callerText } from '../../../domain/report/events/asked-event.ts';
import { withSeen } from '../../../domain/trust/revocation-record.ts';
import { AppError } from '../../../platform/app-error.ts';
import { messageIds } from '../../../platform/message-ids.ts';
import type { RestoreKeyDependencies } from './restore-key.ts';

/**
 * Revokes a key everywhere, named by its id, or by the first 12 digits or more of a trusted one. A
 * key that is not known may be revoked ahead by its whole id. Returns a sentence about the effect.
 *
 * @param uid the caller, for the history; undefined when not known.
 * @throws AppError `trust/no-key`, `trust/ambiguous` (`reject`); `runtime/write`, `store/write`
 */
export type KeyRevoker = (name: string, uid: number | undefined) => Promise<string>;

/** As {@link KeyRevoker}. */
export async function revokeKey(
  name: string,
  uid: number | undefined,
  { keysNow, memory, clock, log }: Pick<RestoreKeyDependencies, 'keysNow' | 'memory' | 'clock' | 'log'>,
): Promise<string> {
  const { keys, roles } = keysNow();
  const known = [...keys, ...roles.flatMap((role) => role.keys)];
  const keyId = keyNamed(name, [...new Set(known.map((key) => key.keyId))]);
  const key = known.find((one) => one.keyId === keyId);
  const at = clock.now();
  const by = uid === undefined ? 'somebody' : `user ${uid}`;
  const message = `Key ${keyId} was revoked by ${by}`;
  const seen = { keyId, otherIds: key?.otherIds ?? [], byPerson: true } as const;
  await memory.lift((record) => withSeen(record, [seen], at), {
    at,
    kind: 'keyRevoked',
    message,
    by: callerText('revokeKey', uid),
  });
  log.warn({ messageId: messageIds.keyRevoked, keyId, ...(uid !== undefined && { uid }) }, message);
  return `${message}: what it signed is not trusted, unless enough other keys signed it. 'stickpin trust restore ${keyId}' takes that back.`;
}

function keyNamed(name: string, known: readonly string[]): string {
  const sought = name.toLowerCase().replace(/…$/, '');
  if (/^[0-9a-f]{64}$/.test(sought)) return sought;
  const found = /^[0-9a-f]{12,64}$/.test(sought) ? known.filter((keyId) => keyId.startsWith(sought)) : [];
  const [keyId, second] = found;
  if (keyId !== undefined && second === undefined) return keyId;
  if (keyId !== undefined)
    throw refusal('ambiguous', `${sought} begins the ids of several trusted keys: give the whole id`);
  const shown = JSON.stringify(name.slice(0, 80));
  throw refusal('no-key', `no trusted key has the id ${shown}; a key that is not known here is named by its whole id`);
}

function refusal(code: 'no-key' | 'ambiguous', message: string): AppError {
  return new AppError({ code: `trust/${code}`, message, disposition: 'reject' });
}
