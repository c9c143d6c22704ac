import { createHash } from 'node:crypto';
import { keyProblemLine } from '../../bundle/keys/keys-folder.ts';
import { revocationRecordPath } from '../../bundle/keys/revocation-record.ts';
import { loadTrustedKeys, type Trust, type TrustedKeys, withRotation } from '../../bundle/keys/trust.ts';
import type { Settings } from '../../config/schema.ts';
import { withdrawalOf } from '../../domain/adoption/trust-withdrawal.ts';
import type { BundleId } from '../../domain/model/digest.ts';
import { type Approvals, isApproved } from '../../domain/trust/approval.ts';
import type { KeyRotation, Revocations } from '../../domain/trust/key-rotation.ts';
import {
  type RevocationRecord,
  revocationsInForce,
  withFolder,
  withSeen,
} from '../../domain/trust/revocation-record.ts';
import type { TrustInForce } from '../../domain/trust/trust-in-force.ts';
import type { Clock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import { messageIds } from '../../platform/message-ids.ts';
import type { RevocationStore, StateStore } from '../../ports/state.ts';
import type { TrustPort } from '../../ports/trust.ts';
import { type KeyRestorer, restoreKey } from './restore-key.ts';
import { openRevocationMemory } from './revocation-memory.ts';

/** The trusted keys as they are now: those of the folder and those that came by rotation. */
export interface TrustKeeper extends TrustPort {
  trust(): Trust;
  /**
   * Reads the keys again; tells what changed and what is wrong with a file, and calls `taken` when they are in force. A `*.revoked` file or
   * a folder that can't be read is often one that is being written or replaced, or a disk that hesitates: what was read before holds for {@link BLIND_GRACE_MS}, while it is read again; then no key
   * counts, until it can be read. Resolves once no such file is left, or a later call has taken over.
   */
  reload(signal: AbortSignal, taken: () => void): Promise<void>;
  /** Stores revocations that a bundle brought. Never throws. */
  remember(): Promise<void>;
  readonly restore: KeyRestorer;
}

/** How long the keys that were read before hold while a `*.revoked` file can't be read. Short: it may revoke the key of what is being taken up. */
const BLIND_GRACE_MS = 5_000;
/** Pause before such a file is read again, within the grace. */
const REREAD_MS = 1_500;
/** And afterwards: a disk may answer again without any sign of it. */
const REREAD_LATER_MS = 30_000;

/** What {@link createTrustKeeper} needs. */
export interface TrustKeeperDependencies {
  readonly settings: Settings['trust'];
  readonly stateDirectory: string;
  /** The user who, beside root, may own `keys_dir`: the daemon's own. Default: anybody may. */
  readonly ownUid?: number;
  readonly store: Pick<StateStore, 'load'> & RevocationStore;
  readonly clock: Clock;
  readonly log: Log;
}

/** Loads the keys of `keys_dir` for the first time, and what is remembered of revocations. */
export async function createTrustKeeper(
  { settings, stateDirectory, ownUid, store, clock, log }: TrustKeeperDependencies,
  signal: AbortSignal,
): Promise<TrustKeeper> {
  const { keys_dir: folder, threshold, require } = settings;
  const memory = await openRevocationMemory({ path: revocationRecordPath(stateDirectory), store, clock, log });
  const loadOwn = (inner: AbortSignal) =>
    loadTrustedKeys(folder, inner, {
      wasSeen: memory.record().folders.includes(folder),
      ...(ownUid !== undefined && { ownUid }),
    });
  let own = await loadOwn(signal);
  let calls = 0;
  /** The newest call whose reading is in force: an older one that was slow changes nothing. */
  let takenCall = 0;
  let blindSince: number | undefined;
  let last:
    | { own: TrustedKeys; rotation: KeyRotation; record: RevocationRecord; trouble: unknown; keys: TrustedKeys }
    | undefined;
  /** The record with what the folder and bundles revoke now. */
  const recordNow = (): RevocationRecord => {
    const seen = withSeen(
      memory.record(),
      own.byFile.map(({ keyId, otherIds }) => ({ keyId, ...(otherIds && { otherIds }) })),
      clock.now(),
    );
    const all = withSeen(seen, store.load().rotation.revoked, clock.now());
    return own.isListed ? withFolder(all, folder) : all;
  };
  /** Made anew when the folder, the rotation or the record is another. */
  const keysNow = (): TrustedKeys => {
    const [{ rotation }, record, trouble] = [store.load(), memory.record(), memory.trouble()];
    if (last?.own !== own || last.rotation !== rotation || last.record !== record || last.trouble !== trouble) {
      const revoked = revocationsInForce(withSeen(record, rotation.revoked, clock.now()));
      const keys = withRotation(own, {
        keys: rotation.keys,
        revoked,
        problems: trouble === undefined ? [] : [trouble],
      });
      last = { own, rotation, record, trouble, keys };
    }
    return last.keys;
  };
  const remember = () => memory.keep(recordNow());
  const tell = () => {
    const keys = keysNow();
    for (const problem of keys.problems) {
      const messageId = problem.hidesRevocations ? messageIds.revocationsUnreadable : messageIds.keysChanged;
      log.warn({ messageId }, keyProblemLine(problem));
    }
    const names = keys.keys.map((key) => key.name).join(', ');
    if (keys.revocationsUnreadable) {
      log.warn({ messageId: messageIds.revocationsUnreadable }, "No key is trusted while revocations can't be read");
    } else if (names === '') {
      log.warn({ messageId: messageIds.noKeys }, `No key is trusted: copy the factory's .pub file to ${folder}`);
    } else {
      log.info({ messageId: messageIds.keysChanged }, `Trusted keys: ${names}`);
    }
  };
  const approvals = (): Approvals => ({
    policy: { require, threshold, approved: settings.approved },
    verdicts: store.load().verdicts,
  });
  const approved = (): readonly BundleId[] => {
    if (require !== 'approval') return [];
    const known = approvals();
    const named = [...settings.approved, ...known.verdicts.map(({ bundleId }) => bundleId)];
    return [...new Set(named)].filter((bundleId) => isApproved(bundleId, known)).sort();
  };
  const revocations = (): Revocations => {
    const { revokedIds, revocationsUnreadable } = keysNow();
    const cause = causeOf(keysNow());
    return { keyIds: [...revokedIds].sort(), revocationsUnreadable, ...(cause !== undefined && { cause }) };
  };
  const inForce = (): TrustInForce => {
    const { keys, revoked, problems, revocationsUnreadable, byFile, formsOf } = keysNow();
    const { rotation } = store.load();
    const ownKeys = new Set(own.keys.map(({ keyId }) => keyId));
    const stored = revocationsInForce(withSeen(memory.record(), rotation.revoked, clock.now()));
    const cause = causeOf(keysNow());
    return {
      require,
      threshold,
      keys: keys.map(({ name, keyId, otherIds }) => {
        const ids = [keyId, ...otherIds];
        const brought = ownKeys.has(keyId) ? undefined : rotation.keys.find((key) => ids.includes(key.keyId));
        return { name, keyId, ...(brought !== undefined && { broughtBy: brought.bundleId }) };
      }),
      revoked: revoked.map((keyId) => {
        const ids = formsOf.get(keyId) ?? [keyId];
        const file = byFile.find((one) => ids.includes(one.keyId))?.file;
        const by = stored.find((one) => ids.includes(one.keyId) && one.bundleId !== undefined)?.bundleId;
        return {
          keyId,
          ...(file !== undefined && { file }),
          ...(file === undefined && by !== undefined && { revokedBy: by }),
        };
      }),
      problems: problems.map(keyProblemLine),
      revocationsUnreadable,
      ...(cause !== undefined && { cause }),
    };
  };
  /** Architecture, "Adoption": a bundle once adopted stays a source of blobs, unless its key is revoked. */
  const adopted = (): readonly BundleId[] => {
    const [known, revoked] = [approvals(), revocations()];
    const inForce = store.load().bundles.filter((bundle) => withdrawalOf(bundle, revoked, known) === undefined);
    return inForce.map(({ bundleId }) => bundleId);
  };
  /** Whether revocations that can't be read may still turn out to be readable in a moment. Told when it begins. */
  const awaits = (next: TrustedKeys): boolean => {
    const now = clock.monotonic();
    if (!next.revocationsUnreadable) {
      blindSince = undefined;
      return false;
    }
    if (blindSince === undefined && !own.revocationsUnreadable) {
      const bad = next.problems.find(({ hidesRevocations }) => hidesRevocations);
      log.warn(
        { messageId: messageIds.keysChanged },
        `${bad?.message}; it is read again, and the keys hold until then`,
      );
    }
    blindSince ??= now;
    return now - blindSince < BLIND_GRACE_MS;
  };
  const take = (next: TrustedKeys): void => {
    const before = keysNow().revision;
    own = next;
    void remember();
    if (keysNow().revision !== before) tell();
  };
  await remember();
  tell();
  return {
    trust: () => ({
      keys: keysNow(),
      threshold,
      vouched: new Set([...approved(), ...adopted()]),
      isApprovalEnough: require === 'approval',
    }),
    // Without the adopted bundles: what was adopted was judged good, so that its adoption changes no judgement.
    revision: () => {
      const content = JSON.stringify([threshold, require, keysNow().revision, approved()]);
      return createHash('sha256').update(content).digest('hex');
    },
    revocations,
    inForce,
    remember,
    restore: (name, uid) => restoreKey(name, uid, { load: () => loadOwn(signal), take, keysNow, memory, clock, log }),
    reload: async (inner, taken) => {
      calls += 1;
      const call = calls;
      for (;;) {
        const next = await loadOwn(inner);
        if (call < takenCall) return;
        const isInGrace = awaits(next);
        if (!isInGrace || own.revocationsUnreadable) {
          takenCall = call;
          take(next);
          taken();
        }
        if (!next.revocationsUnreadable || call !== calls) return;
        await clock.sleep(isInGrace ? REREAD_MS : REREAD_LATER_MS, inner);
        if (call !== calls) return;
      }
    },
  };
}

/** What keeps revocations from being read; undefined when nothing does. */
function causeOf({ problems }: TrustedKeys): string | undefined {
  const bad = problems.find(({ hidesRevocations }) => hidesRevocations);
  return bad === undefined ? undefined : keyProblemLine(bad);
}
