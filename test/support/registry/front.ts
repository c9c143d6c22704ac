import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';

interface FrontRequest {
  readonly method: string;
  readonly path: string;
  readonly range: string | undefined;
  readonly hasLogin: boolean;
  status: number;
  /** Of the bodies. */
  receivedBytes: number;
  sentBytes: number;
}

type Meddle = (request: FrontRequest, response: ServerResponse) => 'answered' | { readonly cutAt: number } | undefined;

/** A proxy before a registry, as many sites have, that counts and may fail. */
export interface Front {
  readonly host: string;
  readonly requests: FrontRequest[];
  /** What it does with the next requests. */
  meddle: Meddle;
  /** Of all answers together; undefined: no limit. */
  bytesPerSecond: number | undefined;
  close(): Promise<void>;
}

/** @param tls in PEM; without it the front has no TLS */
export async function startFront(
  behind: string,
  tls?: { readonly key: string; readonly cert: string },
): Promise<Front> {
  const requests: FrontRequest[] = [];
  let freeAtMs = 0;
  /** As a slow link. */
  const slowDown = (answer: IncomingMessage, sizeBytes: number) => {
    if (front.bytesPerSecond === undefined) return;
    const now = performance.now();
    freeAtMs = Math.max(freeAtMs, now) + (1_000 * sizeBytes) / front.bytesPerSecond;
    answer.pause();
    setTimeout(() => answer.resume(), freeAtMs - now);
  };
  const onRequest = (incoming: IncomingMessage, response: ServerResponse) => {
    const { method = '', url: path = '', headers } = incoming;
    const hasLogin = headers.authorization !== undefined;
    const found = { method, path, range: headers.range, hasLogin, status: 0, receivedBytes: 0, sentBytes: 0 };
    requests.push(found);
    const how = front.meddle(found, response);
    if (how === 'answered') return;
    const [host, port] = behind.split(':');
    const outgoing = request({ host, port, method, path, headers: { ...headers, 'x-forwarded-proto': 'https' } });
    incoming.on('data', (chunk: Buffer) => {
      found.receivedBytes += chunk.length;
    });
    incoming.pipe(outgoing);
    outgoing.on('error', () => response.destroy());
    outgoing.on('response', (answer) => {
      found.status = answer.statusCode ?? 0;
      response.writeHead(found.status, answer.headers);
      answer.on('data', (chunk: Buffer) => {
        const left = (how?.cutAt ?? Number.POSITIVE_INFINITY) - found.sentBytes;
        const part = chunk.subarray(0, Math.max(0, left));
        found.sentBytes += part.length;
        slowDown(answer, part.length);
        response.write(part, () => {
          if (found.sentBytes >= (how?.cutAt ?? Number.POSITIVE_INFINITY)) response.destroy();
        });
      });
      answer.on('end', () => response.end());
    });
  };
  const server = tls === undefined ? createServer(onRequest) : createTlsServer(tls, onRequest);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const front: Front = {
    host: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    meddle: () => undefined,
    bytesPerSecond: undefined,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
  return front;
}
