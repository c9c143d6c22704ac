import { once } from 'node:events';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { Agent, get, type IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { type Endpoint, formatEndpoint } from '../../../../src/domain/settings/addresses.ts';
import { NodePort, serveNodes } from '../../../../src/fleet/serve/node-port.ts';
import { WarnOnce } from '../../../../src/fleet/trouble.ts';
import { type Clock, systemClock } from '../../../../src/platform/clock.ts';
import { silentLog } from '../../../../src/platform/log.ts';
import { type Listeners, listen, notifyAll } from '../../../../src/platform/subscription.ts';
import { eventually } from '../../../support/eventually.ts';
import { folderForAll } from '../../../support/files/temporary-folder.ts';
import { fastClock } from '../../../support/kubernetes/fast-clock.ts';
import { createRecordingLog } from '../../../support/recording-log.ts';

const stateDir = folderForAll();
const file = join(stateDir, 'address');
afterEach(() => rmSync(file, { force: true }));

function scene(setting: string, first: string | undefined, clock: Clock = systemClock) {
  const listeners: Listeners = new Set();
  const opened: string[] = [];
  const closed: string[] = [];
  const log = createRecordingLog();
  let address = first;
  const stop = new AbortController();
  const faulty = new Set<string>();
  const serve = async (endpoint: Endpoint) => {
    const text = formatEndpoint(endpoint);
    opened.push(text);
    if (faulty.has(endpoint.host)) throw new Error(`${text} can't be listened on`);
    return { endpoint, close: async () => void closed.push(text) };
  };
  let asked = 0;
  const cluster = {
    address: () => {
      asked += 1;
      return address;
    },
    onChange: (listener: () => void) => listen(listeners, listener),
  };
  const listening = new NodePort({ setting, cluster, stateDir, serve, clock, log });
  const running = listening.run(stop.signal);
  return {
    listening,
    opened,
    closed,
    log,
    faulty,
    asked: () => asked,
    move: (to: string) => {
      address = to;
      notifyAll(listeners);
    },
    end: async () => {
      stop.abort();
      await running;
    },
  };
}

it('listens on the address of the own Node, follows it, and keeps it for the next start', async () => {
  const { listening, opened, closed, move, end } = scene('auto', '10.0.0.1');
  await eventually(() => expect(listening.endpoint()).toEqual({ host: '10.0.0.1', port: 9777 }));
  move('10.0.0.2');
  await eventually(() => expect(opened).toEqual(['10.0.0.1:9777', '10.0.0.2:9777']));
  expect(closed).toEqual(['10.0.0.1:9777']);
  await eventually(() => expect(readFileSync(file, 'utf8')).toBe('10.0.0.2\n'));
  await end();
  const later = scene('auto', undefined);
  await eventually(() => expect(later.opened).toEqual(['10.0.0.2:9777']));
  await later.end();
  expect(later.closed).toEqual(['10.0.0.2:9777']);
});

it.each([undefined, '', 'nowhere', '0.0.0.0.0'])('listens nowhere while no address is known: %s', async (kept) => {
  if (kept !== undefined) writeFileSync(file, kept);
  const { opened, log, end } = scene('auto', undefined, fastClock(1_000));
  await eventually(() => expect(log.lines.length).toBe(1));
  expect(log.lines[0]).toMatchObject({
    level: 'warn',
    message: 'The address of this node is not known, so other nodes get nothing; fleet.listen can name it',
  });
  await end();
  expect(opened).toEqual([]);
});

it('listens where the setting says, and keeps nothing', async () => {
  const { opened, end } = scene('10.9.9.9:1234', '10.0.0.1');
  await eventually(() => expect(opened).toEqual(['10.9.9.9:1234']));
  await end();
  expect(() => readFileSync(file)).toThrow(/ENOENT/);
});

it('says nothing of an address that is known a moment after the start', async () => {
  const { log, asked, move, opened, end } = scene('auto', undefined);
  await eventually(() => expect(asked()).toBe(1));
  move('10.0.0.1');
  await eventually(() => expect(opened).toEqual(['10.0.0.1:9777']));
  await end();
  expect(log.lines.map(({ level }) => level)).toEqual(['info']);
});

it('listens again where it did before, after an address that could not be listened on', async () => {
  const { listening, opened, faulty, move, end } = scene('auto', '10.0.0.1');
  await eventually(() => expect(opened).toEqual(['10.0.0.1:9777']));
  faulty.add('10.0.0.2');
  move('10.0.0.2');
  await eventually(() => expect(opened).toEqual(['10.0.0.1:9777', '10.0.0.2:9777']));
  await eventually(() => expect(listening.endpoint()).toBeUndefined());
  move('10.0.0.1');
  await eventually(() => expect(opened).toEqual(['10.0.0.1:9777', '10.0.0.2:9777', '10.0.0.1:9777']));
  await eventually(() => expect(listening.endpoint()?.host).toBe('10.0.0.1'));
  await end();
});

it.each([
  ['/v1/offers', {}, 'close'],
  ['/v1/offers?news', {}, 'close'],
  ['/v1/offers', { prefer: 'wait=30' }, 'keep-alive'],
  ['/v1/blobs/sha256:0', {}, 'keep-alive'],
])('keeps connections for transfers and long polls only: %s %o %s', async (path, headers, connection) => {
  const server = await serveNodes({
    endpoint: { host: '127.0.0.1', port: 0 },
    identity: undefined,
    answer: async (_caller, _request, response) => void response.end('{}'),
    clock: systemClock,
    warnings: new WarnOnce(silentLog, systemClock),
  });
  const agent = new Agent({ keepAlive: true });
  const [response]: IncomingMessage[] = await once(get({ ...server.endpoint, path, headers, agent }), 'response');
  expect(response?.resume().headers.connection).toBe(connection);
  agent.destroy();
  await server.close();
});
