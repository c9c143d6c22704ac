import { join } from 'node:path';
import { type Endpoint, FLEET_PORT, formatEndpoint, parseEndpoint } from '../../domain/settings/value-types.ts';
import { reasonOf } from '../../platform/app-error.ts';
import { withEither } from '../../platform/async/abort.ts';
import type { Clock } from '../../platform/clock.ts';
import { readIfPresent, replaceFile } from '../../platform/files/durable-file.ts';
import type { Log } from '../../platform/log.ts';
import { type Listeners, listen, notifyAll, type Unsubscribe } from '../../platform/subscription.ts';
import { type Cluster, createTrouble, type Trouble, USUAL_MS } from '../trouble.ts';
import type { NodeServer } from './node-server.ts';

/** The port for other nodes. */
export interface Listening {
  /** Undefined while other nodes can't reach this one. */
  endpoint(): Endpoint | undefined;
  /** The port was opened, or could not be, since the start. */
  wasTried(): boolean;
  onChange(listener: () => void): Unsubscribe;
  /** Follows changes of the address. Never throws. */
  run(signal: AbortSignal): Promise<void>;
}

export interface ListeningOptions {
  /** `fleet.listen`. */
  readonly setting: string;
  readonly cluster: Pick<Cluster, 'address' | 'onChange'>;
  /** Keeps the last address, for a start without an API server. */
  readonly stateDir: string;
  readonly serve: (endpoint: Endpoint) => Promise<NodeServer>;
  readonly clock: Clock;
  readonly log: Log;
}

/** An address may come after the process, as at boot. */
const AGAIN_MS = 5_000;

interface Port extends ListeningOptions {
  readonly listeners: Listeners;
  readonly file: string;
  server?: NodeServer | undefined;
  /** As requested for `server`. */
  wanted?: string | undefined;
  readonly unknown: Trouble;
  wasTried: boolean;
  /** Was logged last. */
  logged?: string | undefined;
}

export function createListening(options: ListeningOptions): Listening {
  const { log, clock, stateDir } = options;
  const port: Port = {
    ...options,
    listeners: new Set(),
    unknown: createTrouble(log, { clock, forMs: USUAL_MS }),
    wasTried: false,
    file: join(stateDir, 'address'),
  };
  return {
    endpoint: () => port.server?.endpoint,
    wasTried: () => port.wasTried,
    onChange: (listener) => listen(port.listeners, listener),
    run: (signal) => run(port, signal),
  };
}

async function run(port: Port, signal: AbortSignal): Promise<void> {
  let changed = new AbortController();
  const unsubscribe = port.cluster.onChange(() => changed.abort());
  while (!signal.aborted) {
    changed = new AbortController();
    const address = await ownAddress(port, signal);
    if (address === undefined) {
      port.unknown.begin('The address of this node is not known, so other nodes get nothing; fleet.listen can name it');
    } else if (address !== port.wanted) await move(port, address, signal);
    await withEither([signal, changed.signal], (either) => port.clock.sleep(AGAIN_MS, either)).catch(() => undefined);
  }
  unsubscribe();
  await port.server?.close();
}

async function move(port: Port, address: string, signal: AbortSignal): Promise<void> {
  const endpoint = parseEndpoint(address, FLEET_PORT);
  if (endpoint === undefined) return;
  await port.server?.close();
  port.server = undefined;
  port.wanted = undefined;
  try {
    port.server = await port.serve(endpoint);
    port.wanted = address;
    port.logged = undefined;
    port.unknown.end('The address of this node is known');
    port.log.info({ address }, `Other nodes reach this one on ${formatEndpoint(port.server.endpoint)}`);
    if (port.setting === 'auto') await replaceFile({ path: port.file, mode: 0o600 }, `${address}\n`, signal);
  } catch (error) {
    if (!signal.aborted) logOnce(port, `Other nodes can't reach this one: ${reasonOf(error)}`);
  }
  port.wasTried = true;
  notifyAll(port.listeners);
}

/** Without an API server: the last address. */
async function ownAddress({ setting, cluster, file }: Port, signal: AbortSignal): Promise<string | undefined> {
  if (setting !== 'auto') return setting;
  const known = cluster.address();
  if (known !== undefined) return known;
  if (signal.aborted) return undefined;
  const text = await readIfPresent(file).catch(() => undefined);
  const last = text?.trim() ?? '';
  return parseEndpoint(last, FLEET_PORT) === undefined ? undefined : last;
}

function logOnce(port: Port, message: string): void {
  if (port.logged !== message) port.log.warn({}, message);
  port.logged = message;
}
