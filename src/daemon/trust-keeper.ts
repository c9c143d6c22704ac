import { createHash } from 'node:crypto';
import { loadTrustedKeys, type Trust, type TrustedKeys, withRotation } from '../bundle/trust.ts';
import type { Settings } from '../config/schema.ts';
import { type Approvals, isApproved } from '../domain/approval.ts';
import type { BundleId } from '../domain/digest.ts';
import type { KeyRotation, Revocations } from '../domain/key-rotation.ts';
import { withdrawalOf } from '../domain/standing.ts';
import type { TrustInForce } from '../domain/trust-in-force.ts';
import type { StateStore, TrustPort } from '../engine/ports.ts';
import type { Clock } from '../platform/clock.ts';
import type { Log } from '../platform/log.ts';
import { messageIds } from '../platform/message-ids.ts';

/** The trusted keys as they are now: those of the folder and those that came by rotation. */
export interface TrustKeeper extends TrustPort {
  trust(): Trust;
  /**
   * Reads the keys again; tells what changed and what is wrong with a file, and calls `taken` when they are in force. A `*.revoked` file that can't be read is
   * often one that is being written, or a disk that hesitates: what was read before holds for {@link BLIND_GRACE_MS}, while it is read again; then no key
   * counts, until it can be read. Resolves once no such file is left, or a later call has taken over.
   */
  reload(signal: AbortSignal, taken: () => void): Promise<void>;
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
  readonly store: Pick<StateStore, 'load'>;
  readonly clock: Clock;
  readonly log: Log;
}

/** Loads the keys of `keys_dir` for the first time. */
export async function createTrustKeeper(
  { settings, store, clock, log }: TrustKeeperDependencies,
  signal: AbortSignal,
): Promise<TrustKeeper> {
  const { keys_dir: folder, threshold, require } = settings;
  let own = await loadTrustedKeys(folder, signal);
  let calls = 0;
  /** The newest call whose reading is in force: an older one that was slow changes nothing. */
  let takenCall = 0;
  let blindSince: number | undefined;
  let last: { own: TrustedKeys; rotation: KeyRotation; keys: TrustedKeys } | undefined;
  /** Made anew when the folder or the rotation is another. */
  const keysNow = (): TrustedKeys => {
    const { rotation } = store.load();
    if (last?.own !== own || last.rotation !== rotation) last = { own, rotation, keys: withRotation(own, rotation) };
    return last.keys;
  };
  const tell = () => {
    const keys = keysNow();
    for (const { message } of keys.problems) log.warn({ messageId: messageIds.keysChanged }, message);
    const names = keys.keys.map((key) => key.name).join(', ');
    if (names === '') {
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
  const revocations = (): Revocations => ({ keyIds: keysNow().revoked, isBlind: keysNow().isBlind });
  const inForce = (): TrustInForce => {
    const { keys, revoked, problems, isBlind } = keysNow();
    const { rotation } = store.load();
    const [ownKeys, ownRevoked] = [new Set(own.keys.map(({ keyId }) => keyId)), new Set(own.revoked)];
    return {
      require,
      threshold,
      keys: keys.map(({ name, keyId }) => {
        const brought = ownKeys.has(keyId) ? undefined : rotation.keys.find((key) => key.keyId === keyId);
        return { name, keyId, ...(brought !== undefined && { broughtBy: brought.bundleId }) };
      }),
      revoked: revoked.map((keyId) => {
        const by = ownRevoked.has(keyId) ? undefined : rotation.revoked.find((key) => key.keyId === keyId);
        return { keyId, ...(by !== undefined && { revokedBy: by.bundleId }) };
      }),
      problems: problems.map(({ message }) => message),
      isBlind,
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
    if (!next.isBlind) {
      blindSince = undefined;
      return false;
    }
    if (blindSince === undefined && !own.isBlind) {
      const [bad] = next.problems.filter(({ file }) => file.endsWith('.revoked'));
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
    if (keysNow().revision !== before) tell();
  };
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
    reload: async (inner, taken) => {
      calls += 1;
      const call = calls;
      for (;;) {
        const next = await loadTrustedKeys(folder, inner);
        if (call < takenCall) return;
        const isInGrace = awaits(next);
        if (!isInGrace || own.isBlind) {
          takenCall = call;
          take(next);
          taken();
        }
        if (!next.isBlind || call !== calls) return;
        await clock.sleep(isInGrace ? REREAD_MS : REREAD_LATER_MS, inner);
        if (call !== calls) return;
      }
    },
  };
}
