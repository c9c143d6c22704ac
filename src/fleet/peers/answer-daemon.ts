import type { IncomingMessage, ServerResponse } from 'node:http';
import { parsePeerPath, parseWirePath, wirePaths } from '../../offers/paths.ts';
import { answerSafely } from '../../offers/server/handler.ts';
import { relay } from '../../offers/server/relay.ts';
import { sendWatched, type WatchedDocument } from '../../offers/watched-document.ts';
import type { Clock } from '../../platform/clock.ts';
import { respondJson } from '../../platform/http/respond-json.ts';
import type { Log } from '../../platform/log.ts';
import type { KnownPeer } from './peer.ts';
import type { Peers } from './peers.ts';

/** What answers to the daemon need. */
export interface DaemonAnswers {
  readonly fleet: WatchedDocument;
  readonly peers: Pick<Peers, 'find' | 'failed'>;
  readonly clock: Clock;
  readonly log: Log;
}

/** Answers a request on `peers.sock`. Never rejects. */
export async function answerDaemon(
  request: IncomingMessage,
  response: ServerResponse,
  { fleet, peers, clock, log }: DaemonAnswers,
): Promise<void> {
  const [target = ''] = (request.url ?? '').split('?', 1);
  await answerSafely(request, response, log, async () => {
    if (target === wirePaths.fleet) return sendWatched(request, response, { document: fleet, clock });
    const asked = parsePeerPath(target);
    const peer = asked && peers.find(asked.peer);
    if (asked === undefined || peer === undefined || parseWirePath(asked.path).kind === 'unknown') {
      return respondJson(response, 404, { error: 'there is no such peer, or it is not asked for that' });
    }
    await passOn(request, response, { peer, path: asked.path, peers });
  });
}

async function passOn(
  request: IncomingMessage,
  response: ServerResponse,
  { peer, path, peers }: { readonly peer: KnownPeer; readonly path: string } & Pick<DaemonAnswers, 'peers'>,
): Promise<void> {
  try {
    await relay(request, response, { connection: peer.connection, path });
  } catch (error) {
    if (!response.destroyed) peers.failed(peer, error);
    throw error;
  }
}
