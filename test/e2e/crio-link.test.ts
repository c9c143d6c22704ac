import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { makeSampleBundle, type SampleBundle, sampleKey } from '../support/bundles/sample-bundle.ts';
import { folderForAll } from '../support/files/temporary-folder.ts';
import { describeMachine } from './machine/describe-machine.ts';
import { startInstalled } from './machine/product/install-package.ts';
import { crioConfiguration, stickpinOn } from './machine/product/node.ts';
import { makeStick } from './machine/qemu/stick.ts';

const LINK = '/etc/crio/crio.conf.d/99-stickpin.conf';
const PINS = '/run/crio/crio.conf.d/99-stickpin.conf';
/**
 * Everything that the package lays into /usr, as an image of the system or an extension would carry
 * it.
 */
const PROGRAM =
  '/usr/lib/stickpin /usr/bin/stickpin /usr/lib/systemd/system/stickpin*.service /usr/lib/systemd/system/stickpin-registry.socket /usr/lib/tmpfiles.d/stickpin*.conf /usr/lib/udev/rules.d/90-stickpin.rules';

/**
 * CRI-O does not start with a link to nowhere in its drop-in directory (docs/runtime-facts.md, fact
 * 2). Whatever happens to what is ours on the node, it must start, and with the pins that should be
 * there. Tests lean on the ones before.
 */
describeMachine('a node whose stickpin is damaged', 'installed', (machine) => {
  const node = stickpinOn(machine);
  const key = sampleKey('factory-2026');
  const directory = folderForAll();
  let bundle: SampleBundle;

  beforeAll(async () => {
    bundle = await makeSampleBundle({ dir: join(directory, 'medium/stickpin'), keys: [key] });
  });

  const isPinned = () => node.untilPinned('activated', bundle.contents.images.length);

  /** The real test of a start: CRI-O runs, nothing dangles, and it has read the pins by itself. */
  async function expectStarted(withPins: boolean): Promise<void> {
    await machine().untilOutput('CRI-O to be active', 'systemctl is-active crio');
    expect(await machine().output('find -L /etc/crio/crio.conf.d -type l')).toBe('');
    const config = await crioConfiguration(machine());
    for (const { reference } of bundle.contents.images) expect(config.includes(reference)).toBe(withPins);
  }

  const restartCrio = () => machine().output('systemctl restart crio.service');

  test('starts for the first time, with the link in place and nothing to pin', async () => {
    await startInstalled(machine(), { keys: { 'factory-2026': key.publicPem } });
    await machine().output('systemctl enable --now crio.service');
    expect(await machine().output(`readlink ${LINK}`)).toBe(PINS);
    await expectStarted(false);
    const stick = await makeStick({ image: join(directory, 'stick.img'), folder: join(directory, 'medium') });
    const plugged = await machine().plug(stick);
    await isPinned();
    await plugged.unplug();
  });

  test('stickpin doctor finds nothing wrong on an installed node; it reports a dangling link, and its advice repairs it', async () => {
    const doctor = () => machine().run('stickpin doctor');
    // A look that takes too long on a busy machine is a fault, too.
    await machine().until('doctor to find nothing wrong', async () => {
      const { exitCode, stdout, stderr } = await doctor();
      if (exitCode !== 0) throw new Error(stdout);
      expect(stderr).toBe('');
      expect(stdout).toMatch(new RegExp(`\nok +crio link +${LINK} leads to ${PINS}\n`));
      expect(stdout).toMatch(/\nok +units +stickpin\.service runs\nok +units +stickpin-registry\.socket runs\n/);
      expect(stdout).toMatch(/\nok +crio pins +2 images are pinned, and no file of others takes them away\n/);
      return true;
    });
    await machine().output(`systemctl stop stickpin.service && mv ${PINS} /root/pins.conf`);
    const advice = await machine().until('doctor to find both faults', async () => {
      const { exitCode, stdout, stderr } = await doctor();
      expect(exitCode).toBe(1);
      const [, run = ''] =
        /^FAULT +crio link +(.*)$/m
          .exec(stdout)?.[1]
          ?.match(new RegExp(`^${LINK} leads to nothing: CRI-O would not start\\. What to do: run (.*)\\.$`)) ?? [];
      expect(run, stdout).toMatch(/^systemd-tmpfiles --create /);
      expect(stdout).toMatch(
        /^FAULT +units +stickpin\.service is inactive\. What to do: run systemctl start stickpin\.service/m,
      );
      expect(stderr).toMatch(/^stickpin: \d faults found; each says what to do\n$/);
      return run;
    });
    await machine().output(advice);
    await machine().output(`test -f ${LINK}`);
  });

  test('starts with its pins after /run/crio was emptied by hand', async () => {
    await machine().output('systemctl stop stickpin.service && rm -rf /run/crio/*');
    await restartCrio();
    await expectStarted(true);
  });

  test('starts with its pins under a unit that has RuntimeDirectory=crio, which empties /run/crio at each stop', async () => {
    await machine().putFile('/etc/systemd/system/crio.service.d/50-test.conf', '[Service]\nRuntimeDirectory=crio\n');
    await machine().output('systemctl daemon-reload && systemctl stop crio.service && test ! -e /run/crio');
    await restartCrio();
    await expectStarted(true);
    await machine().output('rm /etc/systemd/system/crio.service.d/50-test.conf && systemctl daemon-reload');
  });

  test('starts with its pins after a boot without the part in /usr', async () => {
    await machine().output(`mkdir /root/away && cp -a --parents ${PROGRAM} /root/away && rm -rf ${PROGRAM}`);
    await machine().reboot();
    expect(await machine().run('stickpin status')).toMatchObject({ exitCode: 127 });
    await expectStarted(true);
    await machine().output(
      'cp -a /root/away/usr/. /usr/ && systemctl daemon-reload && systemctl start stickpin-registry.socket stickpin',
    );
    await isPinned();
  });

  test('starts without /var/lib/stickpin: with the pins that /run holds, or without pins when /run is empty too', async () => {
    await machine().output('systemctl stop stickpin.service && rm -rf /var/lib/stickpin');
    await restartCrio();
    await expectStarted(true);
    await machine().output('rm -rf /run/crio/*');
    await restartCrio();
    await expectStarted(false);
  });

  test('starts after the package was removed, without any file of stickpin', async () => {
    await machine().output('systemctl start stickpin.service && dpkg --remove stickpin');
    await machine().reboot();
    await expectStarted(false);
    expect(await machine().run(`ls ${LINK} /etc/systemd/system/crio.service.d/10-stickpin.conf`)).toMatchObject({
      exitCode: 2,
      stdout: '',
    });
  });
});
