import { writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { makeSampleBundle, type SampleBundle, sampleKey } from '../support/bundles/sample-bundle.ts';
import { folderForAll } from '../support/files/temporary-folder.ts';
import { laterVersion, makePackage } from '../support/packages/make-packages.ts';
import { describeMachine } from './machine/describe-machine.ts';
import { stickpinOn } from './machine/product/node.ts';
import { packagesOn } from './machine/product/packages.ts';
import { makeStick } from './machine/qemu/stick.ts';

/** The version of the update. */
const NEWER = laterVersion(99);
/** Debian's rpm knows nothing of the libraries that dpkg has installed. */
const RPM = '#!/bin/sh\nexec /usr/bin/rpm --nodeps "$@"\n';

/**
 * The .rpm on one node with CRI-O, by the commands of docs/install.md, with Debian's rpm and a
 * reboot after each step. Tests lean on the ones before.
 */
describeMachine('the .rpm on a node', 'booted', (machine) => {
  const node = stickpinOn(machine);
  const { folder, bring, run, expectNothingLeft, expectPull } = packagesOn(machine, 'crio.service');
  const key = sampleKey('factory-2026');
  const directory = folderForAll();
  let bundle: SampleBundle;

  beforeAll(async () => {
    bundle = await makeSampleBundle({ dir: join(directory, 'stick/stickpin'), keys: [key], schedule: 'manual' });
  });

  const isReady = () => node.untilPinned('ready', bundle.contents.images.length);
  const version = () => machine().output(`/usr/bin/rpm --query --queryformat '%{VERSION}' stickpin`);

  test('is installed, and a stick goes to ready', async () => {
    await machine().output('systemctl enable --now crio.service');
    await machine().putFile('/usr/local/bin/rpm', RPM, 0o755);
    const older = await makePackage('rpm', directory);
    await bring(older);
    await writeFile(join(directory, 'factory-2026.pub'), key.publicPem);
    await bring(join(directory, 'factory-2026.pub'));
    await run('rpm-install');
    await machine().until('the first steps to find no fault', async () => (await run('first-steps')) !== '');
    expect(await machine().output('cat /usr/lib/stickpin/format')).toBe('rpm');
    const stick = await makeStick({ image: join(directory, 'stick.img'), folder: join(directory, 'stick') });
    await machine().plug(stick);
    await isReady();
    await machine().output(`rm ${folder}/${basename(older)}`);
  });

  test('starts at a boot and has kept its release, also after an update', async () => {
    await machine().reboot();
    await isReady();
    await bring(await makePackage('rpm', directory, NEWER));
    await run('rpm-install');
    expect(await version()).toBe(NEWER);
    await isReady();
    await machine().reboot();
    await isReady();
    expect(await machine().output('rpm --verify stickpin')).toBe('');
  });

  test('is removed: CRI-O starts and pulls without it, also after a reboot; the state stays', async () => {
    await run('rpm-remove');
    await expectNothingLeft();
    await machine().reboot();
    await expectNothingLeft();
    await expectPull();
    await machine().output('test -s /var/lib/stickpin/state.db && test -s /etc/stickpin/keys.d/factory-2026.pub');
    await run('rpm-purge');
    expect(await machine().run('ls /etc/stickpin /var/lib/stickpin')).toMatchObject({ exitCode: 2, stdout: '' });
  });
});
