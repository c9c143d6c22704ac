import { openBundle } from '../../../src/bundle/read/open-bundle.ts';
import { systemClock } from '../../../src/platform/clock.ts';
import { PeerUsers } from '../../../src/registry/peer-users.ts';
import { createRegistry } from '../../../src/registry/server.ts';
import { createRecordingLog } from '../../support/recording-log.ts';
import { serveParent } from '../child.ts';

/** What the registry alone tells. */
export interface RegistryTold {
  readonly authority: string;
}

/**
 * The daemon's registry without the daemon, over one bundle directory: what pulls by hand are made
 * from.
 *
 * @param admission `root-only` as the daemon has it, by the uid of the client; otherwise everybody
 *   is admitted
 */
export async function runRegistryChild(bundlePath: string, admission?: string): Promise<void> {
  const peers = new PeerUsers({ clock: systemClock });
  const reader = openBundle(bundlePath);
  const registry = createRegistry({
    source: { ...reader, onChange: () => () => undefined },
    clock: systemClock,
    log: createRecordingLog(),
    graceMs: 0,
    token: undefined,
    admit: async (socket) => {
      if (admission !== 'root-only') return 'anybody';
      return (await peers.uidOf(socket)) === 0 ? 'uid 0' : undefined;
    },
  });
  registry.setOffers(() => ({ tags: new Map(), layers: new Map() }));
  const authority = await registry.listen({ host: '127.0.0.1', port: 0 });
  serveParent((): RegistryTold => ({ authority }));
}
