import { linkSync, mkdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { storedBlob, writeRegistryStorage } from '../../support/bundles/registry-storage.ts';
import { makeSampleBundle, type SampleBundle, sampleKey } from '../../support/bundles/sample-bundle.ts';
import { writeOciLayout } from '../../support/bundles/sample-image.ts';
import { execute } from '../../support/rootfs/execute.ts';
import { seededRandom } from '../../support/seeded-random.ts';
import { type LayeredImages, layeredImages, PRELOAD_IMAGES } from '../preload/layered-images.ts';
import { sized } from '../size.ts';

const GIB = 1024 ** 3;
/** The disk with the bundle and the tar, a registry's copy, and containerd's blobs and files. */
const COPIES_AT_ONCE = 5;

/** As many images, and as many bytes of layers, as a release of OpenShift has. */
const OPENSHIFT_IMAGES: LayeredImages = sized(
  {
    sharedMiB: [82, 134, 61, 205, 148],
    images: 190,
    ownMiB: logNormal({ count: 190, total: 7_562, seed: 190 }),
  },
  { sharedMiB: [1, 2], images: 6, ownMiB: logNormal({ count: 6, total: 4, seed: 190 }) },
);

/** The sets of images that are measured, by their names on the command line. */
export const SETS = { small: PRELOAD_IMAGES, openshift: OPENSHIFT_IMAGES } as const;
export type SetName = keyof typeof SETS;

/** A stick with the same images in each form that a way reads. */
export interface Stick {
  readonly bundle: SampleBundle;
  /** An OCI layout with the `manifest.json` of `docker save`: `ctr`, Docker and Podman take it. */
  readonly tar: string;
  /** The storage of a registry of the distribution project. Its blobs are those of the bundle. */
  readonly registry: string;
}

/**
 * Writes the files of a stick into `medium`. Layers go to the disk one by one, so that memory does
 * not limit the set.
 *
 * @throws Error when `folder`, which holds the medium, lacks the space to measure with it
 */
export async function writeStick(name: SetName, folder: string, medium: string): Promise<Stick> {
  needSpace(name, folder);
  const layout = join(folder, 'layout');
  const blobs = join(layout, 'blobs/sha256');
  mkdirSync(blobs, { recursive: true });
  const stored = new Set<string>();
  const images = layeredImages(SETS[name], (layer) => {
    writeFileSync(join(blobs, layer.digest.slice('sha256:'.length)), layer.bytes);
    stored.add(layer.digest);
    return { ...layer, bytes: Buffer.alloc(0) };
  });
  const entries = images.map(({ image, reference }) => ({ image, names: [reference] }));
  writeOciLayout(layout, entries, { omit: [...stored] });
  const dir = join(medium, 'stickpin');
  const bundle = await makeSampleBundle({ dir, keys: [sampleKey()], images, layout, schedule: 'manual' });
  const stick = { bundle, tar: join(medium, 'images.tar'), registry: join(medium, 'registry') };
  const path = (digest: string) => `blobs/sha256/${digest.slice('sha256:'.length)}`;
  const saved = images.map(({ image, reference }) => ({
    Config: path(image.config.digest),
    RepoTags: [reference],
    Layers: image.layers.map(({ digest }) => path(digest)),
  }));
  writeFileSync(join(layout, 'manifest.json'), JSON.stringify(saved));
  const parts = ['oci-layout', 'index.json', 'manifest.json', 'blobs'];
  await execute(['tar', '--create', '--file', stick.tar, '--directory', layout, ...parts]);
  rmSync(layout, { recursive: true });
  writeRegistryStorage(
    stick.registry,
    images.map(({ image, reference }) => ({ repository: reference.replace(/:.*/, ''), image, tags: ['1.0.0'] })),
  );
  for (const digest of stored) {
    const data = storedBlob(stick.registry, { digest });
    rmSync(data);
    linkSync(join(bundle.path, path(digest)), data);
  }
  return stick;
}

/** The same stick where its files are mounted. */
export function stickAt(mounted: string, medium: string, { bundle, tar, registry }: Stick): Stick {
  const at = (path: string) => join(mounted, relative(medium, path));
  return { bundle: { ...bundle, path: at(bundle.path) }, tar: at(tar), registry: at(registry) };
}

function needSpace(name: SetName, folder: string): void {
  const { sharedMiB, images, ownMiB } = SETS[name];
  const own = typeof ownMiB === 'number' ? Array.from({ length: images }, () => ownMiB) : ownMiB;
  const needed = (COPIES_AT_ONCE * [...sharedMiB, ...own].reduce((a, b) => a + b)) / 1024 + 1;
  const { bavail, bsize } = statfsSync(folder);
  const free = (bavail * bsize) / GIB;
  if (free > needed) return;
  const advice = `Free some, or measure the small set: npm run bench -- stick-to-ready page-cache small`;
  throw new Error(
    `The set ${name} needs ${needed.toFixed(0)} GiB in ${folder}, where ${free.toFixed(0)} GiB are free. ${advice}`,
  );
}

/** Numbers of a log-normal distribution that come to `total`; the same for the same seed. */
function logNormal({ count, total, seed }: { count: number; total: number; seed: number }): number[] {
  const random = seededRandom(seed);
  const normal = () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  const drawn = Array.from({ length: count }, () => Math.exp(normal()));
  const sum = drawn.reduce((a, b) => a + b);
  return drawn.map((each) => (each * total) / sum);
}
