import { randomBytes } from 'node:crypto';
import { createPeerScan } from '../../registry/peers/peer-scan.ts';
import { createRegistry, type ListenTarget, type Registry, type RegistryOptions } from '../../registry/server.ts';
import type { DaemonOptions } from './daemon-options.ts';

/** The registry of the daemon, and the token in its paths. */
export interface DaemonRegistry {
  readonly registry: Registry;
  readonly token: string;
}

/**
 * Creates a registry for the users of `registry.allow_uids` and the daemon's own user. It does not
 * listen yet.
 */
export function createDaemonRegistry(
  { settings, clock, log }: DaemonOptions,
  { source, layers }: Pick<RegistryOptions, 'source' | 'layers'>,
): DaemonRegistry {
  const token = randomBytes(16).toString('hex');
  const allowedUids = new Set([...settings.registry.allow_uids, process.getuid?.() ?? 0]);
  const peers = createPeerScan({ clock });
  const registry = createRegistry({
    source,
    clock,
    log,
    token,
    graceMs: settings.media.grace,
    ...(layers !== undefined && { layers }),
    admit: async (socket) => {
      const uid = await peers.uidOf(socket);
      return uid !== undefined && allowedUids.has(uid) ? `uid ${uid}` : undefined;
    },
    isOpen: async (socket) => (await peers.uidOf(socket)) !== undefined,
  });
  return { registry, token };
}

/** Where the registry listens: the inherited socket, otherwise `registry.listen`. */
export function listenTarget({ settings, registryFd }: DaemonOptions): ListenTarget {
  if (registryFd !== undefined) return { fd: registryFd };
  const colon = settings.registry.listen.lastIndexOf(':');
  const host = settings.registry.listen.slice(0, colon);
  return { host, port: Number(settings.registry.listen.slice(colon + 1)) };
}
