import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { makeSampleBundle, type SampleBundle, sampleKey } from '../support/bundles/sample-bundle.ts';
import { folderForAll } from '../support/files/temporary-folder.ts';
import { makePackage } from '../support/packages/make-packages.ts';
import { describeMachine } from './machine/describe-machine.ts';
import { stickpinOn } from './machine/product/node.ts';
import { packagesOn } from './machine/product/packages.ts';
import { makeStick } from './machine/qemu/stick.ts';

const FORMAT = 'cat /usr/lib/stickpin/format';

/**
 * The image on one node with CRI-O, by the commands of docs/install.md, with a reboot after each
 * step. Tests lean on the ones before.
 */
describeMachine('the image for systemd-sysext', 'booted', (machine) => {
  const node = stickpinOn(machine);
  const { bring, run, expectNothingLeft, expectPull } = packagesOn(machine, 'crio.service');
  const key = sampleKey('factory-2026');
  const directory = folderForAll();
  let bundle: SampleBundle;

  beforeAll(async () => {
    bundle = await makeSampleBundle({ dir: join(directory, 'stick/stickpin'), keys: [key], schedule: 'manual' });
  });

  const isReady = () => node.untilPinned('ready', bundle.contents.images.length);

  test('is installed, and a stick goes to ready', async () => {
    await machine().output('systemctl enable --now crio.service');
    await bring(await makePackage('sysext', directory));
    await writeFile(join(directory, 'factory-2026.pub'), key.publicPem);
    await bring(join(directory, 'factory-2026.pub'));
    await run('sysext-install');
    await machine().until('the first steps to find no fault', async () => (await run('first-steps')) !== '');
    expect(await machine().output(FORMAT)).toBe('sysext');
    const stick = await makeStick({ image: join(directory, 'stick.img'), folder: join(directory, 'stick') });
    await machine().plug(stick);
    await isReady();
  });

  test('starts at a boot and has kept its release, also after an update', async () => {
    await machine().reboot();
    await isReady();
    await run('sysext-update');
    await isReady();
    await machine().reboot();
    await isReady();
    expect(await machine().output(FORMAT)).toBe('sysext');
  });

  test('is removed: CRI-O starts and pulls without it, also after a reboot', async () => {
    await run('sysext-remove');
    await expectNothingLeft();
    await machine().reboot();
    await expectNothingLeft();
    await expectPull();
    await machine().output('test -s /var/lib/stickpin/state.db && test -s /etc/stickpin/keys.d/factory-2026.pub');
  });
});
