import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { parseReference } from '../../../src/domain/model/reference.ts';
import { createBundle } from '../../../src/factory/create-bundle.ts';
import { hostArch, type SampleKey } from './sample-bundle.ts';
import { sampleImage, sampleLayer, writeOciLayout } from './sample-image.ts';

const MIB = 1024 * 1024;

/**
 * Makes ocp 4.13.7: three images that share a base, spread over as many volumes as they take.
 *
 * @returns the paths of the volumes, in order
 */
export async function makeSpreadBundle({
  folder,
  key,
  volumeBytes,
}: {
  readonly folder: string;
  readonly key: SampleKey;
  readonly volumeBytes: number;
}): Promise<readonly string[]> {
  const names = ['etcd', 'api', 'dns'].map((name) => `quay.example.com/ocp/${name}:1.0.0`);
  const layout = join(folder, 'layout');
  const images = names.map((name) => ({
    names: [name],
    image: sampleImage({
      seed: name,
      architecture: hostArch,
      layers: [sampleLayer({ seed: 'base', sizeBytes: MIB }), sampleLayer({ seed: name, sizeBytes: 3 * MIB })],
    }),
  }));
  writeOciLayout(layout, images);
  const out = join(folder, 'ocp-4.13.7');
  await createBundle(
    {
      out,
      name: 'ocp',
      version: '4.13.7',
      arch: hostArch,
      sequence: 1,
      created: '2026-01-01T00:00:00Z',
      volumeBytes,
      images: names.map((name) => ({
        reference: parseReference(name),
        source: { kind: 'layout', directory: layout, selector: { kind: 'name', name } },
      })),
      keys: [key.privateKey],
    },
    new AbortController().signal,
  );
  return readdirSync(out)
    .sort()
    .map((name) => join(out, name));
}
