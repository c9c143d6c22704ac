import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterEach, it as base, beforeAll, beforeEach, expect } from 'vitest';
import type { FleetView } from '../../../src/domain/fleet/node-status.ts';
import { OffersClient } from '../../../src/fleet/wire/client.ts';
import { unixSocket, WireConnection } from '../../../src/fleet/wire/connection.ts';
import { createOffersHandler, type SocketServer, serveSocket } from '../../../src/fleet/wire/server.ts';
import { NEVER_ABORTED } from '../../../src/platform/async/abort.ts';
import { systemClock } from '../../../src/platform/clock.ts';
import { silentLog } from '../../../src/platform/log.ts';
import { bundleIntoCache } from '../../support/bundles/bundle-program.ts';
import { endProcess } from '../../support/end-process.ts';
import { eventually } from '../../support/eventually.ts';
import { createAuthority } from '../../support/fleet/authority.ts';
import { startFleetLockServer } from '../../support/fleet/fleet-lock-server.ts';
import { createMemoryOffers } from '../../support/fleet/memory-offers.ts';
import { freePort } from '../../support/free-port.ts';
import { ownBundle, ownReport } from '../../support/kubernetes/own-report.ts';
import { startTestCluster, type TestCluster } from '../../support/kubernetes/test-cluster.ts';
import { have } from '../../support/requirements.ts';

const it = base.runIf(have('openssl'));

let cluster: TestCluster;
let program: string;
let daemon: SocketServer | undefined;
const started: ChildProcess[] = [];
beforeAll(async () => {
  program = await bundleIntoCache('src/fleet.ts', 'fleet');
});
beforeEach(async () => {
  cluster = await startTestCluster();
});
afterEach(async () => {
  for (const child of started.splice(0)) await endProcess(child, 'SIGKILL');
  await daemon?.close();
  await cluster[Symbol.asyncDispose]();
});

async function laySettings(): Promise<string> {
  const at = (name: string) => join(cluster.folder, name);
  const kubeconfig = cluster.kubeconfigOf('n1', cluster.authority.node('n1'));
  writeFileSync(at('ca.crt'), cluster.authority.certificate);
  for (const folder of ['run', 'run-fleet', 'state', 'state-fleet']) mkdirSync(at(folder));
  writeFileSync(at('run/status.json'), JSON.stringify(ownReport([ownBundle({ phase: 'ready' })])));
  const handle = createOffersHandler(createMemoryOffers(), systemClock, silentLog);
  daemon = await serveSocket(at('run/offers.sock'), handle);
  const fleet = `enabled = true\nlisten = "127.0.0.1:${await freePort()}"\nkubeconfig = "${kubeconfig}"\nclient_ca = "${at('ca.crt')}"\n`;
  writeFileSync(at('own.toml'), `[paths]\nrun_dir = "${at('run')}"\nstate_dir = "${at('state')}"\n[fleet]\n${fleet}`);
  return at('own.toml');
}

function start(...args: readonly string[]): ChildProcess {
  return startWith({}, ...args);
}

function startWith(env: NodeJS.ProcessEnv, ...args: readonly string[]): ChildProcess {
  const child = spawn(process.execPath, [program, ...args], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  started.push(child);
  return child;
}

/** As a removal runs it. @returns its exit code, and what it told people */
async function withdraw(settings: string): Promise<{ readonly code: unknown; readonly told: string }> {
  const child = spawn(process.execPath, [program, '--config', settings, '--withdraw'], {
    stdio: ['ignore', 'inherit', 'pipe'],
  });
  const [told, [code]] = await Promise.all([text(child.stderr), once(child, 'exit')]);
  return { code, told };
}

/** What it tells its daemon. */
async function view(): Promise<FleetView | undefined> {
  const socket = join(cluster.folder, 'run-fleet/peers.sock');
  const connection = new WireConnection({ who: 'the fleet process', connect: unixSocket(socket) });
  try {
    return (await new OffersClient(connection).fleet({}, NEVER_ABORTED))?.document;
  } finally {
    connection.close();
  }
}

const own = (keys: object) => Object.keys(keys).filter((key) => key.startsWith('stickpin.io/'));

it('tells the cluster about this node, and takes that away at a removal', async () => {
  const settings = await laySettings();
  const service = start('--config', settings);
  const node = () => cluster.server.node('n1');
  await eventually(() => expect(node().metadata.labels).toHaveProperty(['stickpin.io/ready-ocp'], '4.13.7'));
  await eventually(() => expect(node().status.conditions.map(({ type }) => type)).toContain('StickpinHealthy'));
  await eventually(() => expect(cluster.server.watches()).toBe(1));
  const ended = once(service, 'exit');
  service.kill('SIGTERM');
  expect(await ended).toEqual([0, null]);
  expect(own(node().metadata.annotations)).toContain('stickpin.io/status');

  expect(await withdraw(settings)).toEqual({ code: 0, told: '' });
  expect([...own(node().metadata.annotations), ...own(node().metadata.labels)]).toEqual([]);
  expect(node().status.conditions.map(({ type }) => type)).toEqual(['Ready']);
});

it('refuses to run twice on the same folders, and leaves the socket of the first', { timeout: 60_000 }, async () => {
  const settings = await laySettings();
  const first = start('--config', settings);
  await eventually(async () => expect(await view()).toBeDefined(), 30_000);
  const second = start('--config', settings);
  expect(await once(second, 'exit')).toEqual([75, null]);
  expect(await view()).toBeDefined();
  const ended = once(first, 'exit');
  first.kill('SIGTERM');
  expect(await ended).toEqual([0, null]);
});

it('takes that away later when no API server answered as it was switched off', async () => {
  const settings = await laySettings();
  const service = start('--config', settings);
  const node = () => cluster.server.node('n1');
  await eventually(() => expect(node().metadata.labels).toHaveProperty(['stickpin.io/ready-ocp'], '4.13.7'));
  await cluster.server.stop();
  const ended = once(service, 'exit');
  const enabled = readFileSync(settings, 'utf8');
  writeFileSync(settings, enabled.replace('enabled = true', 'enabled = false'));
  expect(await ended).toEqual([0, null]);
  const { code, told } = await withdraw(settings);
  expect(code).toBe(1);
  expect(told).toMatch(
    /^stickpin-fleet: What stickpin published of this node stays on its Node: .*ECONNREFUSED.*\. To remove it later, run: kubectl get node n1 && echo '\{"apiVersion":"v1","kind":"Node","metadata":\{"name":"n1"\}\}' \| kubectl apply .*\n$/,
  );
  await cluster.server.restart();
  expect(await withdraw(settings)).toEqual({ code: 0, told: '' });
  expect([...own(node().metadata.annotations), ...own(node().metadata.labels)]).toEqual([]);
  const asked = cluster.server.seen.length;
  expect(await withdraw(settings)).toEqual({ code: 0, told: '' });
  expect(cluster.server.seen).toHaveLength(asked);
});

it('takes that away too when it is switched off', async () => {
  const settings = await laySettings();
  const service = start('--config', settings);
  const node = () => cluster.server.node('n1');
  await eventually(() => expect(node().metadata.labels).toHaveProperty(['stickpin.io/ready-ocp'], '4.13.7'));
  const ended = once(service, 'exit');
  writeFileSync(settings, readFileSync(settings, 'utf8').replace('enabled = true', 'enabled = false'));
  expect(await ended).toEqual([0, null]);
  expect([...own(node().metadata.annotations), ...own(node().metadata.labels)]).toEqual([]);
});

it('gives the lock for reboots back when another server has to be used, and at a removal', {
  timeout: 180_000,
}, async () => {
  const settings = await laySettings();
  const report = ownReport([ownBundle({ phase: 'ready', rollOut: { begun: true } })]);
  writeFileSync(join(cluster.folder, 'run/status.json'), JSON.stringify(report));
  const [one, other] = await Promise.all([startFleetLockServer(), startFleetLockServer()]);
  try {
    const text = readFileSync(settings, 'utf8');
    writeFileSync(settings, `${text}[update]\nfleet_lock = "${one.url}"\n`);
    const service = start('--config', settings);
    await eventually(async () => expect((await view())?.lock).toEqual({ isHeld: true }));
    expect([...one.holders.keys()]).toEqual(['default']);
    writeFileSync(settings, `${text}[update]\nfleet_lock = "${other.url}/"\nfleet_lock_group = "edge"\n`);
    await eventually(() => expect([...other.holders.keys()]).toEqual(['edge']));
    expect([...one.holders.keys()]).toEqual([]);
    const ended = once(service, 'exit');
    service.kill('SIGTERM');
    expect(await ended).toEqual([0, null]);
    expect(other.holders.size).toBe(1);
    expect(await withdraw(settings)).toEqual({ code: 0, told: '' });
    expect(other.holders.size).toBe(0);
  } finally {
    await Promise.all([one.stop(), other.stop()]);
  }
});

it('requests the lock over TLS from a server of an authority that it was given', { timeout: 180_000 }, async () => {
  const settings = await laySettings();
  const at = (name: string) => join(cluster.folder, name);
  const report = ownReport([ownBundle({ phase: 'ready', rollOut: { begun: true } })]);
  writeFileSync(at('run/status.json'), JSON.stringify(report));
  const site = createAuthority(cluster.folder, 'site');
  writeFileSync(at('site.crt'), site.certificate);
  const use = 'serverAuth\nsubjectAltName=IP:127.0.0.1';
  const server = await startFleetLockServer(site.sign({ subject: '/CN=locks', use }));
  writeFileSync(settings, `${readFileSync(settings, 'utf8')}[update]\nfleet_lock = "${server.url}"\n`);
  const stopped = async (service: ChildProcess) => {
    const ended = once(service, 'exit');
    service.kill('SIGTERM');
    expect(await ended).toEqual([0, null]);
  };
  try {
    const stranger = start('--config', settings);
    const refused = { isHeld: false, why: expect.stringContaining('certificate') };
    await eventually(async () => expect((await view())?.lock).toEqual(refused));
    expect(server.requests).toEqual([]);
    await stopped(stranger);
    server.fault = (response) => response.writeHead(302, { location: `${server.url}/elsewhere` }).end();
    const service = startWith({ NODE_EXTRA_CA_CERTS: at('site.crt') }, '--config', settings);
    const redirected = { isHeld: false, why: 'it answers with status 302' };
    await eventually(async () => expect((await view())?.lock).toEqual(redirected));
    server.fault = undefined;
    await eventually(async () => expect((await view())?.lock).toEqual({ isHeld: true }));
    expect(server.holders.size).toBe(1);
    expect(new Set(server.requests)).toEqual(new Set(['pre-reboot']));
    const proven = ownReport([ownBundle({ phase: 'proven', current: true })]);
    writeFileSync(at('run/status.json'), JSON.stringify(proven));
    await eventually(() => expect(server.holders.size).toBe(0));
    await stopped(service);
  } finally {
    await server.stop();
  }
});

it('takes other settings without an end of its process, each time again', async () => {
  const settings = await laySettings();
  const service = start('--config', settings);
  const isOpen = (port: number) =>
    new Promise<boolean>((resolve) => {
      const socket = connect({ host: '127.0.0.1', port }, () => resolve(true)).on('error', () => resolve(false));
      socket.on('close', () => socket.destroy()).unref();
    });
  const portIn = (text: string) => Number(/^listen = "127\.0\.0\.1:(\d+)"$/m.exec(text)?.[1]);
  for (let change = 0; change < 3; change += 1) {
    const before = readFileSync(settings, 'utf8');
    await eventually(async () => expect(await isOpen(portIn(before))).toBe(true), 20_000);
    const port = await freePort();
    writeFileSync(settings, before.replace(`:${portIn(before)}"`, `:${port}"`));
    await eventually(
      async () => expect([await isOpen(portIn(before)), await isOpen(port)]).toEqual([false, true]),
      20_000,
    );
    await eventually(async () => expect((await view())?.self).toBe('n1'));
  }
  expect(service.exitCode).toBeNull();
  const ended = once(service, 'exit');
  service.kill('SIGTERM');
  expect(await ended).toEqual([0, null]);
}, 60_000);

it('follows a report that is replaced many times at once, as during a preload', async () => {
  const settings = await laySettings();
  const file = join(cluster.folder, 'run/status.json');
  const tell = (percent: number) => {
    const progress = { doneBytes: percent, totalBytes: 100 };
    writeFileSync(`${file}.new`, JSON.stringify(ownReport([ownBundle({ phase: 'preloading' })], { progress })));
    renameSync(`${file}.new`, file);
  };
  tell(0);
  const service = start('--config', settings);
  const percent = async () => (await view())?.nodes[0]?.status?.releases[0]?.percent;
  await eventually(async () => expect(await percent()).toBe(0));
  for (let at = 1; at < 80; at += 1) tell(at);
  await eventually(async () => expect(await percent()).toBe(79));
  tell(90);
  await eventually(async () => expect(await percent()).toBe(90));
  const ended = once(service, 'exit');
  service.kill('SIGTERM');
  await ended;
});

it('has the name of its certificate without an API server, with auth = "none" too', async () => {
  const settings = await laySettings();
  writeFileSync(settings, `${readFileSync(settings, 'utf8')}auth = "none"\n`);
  await cluster.server.stop();
  const service = start('--config', settings);
  await eventually(async () => expect((await view())?.self).toBe('n1'));
  const ended = once(service, 'exit');
  service.kill('SIGTERM');
  await ended;
});

it('says nothing new after a restart, so that other nodes do not leave it', async () => {
  const settings = await laySettings();
  const written = () => cluster.server.seen.filter(({ line }) => !line.startsWith('GET')).length;
  const reads = () => cluster.server.seen.filter(({ line }) => line === 'GET /api/v1/nodes/n1').length;
  let service = start('--config', settings);
  const { metadata } = cluster.server.node('n1');
  expect(own(metadata.annotations)).toEqual([]);
  await eventually(() =>
    expect(cluster.server.node('n1').status.conditions.map(({ type }) => type)).toContain('StickpinHealthy'),
  );
  // They come in a second request, before or after the condition.
  await eventually(() =>
    expect(own(cluster.server.node('n1').metadata.annotations).sort()).toEqual([
      'stickpin.io/serves',
      'stickpin.io/status',
    ]),
  );
  const [before, readBefore] = [written(), reads()];
  const killed = once(service, 'exit');
  service.kill('SIGKILL');
  await killed;
  service = start('--config', settings);
  // Once for its address, once for what the Node says already.
  await eventually(() => expect(reads()).toBe(readBefore + 2));
  await eventually(() => expect(cluster.server.watches()).toBe(1));
  expect(written()).toBe(before);
  const ended = once(service, 'exit');
  service.kill('SIGTERM');
  await ended;
});
