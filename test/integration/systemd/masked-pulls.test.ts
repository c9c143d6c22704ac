import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CriClient } from '../../../src/runtime/cri/cri-client.ts';
import { makeSampleBundle } from '../../support/bundles/sample-bundle.ts';
import { createDaemonHarness, type DaemonHarness } from '../../support/daemon/daemon-harness.ts';
import { askedFor, publishMoved } from '../../support/daemon/origin.ts';
import { type Containerd, startContainerd } from '../../support/daemon/runtimes/containerd.ts';
import { folderForAll } from '../../support/files/temporary-folder.ts';
import { freePort } from '../../support/free-port.ts';
import { have } from '../../support/requirements.ts';
import { type SourceRegistry, startSourceRegistry } from '../../support/source-registry.ts';

const keepMirrors = fileURLToPath(new URL('../../../systemd/keep-mirrors', import.meta.url));
/** Longer than a pull of a present image takes here, and as long as nobody minds. */
const AT_ONCE_MS = 1_000;

/**
 * systemd holds the socket of the registry while no daemon answers there. Its unit that stops with
 * a masked service runs `keep-mirrors unit`; a systemctl of the test closes the socket as systemd
 * does.
 */
describe.runIf(have('root', 'mmdebstrap'))('pulls by containerd, with the daemon masked', { timeout: 120_000 }, () => {
  const root = folderForAll();
  let origin: SourceRegistry;
  let containerd: Containerd;
  let harness: DaemonHarness;
  let cri: CriClient;
  let socket: Server;
  let name: string;
  const waiting = new Set<Socket>();

  beforeAll(async () => {
    origin = await startSourceRegistry();
    containerd = await startContainerd({ snapshotter: 'native' });
    const registry = join(containerd.certsDirectory, 'quay.example.com');
    mkdirSync(registry);
    const hosts = `server = "http://${origin.host}"\n\n[host."http://${origin.host}"]\n  capabilities = ["pull", "resolve"]\n`;
    writeFileSync(join(registry, 'hosts.toml'), hosts);
    const port = await freePort();
    harness = await createDaemonHarness({
      keepsMirrors: true,
      settings: {
        registry: { listen: `127.0.0.1:${port}` },
        runtime: { kind: 'containerd', socket: containerd.socketPath, certs_dir: containerd.certsDirectory },
      },
    });
    const bundle = await makeSampleBundle({ dir: join(root, 'factory'), keys: [harness.key] });
    publishMoved(origin, bundle);
    name = bundle.contents.images[1]?.tags[0] ?? '';
    await harness.start(bundle.path);
    await harness.until((report) => report.bundles[0]?.phase === 'activated' && report.operation === 'idle');
    harness.unplug();
    await harness.until((report) => report.bundles[0]?.media.length === 0);
    await harness.stop();
    socket = createServer((connection) => {
      waiting.add(connection);
      connection.on('error', () => undefined);
    });
    await new Promise<void>((resolve) => socket.listen(port, '127.0.0.1', resolve));
    mkdirSync(join(root, 'etc/containerd'), { recursive: true });
    symlinkSync(containerd.certsDirectory, join(root, 'etc/containerd/certs.d'));
    cri = new CriClient({ socketPath: containerd.socketPath });
  }, 300_000);
  afterAll(async () => {
    cri.close();
    socket.close();
    await harness.dispose();
    await containerd.stop();
    await origin.close();
  });

  function runUnitStop(): void {
    mkdirSync(join(root, 'bin'), { recursive: true });
    const systemctl = join(root, 'bin/systemctl');
    const job = ' 813 stickpin-clear-mirrors.service stop running';
    writeFileSync(
      systemctl,
      `#!/bin/sh
case "$*" in
  *list-jobs*stickpin.service) ;;
  *list-jobs*) echo '${job}' ;;
  *is-system-running*) echo running ;;
  *) echo "$*" >> ${join(root, 'asked')} ;;
esac
`,
    );
    chmodSync(systemctl, 0o755);
    const env = { PATH: `${join(root, 'bin')}:${process.env.PATH}`, ROOT: root, SERVICE_RESULT: 'success' };
    const { status, stderr } = spawnSync('/bin/sh', [keepMirrors, 'unit'], { env, encoding: 'utf8' });
    expect([status, stderr]).toEqual([0, '']);
  }

  it('that wait behind the socket end, and later ones fall through to the next registry within a second', async () => {
    const never = new AbortController().signal;
    let isEnded = false;
    // While containerd did not read the mirror yet, its test pulls went there.
    const before = askedFor(origin);
    const stalled = cri.pullImage(name, never).finally(() => {
      isEnded = true;
    });
    await expect.poll(() => waiting.size, { timeout: 20_000 }).toBeGreaterThan(0);
    expect([isEnded, askedFor(origin)]).toEqual([false, before]);

    runUnitStop();
    expect(readFileSync(join(root, 'asked'), 'utf8')).toContain('stop stickpin-registry.socket');
    socket.close();
    for (const connection of waiting) connection.resetAndDestroy();
    const closedAt = performance.now();
    await stalled;
    expect(performance.now() - closedAt).toBeLessThan(AT_ONCE_MS);
    expect(askedFor(origin)).toBeGreaterThan(before);

    expect(existsSync(join(containerd.certsDirectory, 'quay.example.com/hosts.toml.stickpin-saved'))).toBe(false);
    const begunAt = performance.now();
    await cri.pullImage(name, never);
    expect(performance.now() - begunAt).toBeLessThan(AT_ONCE_MS);
  });
});
