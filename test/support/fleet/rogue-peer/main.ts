/**
 * A node of the cluster that was taken over: it proves who it is, offers what another node offers,
 * and spoils the blobs. Started with an order as its argument.
 */
import type { ServerResponse } from 'node:http';
import { parseEndpoint } from '../../../../src/domain/settings/addresses.ts';
import { byKubelet, IdentityKeeper } from '../../../../src/fleet/identity/identity.ts';
import { KnownPeer } from '../../../../src/fleet/peers/peer.ts';
import { serveNodes } from '../../../../src/fleet/serve/node-port.ts';
import { WarnOnce } from '../../../../src/fleet/trouble.ts';
import { relay } from '../../../../src/fleet/wire/server.ts';
import { createLog } from '../../../../src/host/log.ts';
import { NEVER_ABORTED } from '../../../../src/platform/async/abort.ts';
import { systemClock } from '../../../../src/platform/clock.ts';
import { closeSignal } from '../../../../src/platform/http.ts';
import type { RogueOrder } from './order.ts';

const TRICKLE_AFTER_BYTES = 4_096;
const TRICKLE_BYTES = 16;
const TRICKLE_MS = 500;

const order = JSON.parse(process.argv[2] ?? '') as RogueOrder;
const endpointOf = (text: string) => {
  const endpoint = parseEndpoint(text, 0);
  if (endpoint === undefined) throw new Error(`${text} is no endpoint`);
  return endpoint;
};

const log = await createLog({ env: process.env });
const settings = { kubeconfig: order.kubeconfig, client_ca: order.clientCa };
const keeper = new IdentityKeeper({ way: byKubelet(settings), clock: systemClock, log });
await keeper.refresh(NEVER_ABORTED);
const ways = { identity: () => keeper.current(), clock: systemClock, onHeard: () => undefined };
const target = { endpoint: endpointOf(order.honest), names: [], isAnnounced: false, serves: [] };
const honest = new KnownPeer(target, ways, 0);
await serveNodes({
  ...ways,
  endpoint: endpointOf(order.listen),
  warnings: new WarnOnce(log, systemClock),
  answer: async (_node, request, response) => {
    const path = request.url ?? '';
    if (request.method !== 'GET' || !path.startsWith('/v1/blobs/')) {
      return relay(request, response, { connection: honest.connection, path }).catch(() => void response.destroy());
    }
    const { range } = request.headers;
    process.stdout.write(`asked for ${path}${range === undefined ? '' : ` ${range}`}\n`);
    const headers = range === undefined ? {} : { range };
    const answer = await honest.connection.open({ path, headers }, NEVER_ABORTED);
    response.writeHead(answer.statusCode ?? 502, answer.headers);
    if (order.way === 'stall') return;
    try {
      for await (const chunk of answer as AsyncIterable<Buffer>) {
        if (order.way === 'trickle') await trickle(chunk, response);
        else if (order.way === 'spoil') chunk[0] = (chunk[0] ?? 0) ^ 1;
        if (order.way !== 'trickle') response.write(chunk);
      }
      response.end();
    } catch {
      // Whoever asked has enough of it.
      response.destroy();
    }
  },
});
process.stdout.write('listening\n');

/** Manifests and configs come at once; of a layer too little comes within a minute. */
async function trickle(chunk: Buffer, response: ServerResponse): Promise<void> {
  const life = closeSignal(response);
  response.write(chunk.subarray(0, TRICKLE_AFTER_BYTES));
  for (let at = TRICKLE_AFTER_BYTES; at < chunk.length; at += TRICKLE_BYTES) {
    await systemClock.sleep(TRICKLE_MS, life);
    response.write(chunk.subarray(at, at + TRICKLE_BYTES));
  }
}
