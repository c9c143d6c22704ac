import type { IncomingMessage, ServerResponse } from 'node:http';
import type { NodeStatus } from '../../domain/fleet/node-status.ts';
import { reasonOf } from '../../platform/app-error.ts';
import type { Clock } from '../../platform/clock.ts';
import { defined } from '../../platform/defined.ts';
import { closeSignal, respondJson } from '../../platform/http.ts';
import type { Log } from '../../platform/log.ts';
import { Trouble } from '../trouble.ts';
import type { OffersClient, Watched, WatchOptions } from '../wire/client.ts';
import type { WireConnection } from '../wire/connection.ts';
import { type OffersDocument, parseWirePath, respondBusy } from '../wire/documents.ts';
import { Poller } from '../wire/poller.ts';
import { answerSafely, relay, sendWatched } from '../wire/server.ts';
import type { Pace, ServedNodes } from './served-nodes.ts';

interface OwnOffersOptions {
  readonly client: Pick<OffersClient, 'offers'>;
  readonly self: () => string;
  readonly status: () => NodeStatus | undefined;
  readonly clock: Clock;
  readonly log: Log;
}

/** The offers of the own daemon. */
export class OwnOffers extends Poller<OffersDocument> {
  private readonly away: Trouble;
  private offered: OffersDocument['bundles'] = [];
  private isAnswered = false;

  constructor(private readonly options: OwnOffersOptions) {
    super(options.clock);
    this.away = new Trouble(options.log, options.clock);
  }

  /** Nothing while the daemon does not answer. */
  bundles(): OffersDocument['bundles'] {
    return this.offered;
  }

  /** Other nodes receive it with the name and the status of this node. */
  document(): OffersDocument {
    const node = defined({ name: this.options.self(), status: this.options.status() });
    return { version: 1, bundles: this.offered, node };
  }

  /** Since the start. */
  hasAnswered(): boolean {
    return this.isAnswered;
  }

  isDaemonAway(): boolean {
    return this.away.current() !== undefined;
  }

  protected request(watch: WatchOptions, signal: AbortSignal): Promise<Watched<OffersDocument> | undefined> {
    return this.options.client.offers(watch, signal);
  }

  protected answered(document: OffersDocument | undefined): void {
    const isBack = this.away.end('The daemon answers again: other nodes get its bundles');
    const isFirst = !this.isAnswered;
    this.isAnswered = true;
    this.update(document?.bundles ?? this.offered, isBack || isFirst);
  }

  protected failed(error: unknown): void {
    const isBegin = !this.isDaemonAway();
    this.away.begin(`Other nodes get nothing from this one: ${reasonOf(error)}. See systemctl status stickpin`, error);
    this.update([], isBegin);
  }

  private update(bundles: OffersDocument['bundles'], isNews: boolean): void {
    const isSame = JSON.stringify(bundles) === JSON.stringify(this.offered);
    this.offered = bundles;
    if (!isSame || isNews) this.notify();
  }
}

export interface AnswerOptions {
  readonly own: OwnOffers;
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
  const { own, pace } = options;
  const path = request.url ?? '';
  const route = parseWirePath(path);
  const signal = closeSignal(response);
  const onBytes = (count: number) => pace.take(count, signal);
  await answerSafely(request, response, options.log, async () => {
    switch (route.kind) {
      case 'unknown':
        return respondJson(response, 404, { error: 'this is not offered here' });
      case 'offers':
        return sendWatched(request, response, {
          clock: options.clock,
          document: { current: async () => own.document(), onChange: (listener) => own.onChange(listener) },
          onBytes,
        });
      case 'blob':
        if (request.method === 'GET') return sendBlob(node, request, response, options);
        return relay(request, response, { connection: options.daemon, path });
      default:
        return relay(request, response, { connection: options.daemon, path }, onBytes);
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
    return relay(request, response, { connection: daemon, path }, (count) => pace.take(count, signal));
  }
  const granted = nodes.request(node);
  if ('busy' in granted) return respondBusy(response, granted.busy);
  const { turn } = granted;
  try {
    await relay(request, response, { connection: daemon, path }, async (count) => {
      if (turn.isTooSlow()) response.destroy();
      turn.add(count);
      await pace.take(count, signal);
    });
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
