import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { commandsOf } from '../support/docs/marked-blocks.ts';
import { makePackage } from '../support/packages/make-packages.ts';
import { describeMachine } from './machine/describe-machine.ts';

const FORMAT = 'test "$(cat /usr/lib/stickpin/format)" = sysext';
const PING = 'busctl call io.stickpin1 /io/stickpin1 org.freedesktop.DBus.Peer Ping';
const OUTSIDE =
  "find /etc /run/crio /run/stickpin -name '*stickpin*' ! -path '/etc/stickpin*' ! -path '/etc/systemd/system/stickpin.service.d*'";

describeMachine('the image for systemd-sysext', 'booted', (machine) => {
  const run = (name: string) =>
    machine().output(`cd /root/packages && ${commandsOf('docs/install.md', name)}`, { timeoutMs: 600_000 });
  const runs = () =>
    machine().untilOutput('stickpin to run', `systemctl is-active stickpin.service && ${FORMAT} && ${PING}`);

  test('is installed, starts at a boot, is updated, and leaves nothing', async () => {
    await machine().output('systemctl enable --now crio.service');
    const directory = await mkdtemp(join(tmpdir(), 'stickpin-sysext-'));
    const image = await machine().share(await makePackage('sysext', directory));
    await rm(directory, { recursive: true });
    await machine().output(`mkdir -p /root/packages && cp ${image} /root/packages/`);
    await run('sysext-install');
    await runs();
    await machine().reboot();
    await runs();
    await run('sysext-update');
    await runs();
    await run('sysext-remove');
    expect((await machine().run(OUTSIDE)).stdout).toBe('');
    await machine().output('systemctl restart crio.service && test ! -e /usr/bin/stickpin');
  });
});
