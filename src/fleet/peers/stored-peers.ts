import * as v from 'valibot';
import { formatEndpoint, parseEndpoint } from '../../domain/settings/value-types.ts';
import { reasonOf } from '../../platform/app-error.ts';
import { readIfPresent, replaceFile } from '../../platform/files/durable-file.ts';
import type { Log } from '../../platform/log.ts';
import { isLocal } from '../publish/serves.ts';

/** A node that is or was known. */
export interface StoredPeer {
  readonly name: string;
  /**
   * Where it answered last, or wrote that it answers, as `10.0.0.4:9777`; absent when not known.
   */
  readonly address?: string | undefined;
}

/** The nodes that were known last, for a start without an API server. */
export interface PeerStore {
  /** Those of the file, without addresses that each machine has; none when it can't be used. */
  load(signal: AbortSignal): Promise<readonly StoredPeer[]>;
  /** Replaces the file. A failure is one line in the log. */
  save(peers: readonly StoredPeer[], signal: AbortSignal): Promise<void>;
}

/** More nodes than a cluster has (kubernetes.io, "Considerations for large clusters"). */
const MOST_PEERS = 5_000;

const shortText = v.pipe(v.string(), v.minLength(1), v.maxLength(253));
const address = v.pipe(
  v.string(),
  v.check((text) => wellFormed(text) === text),
);
const storedPeers = v.object({
  version: v.literal(1),
  peers: v.pipe(v.array(v.object({ name: shortText, address: v.optional(address) })), v.maxLength(MOST_PEERS)),
});

/** The peers in the file at `path`. It is for its owner only (mode 0600). */
export function createPeerStore(path: string, log: Log): PeerStore {
  return {
    load: async (signal) => {
      try {
        signal.throwIfAborted();
        const text = await readIfPresent(path);
        return text === undefined ? [] : v.parse(storedPeers, JSON.parse(text)).peers.map(withoutLocal);
      } catch (error) {
        const message = `${path} can't be used, so no peers of before are asked: ${reasonOf(error)}. It is written anew`;
        if (!signal.aborted) log.warn({ err: error }, message);
        return [];
      }
    },
    save: async (peers, signal) => {
      const kept = [...peers].sort((a, b) => (a.name < b.name ? -1 : 1)).slice(0, MOST_PEERS);
      const text = `${JSON.stringify({ version: 1, peers: kept }, null, 2)}\n`;
      await replaceFile({ path, mode: 0o600 }, text, signal).catch((error: unknown) => {
        if (!signal.aborted) log.warn({ err: error }, `${path} can't be written: ${reasonOf(error)}`);
      });
    },
  };
}

/** The node itself is still waited for. */
function withoutLocal({ name, address }: StoredPeer): StoredPeer {
  const host = address === undefined ? undefined : parseEndpoint(address, 0)?.host;
  return { name, ...(host !== undefined && !isLocal(host) && { address }) };
}

/** An address in the form in which it is stored. */
function wellFormed(text: string): string | undefined {
  const endpoint = parseEndpoint(text, 0);
  return endpoint && formatEndpoint(endpoint);
}
