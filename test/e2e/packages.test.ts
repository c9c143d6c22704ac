import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { makeSampleBundle, type SampleBundle, sampleKey } from '../support/bundles/sample-bundle.ts';
import { sampleImage, sampleLayer } from '../support/bundles/sample-image.ts';
import { folderForAll } from '../support/files/temporary-folder.ts';
import { makePackage } from '../support/packages/make-packages.ts';
import { describeMachine } from './machine/describe-machine.ts';
import { guestPackage } from './machine/product/install-package.ts';
import { crioConfiguration, stickpinOn } from './machine/product/node.ts';
import { packagesOn } from './machine/product/packages.ts';
import { makeStick } from './machine/qemu/stick.ts';

const MIB = 1024 * 1024;
const MIRRORS = '/run/stickpin/registries.conf';

/**
 * The archive and then the .deb on a node with CRI-O, by the commands of docs/install.md. The node
 * boots again after the update and after the removal. Tests lean on the ones before.
 */
describeMachine('packages on a node', 'booted', (machine) => {
  const node = stickpinOn(machine);
  const { folder, bring, run, ...packages } = packagesOn(machine, 'crio.service');
  const key = sampleKey('factory-2026');
  const directory = folderForAll();
  let bundle: SampleBundle;

  beforeAll(async () => {
    const layer = sampleLayer({ seed: 'large', sizeBytes: 16 * MIB });
    bundle = await makeSampleBundle({
      dir: join(directory, 'stick/stickpin'),
      keys: [key],
      images: [{ reference: 'quay.example.com/ocp/etcd:4.13.7', image: sampleImage({ seed: 'it', layers: [layer] }) }],
    });
  });

  const isPinned = () => node.untilPinned('activated', bundle.contents.images.length);

  const starts = async () =>
    (await node.journal()).filter(({ MESSAGE }) => MESSAGE?.startsWith('stickpin started;')).length;

  /** CRI-O starts and pulls, and reads no word of ours. */
  async function expectNothingLeft(): Promise<void> {
    await packages.expectNothingLeft();
    expect(await crioConfiguration(machine())).not.toContain(bundle.contents.images[0]?.reference ?? '');
  }

  test('the archive: installed, and a stick is being read', async () => {
    await machine().output('systemctl enable --now crio.service');
    await bring(await makePackage('archive', directory));
    await writeFile(join(directory, 'factory-2026.pub'), key.publicPem);
    await bring(join(directory, 'factory-2026.pub'));
    await run('archive-install');
    await machine().until('the first steps to find no fault', async () => (await run('first-steps')) !== '');
    const stick = await makeStick({ image: join(directory, 'stick.img'), folder: join(directory, 'stick') });
    await machine().plug(stick, { bytesPerSecond: MIB / 4 });
    await node.until('the transfer', ({ bundles: [entry] }) => entry !== undefined && entry.phase !== 'detected');
  });

  test('the .deb over the archive: one restart, and the transfer goes on', async () => {
    await machine().output(`cp ${guestPackage} ${folder}/stickpin_0_amd64.deb`);
    await run('deb-install');
    await isPinned();
    await expect.poll(starts).toBe(2);
    expect(await machine().output('systemctl show --property=NRestarts --value stickpin')).toBe('0');
    expect(await machine().output('cat /usr/lib/stickpin/format')).toBe('deb');
  });

  test('after a reboot everything is as it was; the same .deb again is one restart', async () => {
    await machine().reboot();
    await isPinned();
    await expect.poll(starts).toBe(1);
    const quickStart = async () => (await run('crio', 'README.md')).includes('ocp 4.13.7');
    await machine().until('the quick start to find no fault', quickStart);
    await machine().output(`dpkg --install ${guestPackage}`);
    await isPinned();
    await expect.poll(starts).toBe(2);
    const enabled = 'systemctl is-enabled stickpin.service stickpin-registry.socket stickpin-clear-mirrors.service';
    expect(await machine().output(enabled)).toBe('enabled\nenabled\nenabled');
  });

  test('the .deb is removed: CRI-O starts and pulls without it, also after a reboot; the state stays until the purge', async () => {
    await run('deb-remove');
    await expectNothingLeft();
    expect(await machine().run(`cat ${MIRRORS}`)).toMatchObject({ exitCode: 1 });
    await machine().reboot();
    await expectNothingLeft();
    await packages.expectPull();
    await machine().output('test -s /var/lib/stickpin/state.db && test -s /etc/stickpin/keys.d/factory-2026.pub');
    await run('deb-purge');
    expect(await machine().run('ls /etc/stickpin /var/lib/stickpin')).toMatchObject({ exitCode: 2, stdout: '' });
  });
});
