import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { makeSampleBundle, type SampleBundle, sampleKey } from '../support/bundles/sample-bundle.ts';
import { folderForAll } from '../support/files/temporary-folder.ts';
import { makePackage } from '../support/packages/make-packages.ts';
import { describeMachine } from './machine/describe-machine.ts';
import { installCriPuller, pullAll } from './machine/product/cri-pull.ts';
import { k3sCerts, k3sSocket, startContainerdOfK3s } from './machine/product/k3s.ts';
import { stickpinOn } from './machine/product/node.ts';
import { packagesOn } from './machine/product/packages.ts';
import { makeStick } from './machine/qemu/stick.ts';

/** What registries.yaml has for the registry of the bundle: a mirror that is not to be reached. */
const MIRROR = `server = "https://quay.example.com/v2"

[host."https://mirror.example.com/v2"]
  capabilities = ["pull", "resolve"]
`;
const FILE = `${k3sCerts}/quay.example.com/hosts.toml`;

/**
 * The quick start for k3s in README.md and the removal of the archive in docs/install.md, on a node
 * with a containerd in the folders of k3s. Tests lean on the ones before.
 */
describeMachine('a node laid out as k3s does it', 'booted', (machine) => {
  const node = stickpinOn(machine);
  const { bring, run, expectNothingLeft, expectPull } = packagesOn(machine, 'k3s.service');
  const key = sampleKey('factory-2026');
  const directory = folderForAll();
  let bundle: SampleBundle;

  beforeAll(async () => {
    bundle = await makeSampleBundle({ dir: join(directory, 'stick/stickpin'), keys: [key] });
  });

  const isActivated = () => node.untilPinned('activated', bundle.contents.images.length);

  test('the quick start, and a stick is activated', async () => {
    await startContainerdOfK3s(machine(), { 'quay.example.com': MIRROR });
    await bring(await makePackage('archive', directory));
    await writeFile(join(directory, 'factory-2026.pub'), key.publicPem);
    await bring(join(directory, 'factory-2026.pub'));
    await expect
      .poll(() => run('k3s', 'README.md'))
      .toMatch(/^ok +runtime +containerd \S+ of k3s answers on [\s\S]*IDLE: No bundle yet\. Waiting for a stick\./m);
    const stick = await makeStick({ image: join(directory, 'stick.img'), folder: join(directory, 'stick') });
    const plugged = await machine().plug(stick);
    await isActivated();
    await plugged.unplug();
  });

  test('pulls are answered also after a boot, at which k3s has written its folder of mirrors again', async () => {
    await machine().reboot();
    await isActivated();
    const ours = 'http://127.0.0.1:';
    await machine().until('the mirrors to be there', async () =>
      (await machine().output(`cat ${FILE}`)).includes(ours),
    );
    const pull = await installCriPuller(machine(), k3sSocket);
    const references = bundle.contents.images.map(({ reference }) => reference);
    await pullAll(machine(), pull, references);
  });

  test('is removed with its own command: k3s has its mirrors back and pulls, also after a reboot', async () => {
    const expectRemoved = async () => {
      expect(await machine().output(`cat ${FILE}`)).toContain(MIRROR.trim());
      expect(await machine().output(`ls ${k3sCerts}`)).toBe('quay.example.com');
      await expectNothingLeft();
    };
    await run('archive-remove');
    await expectRemoved();
    await machine().reboot();
    await expectRemoved();
    await expectPull();
  });
});
