import type { IncomingMessage, ServerResponse } from 'node:http';
import { parseReference } from '../../domain/model/reference.ts';
import type { Settings } from '../../domain/settings/settings.ts';
import { withDeadline } from '../../platform/async/abort.ts';
import type { Clock } from '../../platform/clock.ts';
import { defined } from '../../platform/defined.ts';
import { closeSignal, respondJson } from '../../platform/http.ts';
import type { Log } from '../../platform/log.ts';
import { Observable } from '../../platform/subscription.ts';
import { Pace } from '../serve/served-nodes.ts';
import { type FleetDocument, parsePeerPath, wirePaths } from '../wire/documents.ts';
import { answerSafely, createOffersHandler, type OffersHandler, sendWatched } from '../wire/server.ts';
import { Source } from './source.ts';

interface SourcesOptions {
  readonly settings: Settings;
  readonly clock: Clock;
  readonly log: Log;
  readonly random: () => number;
}

/** How long a person waits for it. */
const LOOK_MS = 20_000;

/** All sources of this node, each as a peer that offers a bundle to the daemon. */
export class Sources extends Observable {
  private readonly handlers: ReadonlyMap<string, OffersHandler>;
  private readonly list: readonly Source[];

  constructor(private readonly options: SourcesOptions) {
    super();
    const { settings, clock, log, random } = options;
    const zone = settings.update.time_zone;
    const byReference = new Map(
      Object.values(settings.sources).flatMap((one) => (one?.reference === undefined ? [] : [[one.reference, one]])),
    );
    this.list = [...byReference].map(([reference, one]) => {
      return new Source({
        reference,
        settings: one,
        zone,
        pace: new Pace(one.rate ?? 'unlimited', clock),
        clock,
        random,
      });
    });
    for (const source of this.list) source.onChange(() => this.changed(source));
    this.handlers = new Map(this.list.map((source) => [source.name, createOffersHandler(source, clock, log)]));
  }

  /** Until `signal` aborts. Never throws. */
  async run(signal: AbortSignal): Promise<void> {
    await Promise.all(this.list.map((source) => source.run(signal)));
  }

  /** `STATUS=` */
  statusLine(): string {
    const parts = this.list.map((source) => {
      const [bundle] = source.bundles();
      const offered = bundle === undefined ? 'nothing yet' : `${bundle.name} ${bundle.version}`;
      const trouble = source.trouble();
      return `${source.name}: ${offered}${trouble === undefined ? '' : ` (${trouble})`}`;
    });
    return `${parts.join('; ')}.`;
  }

  /** Answers the daemon, in the form of `peers.sock`. Never rejects. */
  async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { clock, log } = this.options;
    const [target = ''] = (request.url ?? '').split('?', 1);
    if (target === wirePaths.fleet) {
      return answerSafely(request, response, log, async () => {
        if (request.headers['cache-control'] === 'no-cache') await this.look(closeSignal(response));
        const document = {
          current: async () => this.document(),
          onChange: (listener: () => void) => this.onChange(listener),
        };
        await sendWatched(request, response, { document, clock });
      });
    }
    const wanted = parsePeerPath(target);
    const handle = wanted && this.handlers.get(wanted.peer);
    if (wanted === undefined || handle === undefined)
      return respondJson(response, 404, { error: 'there is no such source' });
    return handle(request, response, wanted.path);
  }

  private async look(signal: AbortSignal): Promise<void> {
    const work = (inner: AbortSignal) => Promise.all(this.list.map((source) => source.look(inner)));
    await withDeadline('a registry', LOOK_MS, signal, work).catch(() => undefined); // the next visit says it
  }

  private changed(source: Source): void {
    const trouble = source.trouble();
    const [bundle] = source.bundles();
    if (trouble !== undefined) this.options.log.warn({}, `${trouble}; it is tried again`);
    else if (bundle !== undefined) this.options.log.info({}, `${source.name} is ${bundle.name} ${bundle.version}`);
    this.notify();
  }

  private document(): FleetDocument {
    const peers = this.list.map((source) => {
      const { name } = source;
      const address = parseReference(name).registry;
      return defined({ name, address, bundles: source.bundles(), trouble: source.trouble() });
    });
    return { version: 1, self: 'this node', nodes: [], peers };
  }
}
