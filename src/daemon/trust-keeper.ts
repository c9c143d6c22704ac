import { loadTrustedKeys, type Trust } from '../bundle/trust.ts';
import type { TrustPort } from '../engine/ports.ts';
import type { Log } from '../platform/log.ts';
import { messageIds } from '../platform/message-ids.ts';

/** The trusted keys as they lie in the folder now. */
export interface TrustKeeper extends TrustPort {
  trust(): Trust;
  /** Reads the keys again; tells what changed and what is wrong with a file. */
  reload(signal: AbortSignal): Promise<void>;
}

/** Loads the keys of `folder` for the first time. */
export async function createTrustKeeper(
  folder: string,
  threshold: number,
  log: Log,
  signal: AbortSignal,
): Promise<TrustKeeper> {
  let keys = await loadTrustedKeys(folder, signal);
  const tell = () => {
    for (const { message } of keys.problems) log.warn({ messageId: messageIds.keysChanged }, message);
    const names = keys.keys.map((key) => key.name).join(', ');
    if (names === '') {
      log.warn({ messageId: messageIds.noKeys }, `No key is trusted: copy the factory's .pub file to ${folder}`);
    } else {
      log.info({ messageId: messageIds.keysChanged }, `Trusted keys: ${names}`);
    }
  };
  tell();
  return {
    trust: () => ({ keys, threshold }),
    revision: () => `${threshold} ${keys.revision}`,
    reload: async (inner) => {
      const before = keys.revision;
      keys = await loadTrustedKeys(folder, inner);
      if (keys.revision !== before) tell();
    },
  };
}
