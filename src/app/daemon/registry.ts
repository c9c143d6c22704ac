import { createPeerScan } from '../../registry/peers/peer-scan.ts';
import { openSocketDiag } from '../../registry/peers/socket-diag.ts';
import { createRegistry, type ListenTarget, type Registry, type RegistryOptions } from '../../registry/server.ts';
import type { DaemonOptions } from './daemon-options.ts';

/**
 * Creates a registry for the users of `registry.allow_uids` and the daemon's own user. It does not
 * listen yet.
 */
export function createDaemonRegistry(
  { settings, clock, log }: DaemonOptions,
  { source, layers, token, isHeld }: Pick<RegistryOptions, 'source' | 'layers' | 'isHeld'> & { readonly token: string },
): Registry {
  const allowedUids = new Set([...settings.registry.allow_uids, process.getuid?.() ?? 0]);
  const peers = createPeerScan({ clock, openDiag: openSocketDiag });
  return createRegistry({
    source,
    clock,
    log,
    token,
    ...(isHeld !== undefined && { isHeld }),
    graceMs: settings.media.grace,
    waitsForOffers: true,
    ...(layers !== undefined && { layers }),
    admit: async (socket) => {
      const uid = await peers.uidOf(socket);
      return uid !== undefined && allowedUids.has(uid) ? `uid ${uid}` : undefined;
    },
    isOpen: async (socket) => (await peers.uidOf(socket)) !== undefined,
  });
}

/** Where the registry listens: the inherited socket, otherwise `registry.listen`. */
export function listenTarget({ settings, registryFd }: DaemonOptions): ListenTarget {
  if (registryFd !== undefined) return { fd: registryFd };
  const colon = settings.registry.listen.lastIndexOf(':');
  const host = settings.registry.listen.slice(0, colon);
  return { host, port: Number(settings.registry.listen.slice(colon + 1)) };
}
