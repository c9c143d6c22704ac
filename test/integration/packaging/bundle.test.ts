import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createWorkerDocuments } from '../../../src/bundle/documents/worker-documents.ts';
import { createDatagramReceiver, type DatagramReceiver } from '../../support/bus/datagram-receiver.ts';
import { eventually } from '../../support/eventually.ts';
import { folderForAll } from '../../support/files/temporary-folder.ts';
import { have, program } from '../../support/requirements.ts';

const repository = new URL('../../../', import.meta.url).pathname;
const layer = { mediaType: 'a', digest: `sha256:${'0'.repeat(64)}`, size: 1 };
const ownNamespaces = {
  name: 'mount and network namespaces',
  isMet: () => spawnSync('unshare', ['--mount', '--net', 'ip', 'link', 'set', 'lo', 'up']).status === 0,
  remedy: 'run as root, apt-get install util-linux iproute2',
};

describe.runIf(have('root', program('ip', 'apt-get install iproute2'), ownNamespaces))('the bundled daemon', () => {
  const directory = folderForAll();
  let systemd: DatagramReceiver;
  let daemon: ChildProcess;
  let output = '';

  beforeAll(() => {
    execFileSync(process.execPath, ['packaging/build.mjs', join(directory, 'dist')], { cwd: repository });
    for (const name of ['node_modules', 'proto']) symlinkSync(join(repository, name), join(directory, name));
    systemd = createDatagramReceiver();
    // State, run-time files and the drop folder of this machine are hidden behind empty ones. The
    // port of its registry may be in use here.
    const script = 'ip link set lo up && mount -t tmpfs none /run && mount -t tmpfs none /var/lib && exec "$0" "$1"';
    daemon = spawn(
      'unshare',
      ['--mount', '--net', '/bin/sh', '-c', script, process.execPath, join(directory, 'dist/main.js')],
      {
        env: { PATH: process.env.PATH, NOTIFY_SOCKET: systemd.path, DBUS_SYSTEM_BUS_ADDRESS: 'unix:path=/run/no-bus' },
        stdio: ['ignore', 'pipe', 'inherit'],
      },
    );
    daemon.stdout?.on('data', (chunk) => {
      output += String(chunk);
    });
  });
  afterAll(() => {
    daemon.kill('SIGKILL');
    systemd[Symbol.dispose]();
  });

  it('starts without bus, runtime and keys, and logs that in JSON lines', async () => {
    await eventually(() => expect(systemd.received.map(String)).toContain('READY=1'), 20_000);
    const lines = output
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { msg: string; level: string });
    expect(lines.map(({ msg }) => msg).join('\n')).toMatch(/system bus|D-Bus/);
  });

  it('has the program of the worker thread for large documents beside it', async () => {
    const documents = createWorkerDocuments({
      program: pathToFileURL(join(directory, 'dist/document-worker.js')),
      inlineBytes: 0,
    });
    const manifest = { schemaVersion: 2, config: layer, layers: [layer] };
    const name = { what: 'manifest', code: 'bundle/inconsistent' } as const;
    const bytes = Buffer.from(JSON.stringify(manifest));
    try {
      expect(await documents.manifest(bytes, name, new AbortController().signal)).toEqual(manifest);
    } finally {
      documents.close();
    }
  });

  it('loads the modules of Node.js without an ES module wrapper, which takes longer', () => {
    const dist = join(directory, 'dist');
    const files = readdirSync(dist, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.js'));
    const texts = files.map((name) => readFileSync(join(dist, name), 'utf8'));
    expect(texts.join('\n')).toContain('process.getBuiltinModule("node:http")');
    // One for `require` itself, in the first line of each file.
    for (const text of texts) expect(text.match(/(?:from|import\()\s*["']node:/g) ?? []).toHaveLength(1);
  });

  it('ends in order on a signal', async () => {
    const exited = once(daemon, 'exit');
    daemon.kill('SIGTERM');
    expect(await exited).toEqual([0, null]);
    expect(systemd.received.map(String)).toContain('STOPPING=1');
  });
});
