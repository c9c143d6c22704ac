import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, readlinkSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { bundleIntoCache } from '../../../support/bundles/bundle-program.ts';
import { eventually } from '../../../support/eventually.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';
import { freePort } from '../../../support/free-port.ts';

const IN_USE = 75;

/** The program of the service, twice on the same folders. */
describe('a second daemon', { timeout: 120_000 }, () => {
  let program: string;
  const base = folderForEach();
  let children: ChildProcess[];
  const at = (path: string) => join(base, path);

  beforeAll(async () => {
    program = await bundleIntoCache('src/main.ts', 'daemon-program');
  });
  beforeEach(() => {
    children = [];
  });
  afterEach(() => {
    for (const child of children) child.kill('SIGKILL');
  });

  const launch = ({ port = 0, run = 'run', state = 'state' } = {}) => {
    const settings = at(`settings-${children.length}.toml`);
    writeFileSync(
      settings,
      `[runtime]\nkind = "embedded"\n[registry]\nlisten = "127.0.0.1:${port}"\n` +
        `[media]\ndetect = false\n[trust]\nkeys_dir = "${at('keys')}"\n` +
        `[paths]\nstate_dir = "${at(state)}"\nrun_dir = "${at(run)}"\n`,
    );
    const child = spawn(process.execPath, [program, '--config', settings], {
      env: { PATH: process.env.PATH, DBUS_SYSTEM_BUS_ADDRESS: `unix:path=${at('no-bus')}` },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    children.push(child);
    let output = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += String(chunk)));
    return {
      pid: child.pid ?? 0,
      output: () => output,
      started: () => eventually(() => expect(output).toContain('stickpin started'), 60_000),
      ended: async () => child.exitCode ?? (await once(child, 'exit', { signal: AbortSignal.timeout(60_000) }))[0],
      kill: async (signal: NodeJS.Signals) => {
        const ended = once(child, 'exit');
        child.kill(signal);
        await ended;
      },
    };
  };
  const mark = () => {
    const { ino, mtimeNs } = statSync(at('state/running.json'), { bigint: true });
    return `${ino} ${mtimeNs} ${readFileSync(at('state/running.json'), 'utf8')}`;
  };

  it.each([
    { what: 'the same folders', own: undefined },
    { what: 'the same state directory alone', own: 'run' },
    { what: 'the same run directory alone', own: 'state' },
  ])('on $what ends with a line of its own, and changes nothing', async ({ own }) => {
    const port = await freePort();
    const first = launch({ port });
    await first.started();
    const before = mark();
    // Another port, and one that is taken.
    const others = [0, port].map((port, index) => launch({ port, ...(own && { [own]: `other-${index}` }) }));
    for (const other of others) {
      expect(await other.ended()).toBe(IN_USE);
      const lines = other.output().match(/stickpin can't start.*/g) ?? [];
      expect(lines).toHaveLength(1);
      expect(lines[0]).toContain(
        `another stickpin (process ${first.pid}) uses ${at(own === 'state' ? 'run' : 'state')}`,
      );
    }
    expect(mark()).toBe(before);
    expect(await fetch(`http://127.0.0.1:${port}/v2/`).then(({ status }) => status)).toBe(200);
  });

  it('starts at once after the first was killed', async () => {
    const first = launch();
    await first.started();
    await first.kill('SIGKILL');
    const second = launch();
    await second.started();
    expect(second.output()).not.toContain('another stickpin');
  });

  it('waits for the end of the first', async () => {
    const first = launch();
    await first.started();
    const second = launch();
    await eventually(() => expect(second.output()).toContain('waits for its end'), 60_000);
    await first.kill('SIGTERM');
    await second.started();
    expect(statSync(at('state/running.json')).isFile()).toBe(true);
  });

  it('is stopped while it waits, as any other', async () => {
    await launch().started();
    const second = launch();
    await eventually(() => expect(second.output()).toContain('waits for its end'), 60_000);
    await second.kill('SIGTERM');
    expect(await second.ended()).toBe(0);
  });

  it('is not kept out by a program that the first has started', async () => {
    const first = launch();
    await first.started();
    const descriptors = readdirSync(`/proc/${first.pid}/fd`).filter((fd) =>
      readlinkSync(`/proc/${first.pid}/fd/${fd}`).endsWith('/lock'),
    );
    expect(descriptors).toHaveLength(2);
    const O_CLOEXEC = 0o2000000;
    for (const fd of descriptors) {
      const [, flags = '0'] = /^flags:\s+(\d+)$/m.exec(readFileSync(`/proc/${first.pid}/fdinfo/${fd}`, 'utf8')) ?? [];
      expect(Number.parseInt(flags, 8) & O_CLOEXEC).toBe(O_CLOEXEC);
    }
    expect(statSync(at('state/lock')).mode & 0o777).toBe(0o600);
  });

  it('starts although a folder has the place of the lock', async () => {
    mkdirSync(at('state/lock'), { recursive: true });
    await launch().started();
    expect(readdirSync(at('state')).filter((name) => name.startsWith('lock'))).toEqual([
      'lock',
      expect.stringMatching(/^lock\.damaged-/),
    ]);
  });

  it('whose port another program has leaves the mark of a daemon that was killed', async () => {
    const first = launch();
    await first.started();
    await first.kill('SIGKILL');
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const second = launch({ port: (server.address() as { port: number }).port });
    expect(await second.ended()).toBe(1);
    server.close();
    expect(statSync(at('state/running.json')).isFile()).toBe(true);
  });
});
