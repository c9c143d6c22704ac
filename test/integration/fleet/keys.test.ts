import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { connect, type TLSSocket } from 'node:tls';
import { afterEach, beforeAll, expect, it } from 'vitest';
import type { FleetView } from '../../../src/domain/fleet/node-status.ts';
import type { StatusReport } from '../../../src/domain/report/status-schema.ts';
import { byKeys, ownKeyLine } from '../../../src/fleet/identity/node-keys.ts';
import { OffersClient } from '../../../src/fleet/wire/client.ts';
import { unixSocket, WireConnection } from '../../../src/fleet/wire/connection.ts';
import { createOffersHandler, type SocketServer, serveSocket } from '../../../src/fleet/wire/server.ts';
import { NEVER_ABORTED } from '../../../src/platform/async/abort.ts';
import { systemClock } from '../../../src/platform/clock.ts';
import { silentLog } from '../../../src/platform/log.ts';
import { bundleIntoCache } from '../../support/bundles/bundle-program.ts';
import { makeSampleBundle, ocpImages, sampleKey } from '../../support/bundles/sample-bundle.ts';
import { createDaemonHarness, type DaemonHarness } from '../../support/daemon/daemon-harness.ts';
import { endProcess } from '../../support/end-process.ts';
import { eventually } from '../../support/eventually.ts';
import { folderForEach } from '../../support/files/temporary-folder.ts';
import { createMemoryOffers } from '../../support/fleet/memory-offers.ts';
import { freePort } from '../../support/free-port.ts';

let program: string;
const base = folderForEach();
const started: ChildProcess[] = [];
const daemons: SocketServer[] = [];
const harnesses: DaemonHarness[] = [];

beforeAll(async () => {
  program = await bundleIntoCache('src/fleet.ts', 'fleet');
});
afterEach(async () => {
  for (const child of started.splice(0)) await endProcess(child, 'SIGKILL');
  for (const daemon of daemons.splice(0)) await daemon.close();
  for (const harness of harnesses.splice(0)) await harness.dispose();
});

interface Node {
  readonly port: number;
  readonly stateDir: string;
  readonly log: string[];
  readonly settings: string;
  start(): void;
  kill(): Promise<void>;
  view(): Promise<FleetView | undefined>;
}

interface NodeOptions {
  readonly port: number;
  readonly peers: readonly number[];
  /** Default: the one that all nodes have. */
  readonly keysFile?: string;
  readonly paths?: { readonly run_dir: string; readonly state_dir: string };
}

const listAt = () => join(base, 'fleet.keys');
const list = (...lines: readonly string[]) => writeFileSync(listAt(), `# all nodes\n\n${lines.join('\n')}\n`);

/** The real fleet process. Without `paths` its daemon has nothing but an empty list of offers. */
async function node(name: string, { port, peers, paths, keysFile = listAt() }: NodeOptions): Promise<Node> {
  const { run_dir, state_dir } = paths ?? { run_dir: join(base, name, 'run'), state_dir: join(base, name, 'state') };
  for (const folder of [run_dir, state_dir]) mkdirSync(folder, { recursive: true });
  if (paths === undefined) {
    const handle = createOffersHandler(createMemoryOffers(), systemClock, silentLog);
    daemons.push(await serveSocket(join(run_dir, 'offers.sock'), handle));
  }
  const settings = join(base, `${name}.toml`);
  const others = peers.map((one) => `"127.0.0.1:${one}"`).join(', ');
  writeFileSync(
    settings,
    `[paths]\nrun_dir = "${run_dir}"\nstate_dir = "${state_dir}"\n[fleet]\nenabled = true\nauth = "keys"\nkeys_file = "${keysFile}"\nlisten = "127.0.0.1:${port}"\npeers = [${others}]\n`,
  );
  const log: string[] = [];
  let child: ChildProcess | undefined;
  return {
    port,
    stateDir: `${state_dir}-fleet`,
    log,
    settings,
    start: () => {
      child = spawn(process.execPath, [program, '--config', settings], { stdio: ['ignore', 'pipe', 'pipe'] });
      started.push(child);
      for (const stream of [child.stdout, child.stderr]) stream?.on('data', (chunk) => log.push(String(chunk)));
    },
    kill: () => endProcess(child, 'SIGKILL'),
    view: async () => {
      const connection = new WireConnection({ who: 'it', connect: unixSocket(join(`${run_dir}-fleet`, 'peers.sock')) });
      try {
        return (await new OffersClient(connection).fleet({}, NEVER_ABORTED))?.document;
      } finally {
        connection.close();
      }
    },
  };
}

/** Waits for the key of a node. @returns its line */
async function lineOf({ stateDir }: Node, name: string): Promise<string> {
  await eventually(() => expect(existsSync(join(stateDir, 'key.pem'))).toBe(true), 30_000);
  const line = await ownKeyLine({ keys_file: '/nonexistent', exclude: [] }, stateDir);
  return `${line.split(' ', 1)[0]} ${name}`;
}

async function pair(first: Partial<NodeOptions> = {}, second: Partial<NodeOptions> = {}) {
  const ports = [await freePort(), await freePort()] as const;
  // Both have the same settings, as written for three hosts at once.
  const one = await node('one', { port: ports[0], peers: ports, ...first });
  const two = await node('two', { port: ports[1], peers: ports, ...second });
  for (const each of [one, two]) each.start();
  const lines = [await lineOf(one, 'host-1'), await lineOf(two, 'host-2')] as const;
  return { one, two, lines };
}

const answers = async (at: Node, name: string) => {
  const view = await at.view();
  expect(view?.peers).toContainEqual(expect.objectContaining({ name, certificate: expect.any(String) }));
  expect(view?.peers.find((peer) => peer.name === name)?.trouble).toBeUndefined();
};
const refuses = async (at: Node, name: string) => {
  const peers = (await at.view())?.peers;
  expect(peers?.some((peer) => peer.name === name && peer.trouble === undefined)).toBe(false);
};

/** A connection with the key in a folder of state. */
async function call(
  port: number,
  stateDir: string,
  signed: string,
): Promise<{ socket: TLSSocket; text: () => string }> {
  const other = join(base, 'call.keys');
  writeFileSync(other, `${signed}\n`);
  const read = await byKeys({ keys_file: other, exclude: [] }, stateDir, silentLog).read(NEVER_ABORTED);
  if ('refusal' in read) throw read.refusal;
  const { cert, key } = read.identity.options;
  const socket = connect({ host: '127.0.0.1', port, cert, key, rejectUnauthorized: false });
  let text = '';
  socket.on('data', (bytes: Buffer) => {
    text += bytes;
  });
  socket.on('error', () => undefined);
  await once(socket, 'secureConnect');
  return { socket, text: () => text };
}

const GET = 'GET /v1/offers HTTP/1.1\r\nHost: x\r\n\r\n';

it('makes a key, says what is missing, and serves as soon as the list has both nodes', async () => {
  const { one, two, lines } = await pair();
  expect(statSync(join(one.stateDir, 'key.pem')).mode & 0o777).toBe(0o600);
  await eventually(
    () => expect(one.log.join('')).toContain(`it needs the line '${lines[0].split(' ', 1)[0]} `),
    20_000,
  );
  await eventually(async () => expect((await one.view())?.peers).toHaveLength(2));
  expect((await one.view())?.peers.filter(({ trouble }) => trouble === undefined)).toEqual([]);
  list(...lines);
  await eventually(() => answers(one, 'host-2'), 60_000);
  await eventually(() => answers(two, 'host-1'), 60_000);
  const view = await one.view();
  expect(view?.self).toBe('host-1');
  expect(view?.nodes.map(({ name }) => name)).toEqual(['host-1', 'host-2']);
  expect(view?.apiTrouble).toBe('It is not used with fleet.auth = "keys".');
  expect(await ownKeyLine({ keys_file: listAt(), exclude: [] }, one.stateDir)).toBe(lines[0]);
}, 150_000);

it('refuses a key that is not listed, clear text, and one that was removed, also on open connections', async () => {
  const { one, two, lines } = await pair();
  const stranger = join(base, 'stranger');
  await byKeys({ keys_file: '/nonexistent', exclude: [] }, stranger, silentLog)
    .read(NEVER_ABORTED)
    .catch(() => undefined);
  const strange = await ownKeyLine({ keys_file: '/nonexistent', exclude: [] }, stranger);
  list(...lines);
  await eventually(() => answers(one, 'host-2'), 60_000);
  // It lists itself as host-2, which is nothing to others.
  const liar = await call(one.port, stranger, `${strange.split(' ', 1)[0]} host-2`);
  liar.socket.write(GET);
  await once(liar.socket, 'close');
  expect(liar.text()).toBe('');
  await eventually(() => expect(one.log.join('')).toContain('which fleet.keys_file does not list'));
  const plain = await new Promise((resolve) => {
    const asked = request({ host: '127.0.0.1', port: one.port, path: '/v1/offers', agent: false }, resolve);
    asked.on('error', resolve).end();
  });
  expect(plain).toBeInstanceOf(Error);
  const nobody = connect({ host: '127.0.0.1', port: one.port, rejectUnauthorized: false }).on('error', () => undefined);
  const unsigned: Buffer[] = [];
  nobody.on('data', (bytes: Buffer) => unsigned.push(bytes));
  nobody.write(GET);
  await once(nobody, 'close');
  expect(unsigned).toEqual([]);

  const open = await call(one.port, two.stateDir, lines[1]);
  open.socket.write('GET /v1/blobs/sha256:00 HTTP/1.1\r\nHost: x\r\n\r\n');
  await eventually(() => expect(open.text()).toContain('HTTP/1.1 4'));
  const closed = once(open.socket, 'close');
  list(lines[0]);
  // Without a further request: as for a transfer that goes on.
  await closed;
  await eventually(() => refuses(one, 'host-2'), 60_000);
  const late = await call(one.port, two.stateDir, lines[1]);
  late.socket.write(GET);
  await once(late.socket, 'close');
  expect(late.text()).toBe('');

  // A list without the node that reads it: no key counts there any more.
  list(...lines);
  await eventually(() => answers(one, 'host-2'), 60_000);
  list(lines[1]);
  await eventually(() => expect(one.log.join('')).toContain('does not list this node'), 30_000);
  await eventually(() => refuses(one, 'host-2'), 60_000);
  const last = await call(one.port, two.stateDir, lines[1]).catch(() => undefined);
  last?.socket.write(GET);
  if (last !== undefined) await once(last.socket, 'close');
  expect(last?.text() ?? '').toBe('');
}, 240_000);

it('names a node by the list of the node that it talks to, whatever it says itself', async () => {
  const own = join(base, 'liar.keys');
  const { one, two, lines } = await pair({}, { keysFile: own });
  list(...lines, `sha256:${'0'.repeat(64)} host-3`);
  writeFileSync(own, `${lines[0]}\n${lines[1].replace('host-2', 'host-3')}\n`);
  await eventually(async () => expect((await two.view())?.self).toBe('host-3'), 30_000);
  await eventually(() => answers(one, 'host-2'), 60_000);
  await refuses(one, 'host-3');
}, 150_000);

it('keeps the list that was good while a new one is wrong, or others may write it', async () => {
  const { one, lines } = await pair();
  const all = [...lines, `sha256:${'0'.repeat(64)} host-3`];
  list(...all);
  await eventually(() => answers(one, 'host-2'), 60_000);
  list(...all, `${lines[0].split(' ', 1)[0]} host-2`);
  await eventually(() => expect(one.log.join('')).toContain('gives host-2 the key of host-1'), 30_000);
  list(...all);
  chmodSync(listAt(), 0o666);
  await eventually(() => expect(one.log.join('')).toContain('others than root may write it'), 30_000);
  await answers(one, 'host-2');
  const { keys } = (await one.view()) ?? {};
  expect(keys).toEqual({
    isRead: true,
    trouble: expect.stringMatching(/others than root may write it: run 'chown .*; the keys from before stay in use$/),
  });
  // A start in this state reaches nobody, and still knows whom to wait for.
  await one.kill();
  one.start();
  await eventually(async () => expect((await one.view())?.keys?.isRead).toBe(false), 30_000);
  const view = await one.view();
  expect(view?.self).toBe('host-1');
  expect(view?.nodes.map(({ name }) => name)).toEqual(['host-1', 'host-2', 'host-3']);
  expect(view?.keys?.trouble).toMatch(/no other node is reached before that is mended$/);
  chmodSync(listAt(), 0o644);
  await eventually(async () => expect((await one.view())?.keys).toEqual({ isRead: true }), 60_000);
  await eventually(() => answers(one, 'host-2'), 60_000);
}, 240_000);

it('names two hosts that the list gives one name, until each has its own', async () => {
  const { one, two, lines } = await pair();
  list(lines[0], lines[1].replace('host-2', 'host-1'));
  const text = `this node and 127.0.0.1:${two.port} are both host-1`;
  await eventually(async () => expect((await one.view())?.keys?.trouble).toContain(text), 60_000);
  await eventually(() => expect(one.log.join('')).toContain(text), 30_000);
  expect((await one.view())?.keys?.isRead).toBe(false);
  await eventually(async () => expect((await two.view())?.keys?.trouble).toContain(`:${one.port} are both`), 60_000);
  list(...lines);
  await eventually(() => answers(one, 'host-2'), 60_000);
  expect((await one.view())?.keys).toEqual({ isRead: true });
}, 240_000);

it('replaces a damaged key, says so, and is no node before the list has the new one', async () => {
  const { one, two, lines } = await pair();
  list(...lines);
  await eventually(() => answers(two, 'host-1'), 60_000);
  await one.kill();
  writeFileSync(join(one.stateDir, 'key.pem'), readFileSync(join(one.stateDir, 'key.pem'), 'utf8').slice(0, 60));
  one.start();
  await eventually(() => expect(one.log.join('')).toContain('so this node has a new key'), 30_000);
  const next = await lineOf(one, 'host-1');
  expect(next).not.toBe(lines[0]);
  await eventually(() => expect(one.log.join('')).toContain('does not list this node'), 30_000);
  await eventually(() => refuses(two, 'host-1'), 60_000);
  list(next, lines[1]);
  await eventually(() => answers(two, 'host-1'), 90_000);
  rmSync(join(one.stateDir, 'key.pem'));
}, 240_000);

it('one stick in one node: the other gets the bundle, verifies it and loads it', async () => {
  const key = sampleKey('factory-2026');
  const images = ocpImages(['etcd', 'api'], { tag: '4.13.7', sizeBytes: 1024 * 1024 });
  const bundle = await makeSampleBundle({ dir: join(base, 'factory'), keys: [key], images, schedule: 'manual' });
  const daemon = async () => {
    const harness = await createDaemonHarness({
      keys: [key],
      settings: { fleet: { enabled: true, activate: 'each' } },
    });
    harnesses.push(harness);
    await harness.start();
    return harness;
  };
  const [first, second] = [await daemon(), await daemon()];
  const { one, lines } = await pair({ paths: first.settings.paths }, { paths: second.settings.paths });
  list(...lines);
  await eventually(() => answers(one, 'host-2'), 60_000);
  first.plug(bundle.path);
  const isReady = (report: StatusReport) => report.bundles[0]?.phase === 'ready';
  await second.until(isReady, 90_000);
  expect((await second.images()).flatMap(({ repoDigests }) => repoDigests).sort()).toEqual(
    bundle.contents.images.map(({ reference }) => reference).sort(),
  );
  expect(second.statuses.join('\n')).toContain('host-1');
  list(...lines, 'nonsense');
  await second.until(({ advice }) => advice.code === 'F-40', 60_000);
  expect(second.statuses.at(-1)).toMatch(/^CALL SUPPORT \(F-40\): Line 5 of .*fleet\.keys must be sha256:/);
  list(...lines);
  await second.until(({ advice }) => advice.code !== 'F-40', 60_000);
}, 240_000);
