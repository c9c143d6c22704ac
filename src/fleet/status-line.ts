import type { Peer } from '../domain/fleet/fleet-view.ts';
import { type Endpoint, formatEndpoint } from '../domain/settings/value-types.ts';
import { formatBytes, formatCount } from '../platform/sizes.ts';
import type { ServedNode } from './serve/served-nodes.ts';

/** What the status of the fleet process is made of. */
export interface FleetStatus {
  readonly served: readonly ServedNode[];
  readonly waiting: number;
  /** Where other nodes reach this one; undefined while they don't. */
  readonly endpoint: Endpoint | undefined;
  /** How many bundles this node offers. */
  readonly offered: number;
  readonly peers: readonly Pick<Peer, 'trouble'>[];
  readonly apiTrouble: string | undefined;
}

/** Nodes that are named. */
const NAMED = 4;

/** `STATUS=` of the fleet process: whom it serves, at what rate, and whom it reaches. */
export function fleetStatusLine(status: FleetStatus): string {
  const { peers, apiTrouble } = status;
  const answering = peers.filter(({ trouble }) => trouble === undefined).length;
  const reached =
    peers.length === 0 ? 'No other node is known.' : `${answering} of ${formatCount(peers.length, 'peer')} answer.`;
  const api = apiTrouble === undefined ? '' : ` Kubernetes API: ${apiTrouble}`;
  return `${serving(status)} ${reached}${api}`;
}

function serving({ served, waiting, endpoint, offered }: FleetStatus): string {
  if (endpoint === undefined) return 'Gives nothing to other nodes.';
  if (served.length === 0) return `Offers ${formatCount(offered, 'bundle')} on ${formatEndpoint(endpoint)}.`;
  const named = served.slice(0, NAMED).map(({ name, bytesPerSecond }) => `${name} (${formatBytes(bytesPerSecond)}/s)`);
  const more = served.length > NAMED ? ` and ${served.length - NAMED} more` : '';
  const queue = waiting === 0 ? '' : `; ${formatCount(waiting, 'node')} wait${waiting === 1 ? 's' : ''}`;
  return `Gives blobs to ${named.join(', ')}${more}${queue}.`;
}
