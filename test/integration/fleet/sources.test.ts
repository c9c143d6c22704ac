import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdirSync, mkdtempSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Settings } from '../../../src/domain/settings/settings.ts';
import { Sources } from '../../../src/fleet/sources/sources.ts';
import { OffersClient } from '../../../src/fleet/wire/client.ts';
import { unixSocket, WireConnection } from '../../../src/fleet/wire/connection.ts';
import { fleetPaths } from '../../../src/fleet/wire/documents.ts';
import { serveSocket } from '../../../src/fleet/wire/server.ts';
import { systemClock } from '../../../src/platform/clock.ts';
import { bundleIntoCache } from '../../support/bundles/bundle-program.ts';
import { ocpImages, type SampleBundle, sampleKey } from '../../support/bundles/sample-bundle.ts';
import { sampleLayer } from '../../support/bundles/sample-image.ts';
import { createDaemonHarness, type DaemonHarness } from '../../support/daemon/daemon-harness.ts';
import { eventually } from '../../support/eventually.ts';
import { atEnd, folderForAll } from '../../support/files/temporary-folder.ts';
import { createRecordingLog, type RecordingLog } from '../../support/recording-log.ts';
import { type DockerRegistry, startDockerRegistry } from '../../support/registry/docker-registry.ts';
import { type Front, startFront } from '../../support/registry/front.ts';
import { makeTls, type OwnTls } from '../../support/registry/tls.ts';
import { have } from '../../support/requirements.ts';
import { runCommand } from '../../support/run-command.ts';

const MiB = 1024 * 1024;
const work = folderForAll();
const key = sampleKey();
const below = [sampleLayer({ seed: 'base', sizeBytes: MiB })];
const images = ocpImages(['web', 'db'], { sizeBytes: 2 * MiB, below });

describe.runIf(have('mmdebstrap', 'openssl'))('a bundle that comes over a link', () => {
  let registry: DockerRegistry;
  let front: Front;
  let tls: OwnTls;
  let home: string | undefined;
  let tag = 0;
  let reference: string;
  const log: RecordingLog = createRecordingLog();

  beforeAll(async () => {
    tls = makeTls(work);
    registry = await startDockerRegistry({ folder: work });
    front = await startFront(registry.host, tls.pem);
    home = process.env.HOME;
    process.env.HOME = work;
    const folder = join(work, '.config/containers/certs.d', front.host);
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, 'ca.crt'), tls.pem.cert);
  });
  afterAll(async () => {
    if (home !== undefined) process.env.HOME = home;
    await front?.close();
    await registry?.close();
  });
  beforeEach(() => {
    front.requests.splice(0);
    front.meddle = () => undefined;
    front.bytesPerSecond = undefined;
    tag += 1;
    reference = `${front.host}/bundles/n${tag}:4.13`;
  });

  type Source = Partial<NonNullable<Settings['sources'][string]>>;

  async function startNode(source: Source = {}): Promise<DaemonHarness> {
    const defaults = {
      every: 86_400_000,
      authfile: undefined,
      ca: tls.certificate,
      rate: 'unlimited',
      windows: [],
    } as const;
    const sources = { edge: { ...defaults, reference, ...source } };
    const node = await createDaemonHarness({ keys: [key], settings: { sources } });
    const work = new Sources({ settings: node.settings, clock: systemClock, log, random: Math.random });
    const stop = new AbortController();
    const socket = await serveSocket(fleetPaths(node.settings.paths).sourcesSocket, (...call) => work.answer(...call));
    const running = work.run(stop.signal);
    atEnd(async () => {
      stop.abort();
      await running;
      await socket.close();
    });
    await node.start();
    return node;
  }

  const push = async ({ path }: SampleBundle, to = reference) => {
    const { exitCode, stderr } = await runCommand(['bundle', 'push', path, to]);
    expect(`${exitCode} ${stderr}`).toMatch(/^0/);
  };
  const phaseOf = (node: DaemonHarness, version: string) =>
    node.report().bundles.find((bundle) => bundle.version === version)?.phase;
  const make = (node: DaemonHarness, version: string, sequence: number, of = images) =>
    node.make({ version, sequence, images: of, dir: mkdtempSync(join(work, 'made-')), keys: [key] });
  const fetched = () =>
    front.requests
      .filter(({ method, path }) => method === 'GET' && path.includes('/blobs/'))
      .map(({ sentBytes }) => sentBytes);

  const isLoaded = (node: DaemonHarness, version: string) => () =>
    ['ready', 'activated'].includes(phaseOf(node, version) ?? '');
  const rescan = (node: DaemonHarness) => node.daemon().media.rescan(new AbortController().signal);
  const isLarge = ({ method, path }: { method: string; path: string }) =>
    method === 'GET' && images.some(({ image }) => path.endsWith(image.layers[1]?.digest ?? '-'));

  it('is loaded as from a stick, and a rebuilt image later costs its layer only, when somebody asks', async () => {
    const node = await startNode();
    await push(await make(node, '4.13.7', 1));
    await rescan(node);
    await node.until(isLoaded(node, '4.13.7'));
    expect(node.statuses.join('\n')).toContain(`from ${reference}`);
    const rebuilt = ocpImages(['web'], { sizeBytes: MiB, below, tag: '1.0.1' });
    await push(await make(node, '4.13.8', 2, [...rebuilt, ...images.slice(1)]));
    front.requests.splice(0);
    await rescan(node);
    await node.until(isLoaded(node, '4.13.8'));
    expect(fetched().filter((bytes) => bytes > 100_000)).toEqual([rebuilt[0]?.image.layers[1]?.sizeBytes]);
    // Nothing changes: one small request.
    front.requests.splice(0);
    await rescan(node);
    expect(front.requests.map(({ method }) => method)).toEqual(['HEAD']);
    // Later it is away. What it had stays offered, and 'stickpin doctor' says what is wrong.
    front.meddle = (_, response) => {
      response.writeHead(500).end();
      return 'answered';
    };
    await rescan(node);
    const { sourcesSocket } = fleetPaths(node.settings.paths);
    const connection = new WireConnection({ who: 'the process', connect: unixSocket(sourcesSocket) });
    const view = await new OffersClient(connection).fleet({}, new AbortController().signal);
    connection.close();
    expect(view?.document.peers).toMatchObject([
      { bundles: [{ version: '4.13.8' }], trouble: expect.stringContaining('it answers 500') },
    ]);
  });

  it('costs its envelope only when metadata alone changes (F7), and is refused when the tag goes back', async () => {
    const node = await startNode();
    const old = await make(node, '4.13.6', 1);
    await push(await make(node, '4.13.7', 2));
    await rescan(node);
    await node.until(() => phaseOf(node, '4.13.7') === 'activated');
    await push(await make(node, '4.13.8', 3));
    front.requests.splice(0);
    await rescan(node);
    await node.until(() => phaseOf(node, '4.13.8') === 'activated');
    const names = front.requests.map(({ method, path }) => `${method} ${path.split('/').at(-2)}`);
    expect(names.filter((name) => name === 'GET blobs')).toHaveLength(1);
    expect(fetched()[0]).toBeLessThan(10_000);
    await push(old);
    await rescan(node);
    await eventually(() => expect(log.lines.at(-1)?.message).toBe(`${reference} is ocp 4.13.6`));
    expect(node.report().bundles.map(({ version }) => version)).not.toContain('4.13.6');
    expect(phaseOf(node, '4.13.8')).toBe('activated');
  });

  it('waits for its window, and for nothing that a stick brings', async () => {
    const soon = new Date(Date.now() + 12 * 3_600_000);
    const window = { days: [(soon.getUTCDay() + 6) % 7], startMinute: soon.getUTCHours() * 60, lengthMinutes: 60 };
    const node = await startNode({ windows: [window] });
    const bundle = await make(node, '4.13.7', 1);
    await push(bundle);
    await rescan(node);
    await node.until(() =>
      node.statuses.some((line) => line.includes(`: Waiting for ${reference} to give ocp 4.13.7`)),
    );
    expect(node.statuses.at(-1)).toMatch(/: Waiting for .* to give ocp 4.13.7: in about 1[12] h/);
    expect(front.requests.filter(isLarge)).toEqual([]);
    node.plug(bundle.path);
    await node.until(isLoaded(node, '4.13.7'));
    expect(front.requests.filter(isLarge)).toEqual([]);
  });

  it('goes on within a blob after breaks, and after 429', async () => {
    let breaks = 2;
    let refusals = 2;
    front.meddle = (request, response) => {
      if (!isLarge(request)) return undefined;
      if (breaks-- > 0) return { cutAt: MiB };
      if (refusals-- <= 0) return undefined;
      response.writeHead(429, { 'retry-after': '1' }).end();
      return 'answered';
    };
    const node = await startNode();
    await push(await make(node, '4.13.7', 1));
    await rescan(node);
    await node.until(isLoaded(node, '4.13.7'));
    expect(front.requests.some((one) => isLarge(one) && /^bytes=[1-9]/.test(one.range ?? ''))).toBe(true);
  });

  it('comes over a link of 256 kbit/s, which breaks', async () => {
    const node = await startNode();
    await push(await make(node, '4.13.7', 1, ocpImages(['web'], { sizeBytes: 256 * 1024 })));
    front.bytesPerSecond = 32_000;
    let breaks = 2;
    front.meddle = ({ method, path }) =>
      method === 'GET' && path.includes('/blobs/') && breaks-- > 0 ? { cutAt: 1_000 } : undefined;
    const beganMs = performance.now();
    await rescan(node);
    await node.until(isLoaded(node, '4.13.7'), 60_000);
    expect(breaks).toBeLessThanOrEqual(0);
    expect(performance.now() - beganMs).toBeGreaterThan(5_000);
  });

  it('takes as much as it may', async () => {
    const node = await startNode({ rate: 2 * MiB });
    await push(await make(node, '4.13.7', 1));
    const beganMs = performance.now();
    await rescan(node);
    await node.until(isLoaded(node, '4.13.7'));
    expect(performance.now() - beganMs).toBeGreaterThan(2_000);
  });

  it('logs in with its authfile where the registry answers nobody else', async () => {
    const authfile = join(work, 'login.json');
    const node = await startNode({ authfile });
    await push(await make(node, '4.13.7', 1));
    front.requests.splice(0);
    front.meddle = ({ hasLogin }, response) => {
      if (!hasLogin) response.writeHead(401, { 'www-authenticate': 'Basic realm="x"' }).end();
      return hasLogin ? undefined : 'answered';
    };
    writeFileSync(authfile, JSON.stringify({ auths: {} }));
    await rescan(node);
    expect(log.lines.at(-1)?.message).toContain(`${reference}: it answers 401`);
    writeFileSync(authfile, JSON.stringify({ auths: { [front.host]: { auth: btoa('ann:hush') } } }));
    await rescan(node);
    await node.until(isLoaded(node, '4.13.7'));
    expect(fetched().length).toBeGreaterThan(2);
  });

  it('names what is wrong with the registry, without a secret', async () => {
    const authfile = join(work, 'auth.json');
    writeFileSync(authfile, JSON.stringify({ auths: { [front.host]: { auth: btoa('ann:hush') } } }));
    front.meddle = (_, response) => {
      response.writeHead(401, { 'www-authenticate': 'Basic realm="x"' }).end();
      return 'answered';
    };
    const node = await startNode({ authfile });
    await rescan(node);
    const lines = log.lines.map(({ message }) => message);
    expect(lines.at(-1)).toContain(`${reference}: it answers 401`);
    expect(JSON.stringify(log.lines)).not.toMatch(/hush|YW5uOmh1c2g/);
  });
});

describe('the process of the sources', () => {
  it('serves what the settings name, and ends while they name nothing', async () => {
    const program = await bundleIntoCache('src/sources.ts', 'sources');
    const settings = join(work, 'own.toml');
    const paths = `[paths]\nrun_dir = "${join(work, 'run')}"\n`;
    chmodSync(work, 0o777);
    // Without a name and a home, as with `DynamicUser=`.
    const user = process.getuid?.() === 0 ? { uid: 61_999, gid: 61_999 } : {};
    const start = () =>
      spawn(process.execPath, [program, '--config', settings], {
        ...user,
        env: {},
        stdio: ['ignore', 'ignore', 'pipe'],
      });
    writeFileSync(settings, paths);
    const idle = start();
    const [code] = await once(idle, 'exit');
    expect(code).toBe(0);
    writeFileSync(settings, `${paths}[sources.edge]\nreference = "127.0.0.1:1/none/ocp:1"\n`);
    const service = start();
    try {
      const { sourcesSocket } = fleetPaths({ run_dir: join(work, 'run'), state_dir: work });
      const connection = new WireConnection({ who: 'the process', connect: unixSocket(sourcesSocket) });
      const view = await eventually(async () => {
        const found = (await new OffersClient(connection).fleet({}, new AbortController().signal))?.document;
        if (found?.peers[0]?.trouble === undefined) throw new Error('not yet');
        return found;
      });
      connection.close();
      expect(view.peers).toMatchObject([
        { name: '127.0.0.1:1/none/ocp:1', bundles: [], trouble: expect.stringContaining('ECONNREFUSED') },
      ]);
      expect(statSync(sourcesSocket).mode & 0o777).toBe(0o666);
    } finally {
      const ended = once(service, 'exit');
      service.kill('SIGTERM');
      expect((await ended)[0]).toBe(0);
    }
  });
});
