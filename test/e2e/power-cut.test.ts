import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import type { Phase } from '../../src/domain/model/condition.ts';
import { hexOf } from '../../src/domain/model/digest.ts';
import { makeSampleBundle, type SampleBundle, sampleKey } from '../support/bundles/sample-bundle.ts';
import { sampleImage, sampleLayer } from '../support/bundles/sample-image.ts';
import { expectConsistentState, readStateScript, type StateRows } from '../support/daemon/model/node-consistency.ts';
import { folderForAll } from '../support/files/temporary-folder.ts';
import { describeMachine } from './machine/describe-machine.ts';
import { startInstalled } from './machine/product/install-package.ts';
import { stickpinOn } from './machine/product/node.ts';
import { makeStick, type Stick } from './machine/qemu/stick.ts';
import type { PluggedStick } from './machine/qemu/usb.ts';

const MIB = 1024 * 1024;
const SECTOR_BYTES = 512;
const MIRRORS = '/etc/containers/registries.conf.d/99-stickpin.conf';

/**
 * Power cuts at three moments, with the stick left in: CRI-O's double wipes its storage at the boot
 * after each (docs/runtime-facts.md, fact 11). Then a stick with bad sectors. Tests lean on the
 * ones before.
 */
describeMachine('a node that loses power', 'installed', (machine) => {
  const node = stickpinOn(machine);
  const key = sampleKey('factory-2026');
  const directory = folderForAll();
  let first: SampleBundle;
  let second: SampleBundle;
  let plugged: PluggedStick;

  const make = (version: string, sequence: number): Promise<SampleBundle> => {
    const base = sampleLayer({ seed: `base-${version}`, sizeBytes: 8 * MIB });
    return makeSampleBundle({
      dir: join(directory, version, 'stickpin'),
      version,
      sequence,
      schedule: 'manual',
      keys: [key],
      images: ['etcd', 'api'].map((name) => ({
        reference: `quay.example.com/ocp/${name}:${version}`,
        image: sampleImage({
          seed: `${name}-${version}`,
          layers: [base, sampleLayer({ seed: `${name}-${version}`, sizeBytes: 8 * MIB })],
        }),
      })),
    });
  };
  const stickWith = (version: string): Promise<Stick> =>
    makeStick({
      image: join(directory, `${version}.img`),
      folder: join(directory, version),
      filesystem: 'ext4',
    });
  const state = async (): Promise<StateRows> => {
    const script = `const Database = require('better-sqlite3');
      const database = new Database('/var/lib/stickpin/state.db', { readonly: true });
      console.log(JSON.stringify((${readStateScript})(database)));`;
    await machine().putFile('/usr/lib/stickpin/read-state.cjs', script);
    return JSON.parse(
      await machine().output('/usr/lib/stickpin/bin/node /usr/lib/stickpin/read-state.cjs'),
    ) as StateRows;
  };
  const isPinned = ({ bundleId }: SampleBundle, phase: Phase) => node.untilPinned(phase, 2, bundleId);
  /** Every image there and pinned, its mirrors in place, and no line of history lost. */
  const becomesWhole = async (bundle: SampleBundle, phase: Phase) => {
    await isPinned(bundle, phase);
    await machine().untilOutput('the mirrors to be there', `grep --quiet '\\[\\[registry\\]\\]' ${MIRRORS}`);
    expectConsistentState(await state());
  };

  beforeAll(async () => {
    [first, second] = await Promise.all([make('4.13.7', 1), make('4.13.8', 2)]);
  });

  test('is set up', async () => {
    await machine().output('systemctl enable --now crio.service');
    await startInstalled(machine(), { keys: { 'factory-2026': key.publicPem } });
    expect(await machine().output('systemctl is-active stickpin')).toBe('active');
  });

  test('power cuts in the middle of a blob and after the first image: the preload is complete after the next boot', async () => {
    plugged = await machine().plug(await stickWith('4.13.7'), { bytesPerSecond: MIB / 2 });
    await node.until('some megabytes to be there', ({ progress }) => progress.doneBytes > 3 * MIB);
    await machine().powerCut();
    await node.until('an image to be there', ({ bundles: [entry] }) => (entry?.images.present ?? 0) > 0);
    await machine().powerCut();
    await becomesWhole(first, 'ready');
  });

  test('a power cut during activation: the release is activated after the next boot, and was recorded as ready once', async () => {
    const before = await machine().until('the record', async () => (await state()).bundles[0]?.ready_at ?? undefined);
    // It is refused while CRI-O does not answer.
    await machine().untilOutput('the request to be taken', 'stickpin activate ocp@4.13.7');
    await machine().powerCut();
    await becomesWhole(first, 'activated');
    expect((await state()).bundles[0]?.ready_at).toBe(before);
    const tags = first.contents.images.flatMap((image) => image.tags);
    await machine().until('the tags to be stored', async () => {
      const stored = await machine().output('cat /var/lib/containers/storage/*-images/images.json');
      return tags.every((tag) => stored.includes(`"${tag}"`));
    });
    await plugged.unplug();
  });

  test('a stick with bad sectors: the blob is named, no wrong image is stored, and a good stick continues', async () => {
    const stick = await stickWith('4.13.8');
    const layer = second.images[0]?.image.layers[1];
    const bytes = layer?.bytes ?? Buffer.alloc(0);
    // In the middle of a layer, at the start of a block of the filesystem.
    const offset = (await readFile(stick.image)).indexOf(bytes.subarray(4 * MIB, 4 * MIB + 4096));
    expect(offset).toBeGreaterThan(0);
    const sector = offset / SECTOR_BYTES;
    plugged = await machine().plug(stick, { badSectors: [sector] });
    const digits = hexOf(layer?.digest as never).slice(0, 12);
    const named = await node.until(
      'the blob to be named',
      ({ advice: { text } }) => text.includes(digits) && /can't be read|could not be read/.test(text),
    );
    expect(named.bundles.find(({ bundleId }) => bundleId === second.bundleId)?.images.present).toBeLessThan(2);
    expect(await machine().output('systemctl show --property=NRestarts --value stickpin')).toBe('0');
    await plugged.unplug();
    plugged = await machine().plug(stick);
    await becomesWhole(second, 'ready');
    await isPinned(first, 'activated');
  });
});
