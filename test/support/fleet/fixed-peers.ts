import { Peers } from '../../../src/fleet/peers/peers.ts';
import { WarnOnce } from '../../../src/fleet/trouble.ts';
import { silentLog } from '../../../src/platform/log.ts';

type Options = ConstructorParameters<typeof Peers>[0];

/** Without a certificate, fixed addresses and a store. */
export function fixedPeers(options: Partial<Options> & Pick<Options, 'cluster' | 'clock'>): Peers {
  return new Peers({
    identity: undefined,
    onHeard: () => undefined,
    settings: { peers: [], listen: 'auto', activate: 'each', absent: 3_600_000, exclude: [] },
    store: { load: async () => [], save: async () => true },
    warnings: new WarnOnce(silentLog, options.clock),
    ownStatus: () => undefined,
    ...options,
  });
}
