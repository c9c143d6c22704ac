import type { IncomingMessage, ServerResponse } from 'node:http';
import { respondBusy } from '../../offers/busy.ts';
import { sendWatched } from '../../offers/client/fleet-watch.ts';
import type { WireConnection } from '../../offers/client/wire-connection.ts';
import { parseWirePath } from '../../offers/documents.ts';
import { answerSafely, relay } from '../../offers/server/handler.ts';
import type { Clock } from '../../platform/clock.ts';
import { closeSignal, respondJson } from '../../platform/http.ts';
import type { Log } from '../../platform/log.ts';
import type { OwnOffers } from './own-offers.ts';
import type { Pace } from './pace.ts';
import type { ServedNodes } from './served-nodes.ts';

export interface AnswerOptions {
  readonly own: Pick<OwnOffers, 'document' | 'onChange'>;
  readonly daemon: WireConnection;
  readonly nodes: ServedNodes;
  readonly pace: Pace;
  readonly clock: Clock;
  readonly log: Log;
}

/** Manifests and configs of images seldom have more than 100 KiB. */
const SMALL_BYTES = 256 * 1024;

/**
 * Answers offers itself and everything else through the daemon. Large blobs take a turn. Never
 * rejects.
 *
 * @param node its Node, or its address without authentication
 */
export async function answerNode(
  node: string,
  request: IncomingMessage,
  response: ServerResponse,
  options: AnswerOptions,
): Promise<void> {
  const path = request.url ?? '';
  const route = parseWirePath(path);
  await answerSafely(request, response, options.log, async () => {
    switch (route.kind) {
      case 'unknown':
        return respondJson(response, 404, { error: 'this is not offered here' });
      case 'offers':
        return sendWatched(request, response, {
          clock: options.clock,
          document: { current: async () => options.own.document(), onChange: options.own.onChange },
        });
      case 'blob':
        if (request.method === 'GET') return sendBlob(node, request, response, options);
        return relay(request, response, { connection: options.daemon, path });
      default:
        return relay(request, response, { connection: options.daemon, path });
    }
  });
}

async function sendBlob(
  node: string,
  request: IncomingMessage,
  response: ServerResponse,
  { nodes, pace, daemon }: AnswerOptions,
): Promise<void> {
  const path = request.url ?? '';
  const signal = closeSignal(response);
  if (await isSmall(daemon, path, signal)) {
    const onBytes = (count: number) => pace.take(count, signal);
    return relay(request, response, { connection: daemon, path }, { onBytes });
  }
  const asked = nodes.ask(node);
  if ('busy' in asked) return respondBusy(response, asked.busy);
  const { turn } = asked;
  try {
    await relay(
      request,
      response,
      { connection: daemon, path },
      {
        onBytes: async (count) => {
          if (turn.isTooSlow()) response.destroy();
          await turn.add(count, signal);
          await pace.take(count, signal);
        },
      },
    );
  } finally {
    turn.end();
  }
}

/** A manifest or a config, by its size: judging a bundle needs only those. */
async function isSmall(daemon: WireConnection, path: string, signal: AbortSignal): Promise<boolean> {
  const head = await daemon.open({ path, method: 'HEAD' }, signal);
  head.resume();
  const length = head.headers['content-length'];
  return head.statusCode !== 200 || (length !== undefined && Number(length) <= SMALL_BYTES);
}
