import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import * as v from 'valibot';
import { respondJson } from '../../../src/platform/http.ts';

const requestBody = v.object({
  client_params: v.object({
    id: v.pipe(v.string(), v.minLength(1)),
    group: v.pipe(v.string(), v.regex(/^[a-zA-Z0-9.-]+$/)),
  }),
});

/** What a server may do instead of an answer. */
export type LockFault = (response: ServerResponse) => void;

/** A server of the FleetLock protocol, version 1, with one slot for each group. */
export interface FleetLockServer {
  readonly url: string;
  /** All requests, as `pre-reboot` and `steady-state`. */
  readonly requests: readonly string[];
  /** Who has the slot, by group. */
  readonly holders: Map<string, string>;
  fault: LockFault | undefined;
  stop(): Promise<void>;
}

/** @param tls in PEM; without it the server has no TLS */
export async function startFleetLockServer(tls?: {
  readonly certificate: string;
  readonly key: string;
}): Promise<FleetLockServer> {
  const requests: string[] = [];
  const holders = new Map<string, string>();
  const onRequest = (request: IncomingMessage, response: ServerResponse) => void answer(request, response);
  const server =
    tls === undefined ? createServer(onRequest) : createTlsServer({ cert: tls.certificate, key: tls.key }, onRequest);

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const [, operation = ''] = /^\/base\/v1\/(pre-reboot|steady-state)$/.exec(request.url ?? '') ?? [];
    requests.push(operation);
    if (one.fault !== undefined) return one.fault(response);
    const refuse = (status: number, kind: string, value: string) => respondJson(response, status, { kind, value });
    if (operation === '' || request.method !== 'POST') return refuse(404, 'not_found', 'no such operation');
    if (request.headers['fleet-lock-protocol'] !== 'true') return refuse(400, 'no_header', 'not meant for this server');
    const body = v.safeParse(requestBody, await json(request).catch(() => undefined));
    if (!body.success) return refuse(400, 'invalid_client_identity', 'the body is malformed');
    const { id, group } = body.output.client_params;
    const holder = holders.get(group);
    if (operation === 'steady-state') {
      if (holder === id) holders.delete(group);
    } else if (holder !== undefined && holder !== id) {
      return refuse(409, 'failed_lock_semaphore_full', 'semaphore currently full, all slots are locked already');
    } else holders.set(group, id);
    response.writeHead(200).end();
  }

  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const one: FleetLockServer = {
    url: `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${(server.address() as AddressInfo).port}/base`,
    requests,
    holders,
    fault: undefined,
    stop: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
  return one;
}
