import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { createBundle } from '../../../src/bundle/create/create-bundle.ts';
import { parseReference } from '../../../src/domain/reference.ts';
import { createDaemonHarness, type DaemonHarness } from '../../support/daemon-harness.ts';
import { hostArch } from '../../support/sample-bundle.ts';
import { sampleImage, sampleLayer, writeOciLayout } from '../../support/sample-image.ts';

const MIB = 1024 * 1024;
let harness: DaemonHarness;
let factory: string;

beforeEach(async () => {
  factory = mkdtempSync(join(tmpdir(), 'stickpin-factory-'));
  harness = await createDaemonHarness();
});
afterEach(async () => {
  await harness.dispose();
  rmSync(factory, { recursive: true, force: true });
});

it('a bundle spread over two sticks is taken from one after the other, through one port', async () => {
  const names = ['etcd', 'api', 'dns'].map((name) => `quay.example.com/ocp/${name}:1.0.0`);
  const layout = join(factory, 'layout');
  const images = names.map((name) => ({
    names: [name],
    image: sampleImage({
      seed: name,
      architecture: hostArch,
      layers: [sampleLayer({ seed: 'base', sizeBytes: MIB }), sampleLayer({ seed: name, sizeBytes: 3 * MIB })],
    }),
  }));
  writeOciLayout(layout, images);
  const out = join(factory, 'ocp-4.13.7');
  await createBundle(
    {
      out,
      name: 'ocp',
      version: '4.13.7',
      arch: hostArch,
      sequence: 1,
      created: '2026-01-01T00:00:00Z',
      volumeBytes: 7 * MIB,
      images: names.map((name) => ({
        reference: parseReference(name),
        source: { kind: 'layout', directory: layout, selector: { kind: 'name', name } },
      })),
      keys: [harness.key.privateKey],
    },
    new AbortController().signal,
  );
  expect(readdirSync(out).sort()).toEqual(['1', '2']);
  await harness.start();
  harness.plug(join(out, '1'));
  const held = await harness.until((report) => report.bundles[0]?.hold === 'media');
  expect(held.status).toMatch(/lacks \d+ blobs?, first sha256:.*\(absent\).*Plug in the stick that carries the rest/);
  harness.unplug();
  harness.plug(join(out, '2'));
  const done = await harness.until((report) => report.bundles[0]?.phase === 'activated');
  expect(done.bundles[0]?.images).toEqual({ total: 3, present: 3, pinned: 3 });
});
