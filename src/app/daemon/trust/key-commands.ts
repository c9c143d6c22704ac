import { keyProblemLine } from '../../../bundle/keys/keys-folder.ts';
import type { TrustedKeys } from '../../../bundle/keys/trust.ts';
import { callerText } from '../../../domain/report/events/release-events.ts';
import { stampAfter } from '../../../domain/state/state.ts';
import { withRestored, withSeen } from '../../../domain/trust/revocation-record.ts';
import type { Engine } from '../../../engine/loop/engine.ts';
import { AppError } from '../../../platform/app-error.ts';
import type { Clock } from '../../../platform/clock.ts';
import type { Log } from '../../../platform/log.ts';
import { messageIds } from '../../../platform/message-ids.ts';
import { formatCount } from '../../../platform/sizes.ts';
import type { StateStore, StreamStore } from '../../../ports/state.ts';
import type { RevocationMemory } from './revocation-memory.ts';

/**
 * Revokes a key everywhere, named by its id, or by the first 12 digits or more of a trusted one. A
 * key that is not known may be revoked ahead by its whole id. Returns a sentence about the effect.
 *
 * @param uid the caller, for the history; undefined when not known.
 * @throws AppError `trust/no-key`, `trust/ambiguous` (`reject`); `runtime/write`, `store/write`
 */
export type KeyRevoker = (name: string, uid: number | undefined) => Promise<string>;

export async function revokeKey(
  name: string,
  uid: number | undefined,
  { keysNow, memory, clock, log }: Pick<RestoreKeyDependencies, 'keysNow' | 'memory' | 'clock' | 'log'>,
): Promise<string> {
  const { keys, roles } = keysNow();
  const known = [...keys, ...roles.flatMap((role) => role.keys)];
  const keyId = trustedKeyNamed(name, [...new Set(known.map((key) => key.keyId))]);
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

function trustedKeyNamed(name: string, known: readonly string[]): string {
  const sought = name.toLowerCase().replace(/…$/, '');
  if (/^[0-9a-f]{64}$/.test(sought)) return sought;
  const found = /^[0-9a-f]{12,64}$/.test(sought) ? known.filter((keyId) => keyId.startsWith(sought)) : [];
  const [keyId, second] = found;
  if (keyId !== undefined && second === undefined) return keyId;
  if (keyId !== undefined)
    throw revokeRefusal('ambiguous', `${sought} begins the ids of several trusted keys: give the whole id`);
  const shown = JSON.stringify(name.slice(0, 80));
  throw revokeRefusal(
    'no-key',
    `no trusted key has the id ${shown}; a key that is not known here is named by its whole id`,
  );
}

function revokeRefusal(code: 'no-key' | 'ambiguous', message: string): AppError {
  return new AppError({ code: `trust/${code}`, message, disposition: 'reject' });
}

/**
 * Removes the stored revocation of a key, named by its id or at least the first 12 digits of it.
 * This also overrides a bundle that revoked the key. Resolves to a sentence that states the effect.
 *
 * @param uid the caller, for the history; undefined when not known.
 * @throws AppError `trust/no-key`, `trust/ambiguous`, `trust/file` (`reject`), `trust/unreadable`
 *   (`wait`); `runtime/write`, `store/write`
 */
export type KeyRestorer = (name: string, uid: number | undefined) => Promise<string>;

interface RestoreKeyDependencies {
  /** Reads the folder of keys now. */
  readonly load: () => Promise<TrustedKeys>;
  readonly take: (fileKeys: TrustedKeys) => void;
  readonly keysNow: () => TrustedKeys;
  readonly memory: Pick<RevocationMemory, 'lift'>;
  readonly clock: Clock;
  readonly log: Log;
}

export async function restoreKey(
  name: string,
  uid: number | undefined,
  { load, take, keysNow, memory, clock, log }: RestoreKeyDependencies,
): Promise<string> {
  const fileKeys = await load();
  const bad = [...fileKeys.problems, ...keysNow().problems].find(({ hidesRevocations }) => hidesRevocations);
  if (bad !== undefined) {
    throw restoreRefusal(
      'unreadable',
      `no key can be restored while revocations can't be read: ${keyProblemLine(bad)}`,
    );
  }
  const keyId = revokedKeyNamed(name, [...new Set([...fileKeys.revoked, ...keysNow().revoked])]);
  const ids = [...(fileKeys.formsOf.get(keyId) ?? []), ...(keysNow().formsOf.get(keyId) ?? [keyId])];
  const files = fileKeys.byFile.filter((one) => ids.includes(one.keyId));
  if (files.length > 0) {
    const paths = [...new Set(files.map(({ file }) => `${fileKeys.folder}/${file}`))].join(' and ');
    throw restoreRefusal(
      'file',
      `key ${keyId} is revoked by ${paths}: remove it from there first, then restore the key`,
    );
  }
  take(fileKeys);
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
  return `${message}, and ${isTrusted ? 'it is trusted' : `it counts again once its .pub file is in ${fileKeys.folder}`}.`;
}

function revokedKeyNamed(name: string, revoked: readonly string[]): string {
  const sought = name.toLowerCase().replace(/…$/, '');
  const found = /^[0-9a-f]{12,64}$/.test(sought) ? revoked.filter((keyId) => keyId.startsWith(sought)) : [];
  const [keyId, second] = found;
  if (keyId !== undefined && second === undefined) return keyId;
  if (keyId !== undefined) {
    throw restoreRefusal('ambiguous', `${sought} begins the ids of several revoked keys: give the whole id of one`);
  }
  const shown = JSON.stringify(name.slice(0, 80));
  throw restoreRefusal(
    'no-key',
    `no revoked key has the id ${shown}: 'stickpin trust list' has the ids of those that are`,
  );
}

function restoreRefusal(code: 'no-key' | 'ambiguous' | 'file' | 'unreadable', message: string): AppError {
  return new AppError({ code: `trust/${code}`, message, disposition: code === 'unreadable' ? 'wait' : 'reject' });
}

/**
 * Resets a stream: its sequence floor, its clock floor, the keys that its bundles added, and what
 * they said of other releases. What is adopted stays, but its sequence, its `created` and its
 * advisories count no more. Returns a sentence about the
 * effect.
 *
 * @param uid the caller, for the history; undefined when not known.
 * @throws AppError `trust/no-stream` (`reject`); `store/write`, `store/no-space`, `store/read-only`
 */
export type StreamResetter = (stream: string, uid: number | undefined) => Promise<string>;

interface ResetStreamDependencies {
  readonly store: Pick<StateStore, 'load'> & StreamStore;
  readonly engine: Pick<Engine, 'resetFloors' | 'hasFloor'>;
  readonly clock: Clock;
  readonly log: Log;
}

export async function resetStream(
  stream: string,
  uid: number | undefined,
  { store, engine, clock, log }: ResetStreamDependencies,
): Promise<string> {
  const { bundles, rotation } = store.load();
  const known = bundles.filter(({ payload }) => payload.name === stream);
  if (known.length === 0 && !engine.hasFloor(stream)) throw noStream(stream);
  const ids = new Set<string>(known.map(({ bundleId }) => bundleId));
  const countOf = (brought: typeof rotation.keys) =>
    new Set(brought.map(({ keyId, role = '' }) => `${keyId} ${role}`)).size;
  const keys = countOf(rotation.keys) - countOf(rotation.keys.filter(({ bundleId }) => !ids.has(bundleId)));
  const by = uid === undefined ? 'somebody' : `user ${uid}`;
  const forgotten = keys === 0 ? '' : `, and ${formatCount(keys, 'key')} that its bundles added no longer count`;
  const message = `Stream ${stream} was reset by ${by}: any sequence is accepted again, and advisories of bundles that are known do not count${forgotten}`;
  const at = stampAfter(bundles, clock.now());
  await engine.resetFloors(stream, () =>
    store.resetStream(stream, { at, kind: 'streamReset', message, by: callerText('resetStream', uid) }),
  );
  log.warn({ messageId: messageIds.streamReset, ...(uid !== undefined && { uid }) }, message);
  return `${message}. What is adopted stays; 'stickpin reject' or 'stickpin unpin' gives up a release that is not wanted.`;
}

function noStream(stream: string): AppError {
  const shown = JSON.stringify(stream.slice(0, 80));
  const message = `no bundle of stream ${shown} was adopted here: 'stickpin list' shows the streams`;
  return new AppError({ code: 'trust/no-stream', message, disposition: 'reject' });
}
