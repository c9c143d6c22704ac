import { join } from 'node:path';
import { beforeAll, expect, inject, test } from 'vitest';
import { makeSampleBundle, sampleKey } from '../support/bundles/sample-bundle.ts';
import { folderForAll } from '../support/files/temporary-folder.ts';
import { describeMachine } from './machine/describe-machine.ts';
import { installPackage } from './machine/product/install-package.ts';
import { stickpinOn } from './machine/product/node.ts';
import { makeStick } from './machine/qemu/stick.ts';

/** The domain of stickpin's services with Debian's policy (docs/install.md). */
const DOMAIN = 'system_u:system_r:initrc_t:s0';
const RELEASE = 'ocp@4.13.7';
const LINK = '/etc/containers/registries.conf.d/99-stickpin.conf';
/** Has the heap made executable, by brk and mprotect, which neither policy nor module allows. */
const EXECUTE_HEAP = "perl -e '$end = syscall(12, 0); exit(syscall(10, $end - 4096, 4096, 7) == 0 ? 0 : 3)'";

/**
 * Debian's policy in enforcing mode, and containerd. Commands run in the domain of a person who has
 * logged in. Tests lean on the ones before.
 */
describeMachine('a node with SELinux', { boot: 'selinux' }, (machine) => {
  const node = stickpinOn(machine);
  const directory = folderForAll();
  const key = sampleKey();

  beforeAll(async () => {
    await makeSampleBundle({ dir: join(directory, 'medium/stickpin'), keys: [key], schedule: 'manual' });
  });

  /** What was denied to stickpin, in answer to it, or to who makes CRI-O's links, in all boots. */
  async function denied(): Promise<readonly string[]> {
    const lines = await machine().output('journalctl --no-pager --output=cat _TRANSPORT=audit');
    return lines
      .split('\n')
      .filter((line) => /avc: +denied/.test(line) && /:initrc_t:|:container_config_t:/.test(line));
  }
  const domain = () => machine().output('cat /proc/$(systemctl show -P MainPID stickpin)/attr/current | tr -d "\\0"');
  const order = (command: string) => machine().untilOutput(`${command} to be accepted`, `stickpin ${command}`);

  test('the .deb loads the module, and the daemon starts in its domain', async () => {
    await machine().output('systemctl enable --now containerd.service');
    await installPackage(machine(), inject('deb'), { keys: { 'factory-2026': key.publicPem } });
    expect(await machine().output('getenforce')).toBe('Enforcing');
    expect(await machine().output('semodule --list-modules=full')).toMatch(/^200 stickpin +cil/m);
    expect(await domain()).toBe(DOMAIN);
    const labels =
      'stat --format=%C /usr/lib/stickpin/bin/node /usr/lib/stickpin/keep-mirrors /var/lib/stickpin/state.db';
    expect((await machine().output(labels)).match(/\w+_t/g)).toEqual(['bin_t', 'bin_t', 'var_lib_t']);
  });

  test('a stick is verified, loaded, pinned, activated and proven by commands', async () => {
    const stick = await makeStick({ image: join(directory, 'stick.img'), folder: join(directory, 'medium') });
    const plugged = await machine().plug(stick);
    await node.untilPinned('ready', 2);
    await machine().output('setsebool allow_execmem on');
    await order(`activate ${RELEASE}`);
    await node.untilPinned('activated', 2);
    await order(`prove ${RELEASE}`);
    await node.untilPinned('proven', 2);
    await plugged.unplug();
    await machine().untilOutput('the stick to be gone', 'test -z "$(ls /run/stickpin/media)"');
    expect(await machine().output('stickpin status')).toContain('IDLE: ocp 4.13.7');
    expect(await machine().output('stickpin doctor')).toMatch(/^ok +daemon +the daemon answers$/m);
  });

  test('a restart and a reboot, which makes the links of CRI-O again, change nothing', async () => {
    await machine().output('systemctl restart stickpin');
    await node.untilPinned('proven', 2);
    await machine().output(`rm ${LINK}`);
    await machine().reboot();
    await node.untilPinned('proven', 2);
    expect(await machine().output('getenforce')).toBe('Enforcing');
    expect(await domain()).toBe(DOMAIN);
    expect(await machine().output(`readlink ${LINK}`)).toBe('/run/stickpin/registries.conf');
  });

  test('nothing was denied in the whole journal, and what is, is found', async () => {
    expect(await denied()).toEqual([]);
    expect(await machine().run(`runcon ${DOMAIN} ${EXECUTE_HEAP}`)).toMatchObject({ exitCode: 3 });
    await expect.poll(denied).toEqual([expect.stringContaining('{ execheap }')]);
  });
});
