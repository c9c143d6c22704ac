import type { Trust } from '../../../bundle/keys/trust.ts';
import type { Settings } from '../../../domain/settings/settings.ts';
import type { Clock } from '../../../platform/clock.ts';
import type { Log } from '../../../platform/log.ts';
import type { Store } from '../../../ports/state.ts';
import type { TrustPort } from '../../../ports/trust.ts';
import { revocationsOf, rolesOf, trustInForce, trustOf, trustRevision } from './judgement.ts';
import { type KeyRestorer, type KeyRevoker, restoreKey, revokeKey } from './key-commands.ts';
import { keysNow, logKeys, type NodeKeys, readFolder, rememberRevocations, takeFolder } from './node-keys.ts';
import { noReloads, reloadKeys } from './reload-keys.ts';
import { RevocationMemory } from './revocation-memory.ts';

/** The current trusted keys: those of the folder and those from bundles. */
export interface TrustKeeper extends TrustPort {
  trust(): Trust;
  /**
   * Reads the folder of keys again. `taken` is called when the keys are in use. See {@link
   * reloadKeys}.
   */
  reload(signal: AbortSignal, taken: () => void): Promise<void>;
  /** Stores revocations from a bundle. Never throws. */
  remember(): Promise<void>;
  readonly restore: KeyRestorer;
  readonly revoke: KeyRevoker;
}

export interface TrustKeeperDependencies {
  readonly settings: Settings['trust'];
  /** The user who, beside root, may own `keys_dir`: the daemon's own. Default: anybody may. */
  readonly ownUid?: number;
  readonly store: Pick<Store, 'load' | 'revocationRecord' | 'setRevocationRecord' | 'document' | 'mirror'>;
  /** A file that may have revocations which are not taken over yet. */
  readonly hidesRevocations?: string | undefined;
  readonly clock: Clock;
  readonly log: Log;
}

/** Loads the keys of `keys_dir` for the first time, and the revocations that are remembered. */
export async function createTrustKeeper(
  { settings, ownUid, store, hidesRevocations, clock, log }: TrustKeeperDependencies,
  signal: AbortSignal,
): Promise<TrustKeeper> {
  const memory = new RevocationMemory(store, log, hidesRevocations);
  const fileKeys = await readFolder({ settings, ownUid, memory }, signal);
  const node: NodeKeys = { settings, ownUid, store, memory, clock, log, fileKeys };
  const reloads = noReloads();
  await rememberRevocations(node);
  logKeys(node, false);
  return {
    trust: () => trustOf(node),
    revision: () => trustRevision(node),
    revocations: () => revocationsOf(node),
    roles: () => rolesOf(node),
    inForce: () => trustInForce(node),
    remember: () => rememberRevocations(node),
    revoke: (name, uid) => revokeKey(name, uid, { keysNow: () => keysNow(node), memory, clock, log }),
    restore: (name, uid) =>
      restoreKey(name, uid, {
        load: () => readFolder(node, signal),
        take: (next) => takeFolder(node, next),
        keysNow: () => keysNow(node),
        memory,
        clock,
        log,
      }),
    reload: (inner, taken) => reloadKeys(node, reloads, inner, taken),
  };
}
