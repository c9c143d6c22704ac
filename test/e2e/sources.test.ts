import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { makeSampleBundle, sampleKey } from '../support/bundles/sample-bundle.ts';
import { folderForAll } from '../support/files/temporary-folder.ts';
import { dockerRegistryProgram, HTPASSWD, startDockerRegistry } from '../support/registry/docker-registry.ts';
import { makeTls } from '../support/registry/tls.ts';
import { execute } from '../support/rootfs/execute.ts';
import { runCommand } from '../support/run-command.ts';
import { describeMachine } from './machine/describe-machine.ts';
import { startInstalled } from './machine/product/install-package.ts';
import { stickpinOn } from './machine/product/node.ts';

const HOST = '127.0.0.1:5443';
const UNIT = 'stickpin-sources.service';
const CREDENTIAL = '/etc/stickpin/registry-auth.json';

/**
 * docs/link.md on a real machine: the unit with its sandbox, its own user and the credentials that
 * systemd gives it. The registry, with TLS and a password, runs on the machine too, which has no
 * network.
 */
describeMachine('a node that follows a registry', 'installed', (machine) => {
  const node = stickpinOn(machine);
  const key = sampleKey('factory-2026');
  const work = folderForAll();

  beforeAll(async () => {
    const { path } = await makeSampleBundle({ dir: join(work, 'stickpin'), keys: [key] });
    const registry = await startDockerRegistry({ folder: work });
    const pushed = await runCommand([
      ...['bundle', 'push', path, `${registry.host}/bundles/ocp:4.13`, '--tls-verify=false'],
    ]);
    await registry.close();
    expect(pushed).toMatchObject({ exitCode: 0 });
    await serveOnMachine();
  });

  async function serveOnMachine(): Promise<void> {
    const tls = makeTls(work);
    const served = join(work, 'served');
    mkdirSync(served);
    await execute(['cp', '-a', join(work, 'storage'), await dockerRegistryProgram(), tls.key, tls.certificate, served]);
    writeFileSync(join(served, 'htpasswd'), HTPASSWD);
    const config = {
      version: 0.1,
      log: { level: 'error', accesslog: { disabled: true } },
      storage: { filesystem: { rootdirectory: '/srv/registry/storage' } },
      http: { addr: HOST, tls: { key: '/srv/registry/tls.key', certificate: '/srv/registry/tls.crt' } },
      auth: { htpasswd: { realm: 'test', path: '/srv/registry/htpasswd' } },
    };
    writeFileSync(join(served, 'config.yml'), JSON.stringify(config));
    const packed = join(work, 'served.tar');
    await execute(['tar', '--create', '--file', packed, '--directory', served, '.']);
    const tar = await machine().share(packed);
    await machine().output(`mkdir -p /srv/registry && tar --extract --file ${tar} --directory /srv/registry`);
    const start = 'systemd-run --unit=registry --setenv=OTEL_TRACES_EXPORTER=none';
    await machine().output(`${start} /srv/registry/docker-registry serve /srv/registry/config.yml`);
  }

  const statusOfUnit = () => machine().output(`systemctl show --property=StatusText --value ${UNIT}`);

  test('shows what is wrong while it has no password', async () => {
    await machine().output(
      'systemctl enable --now crio.service && cp /srv/registry/tls.crt /etc/stickpin/registry.crt',
    );
    const configuration = [
      '[sources.vendor]',
      `reference = "${HOST}/bundles/ocp:4.13"`,
      'ca = "/etc/stickpin/registry.crt"',
      `authfile = "/run/credentials/${UNIT}/auth.json"`,
    ].join('\n');
    await startInstalled(machine(), { keys: { 'factory-2026': key.publicPem }, configuration });
    await machine().output(`systemctl enable --now ${UNIT}`);
    await expect.poll(statusOfUnit).toMatch(/nothing yet \(.*auth\.json/);
  });

  test('loads the release with credentials of systemd, as a user of its own, and activates it', async () => {
    const auth = Buffer.from('ann:secret').toString('base64');
    await machine().putFile(CREDENTIAL, JSON.stringify({ auths: { [HOST]: { auth } } }), 0o600);
    const dropIn = `/etc/systemd/system/${UNIT}.d/credentials.conf`;
    await machine().putFile(dropIn, `[Service]\nLoadCredential=auth.json:${CREDENTIAL}\n`);
    await machine().output(`systemctl daemon-reload && systemctl restart ${UNIT}`);
    await node.until('the release', (report) => report.bundles[0]?.phase === 'activated');
    await expect.poll(statusOfUnit).toBe(`${HOST}/bundles/ocp:4.13: ocp 4.13.7.`);
    const user = await machine().output(`ps -o user= -p $(systemctl show --property=MainPID --value ${UNIT})`);
    expect(user).not.toBe('root');
    const told = await machine().output(`journalctl --boot --unit=${UNIT} --unit=stickpin --no-pager --all`);
    expect(told).not.toContain(auth);
    expect(told).not.toContain('secret');
  });

  test('is seen by doctor, and comes back after a reboot', async () => {
    await expect
      .poll(() => machine().output('stickpin doctor || true'))
      .toContain(`${HOST}/bundles/ocp:4.13 is ocp 4.13.7`);
    await machine().reboot();
    await machine().untilOutput('the unit to be active', `systemctl is-active ${UNIT}`);
    await node.until('the runtime', (report) => report.runtime.reachable && report.bundles[0]?.phase === 'activated');
  });
});
