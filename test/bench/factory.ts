import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { formatTable } from '../../src/cli/output/table.ts';
import { writeRegistryStorage } from '../support/bundles/registry-storage.ts';
import { layerOfTar, sampleImage, writeOciLayout } from '../support/bundles/sample-image.ts';
import { tarArchive } from '../support/bundles/tar-archive.ts';
import { startDockerRegistry } from '../support/registry/docker-registry.ts';
import { BENCH_REGISTRY } from './bench-runtime.ts';
import { layeredImages, PRELOAD_IMAGES } from './preload/layered-images.ts';
import { sized } from './size.ts';
import { quickest, runOther, runStickpin, type Usage } from './stickpin-process.ts';

const IMAGES = sized(1600, 20);
const LAYERS_PER_IMAGE = 11;
const RUNS = sized(3, 1);
const RELEASE = ['--name', 'many', '--version', '1.0.0', '--arch', 'amd64', '--sequence', '1', '--json'];

/**
 * Prints what `bundle create` costs: for very many small blobs, and from a registry beside `skopeo
 * copy`.
 */
export async function benchFactory(print: (text: string) => void): Promise<void> {
  const small = await inFolder(measureSmallBlobs);
  const fetched = await inFolder(measureFromRegistry);
  print(`\n${formatTable(['COMMAND', 'STICKPIN', 'COMPARED WITH', 'AIM'], [...small, ...fetched])}`);
}

async function inFolder<T>(measure: (base: string) => Promise<T>): Promise<T> {
  const base = mkdtempSync(join(tmpdir(), 'stickpin-bench-'));
  try {
    return await measure(base);
  } finally {
    rmSync(base, { recursive: true, force: true });
  }
}

async function measureSmallBlobs(base: string): Promise<string[][]> {
  const layout = join(base, 'layout');
  const list = join(base, 'images.txt');
  const images = Array.from({ length: IMAGES }, (_, at) => ({ image: smallImage(at), names: [`image-${at}`] }));
  writeOciLayout(layout, images);
  const lines = images.map((_, at) => `quay.example.com/x/image-${at}:1=oci:${layout}:image-${at}\n`);
  writeFileSync(list, lines.join(''));
  const blobs = (IMAGES * (LAYERS_PER_IMAGE + 2) + 1).toLocaleString('en');
  const measure = async (name: string) => {
    const runs: Usage[] = [];
    for (let run = 0; run < RUNS; run += 1) {
      runs.push(await runStickpin('create', ...RELEASE, '--images-file', list, '--out', join(base, name)));
      rmSync(join(base, name), { recursive: true });
    }
    return shown(quickest(runs));
  };
  return [
    [`bundle create of ${blobs} small blobs, a folder`, await measure('bundle'), '', 'under 60 s'],
    ['the same, a tar', await measure('bundle.stickpin.tar'), '', ''],
  ];
}

/**
 * What a tool for networks without registries does for a release: it fetches the images into an OCI
 * layout, and packs that. `sync` is part of each, since stickpin syncs what it writes.
 */
async function measureFromRegistry(base: string): Promise<string[][]> {
  const list = join(base, 'images.txt');
  const out = join(base, 'out');
  const images = layeredImages(PRELOAD_IMAGES).map(({ reference, image }) => {
    const [repository = '', tag = ''] = reference.slice(BENCH_REGISTRY.length + 1).split(':');
    return { reference, repository, image, tags: [tag] };
  });
  writeRegistryStorage(join(base, 'storage'), images);
  const registry = await startDockerRegistry({ folder: base });
  try {
    const source = ({ repository, tags }: (typeof images)[number]) =>
      `docker://${registry.host}/${repository}:${tags[0]}`;
    writeFileSync(list, images.map((image) => `${image.reference}=${source(image)}\n`).join(''));
    const create = (name: string) =>
      runStickpin(
        ...['create', ...RELEASE, '--images-file', list, '--out', join(out, name)],
        ...['--no-cache', '--tls-verify=false'],
      );
    const copies = images.map(
      (image) =>
        `skopeo --insecure-policy copy --quiet --src-tls-verify=false ${source(image)} oci:layout:${image.reference}`,
    );
    const shell = (...more: readonly string[]) =>
      runOther(['sh', '-c', ['set -e', `cd ${out}`, ...copies, ...more, 'sync --file-system .'].join('\n')]);
    const ways = [
      () => create('bundle'),
      () => shell(),
      () => create('bundle.stickpin.tar'),
      () => shell('tar --create --file layout.tar layout'),
    ];
    const runs = ways.map((): Usage[] => []);
    // By turns, so that a neighbour's load falls on each.
    for (let run = 0; run < RUNS; run += 1) {
      for (const [at, way] of ways.entries()) {
        mkdirSync(out);
        runs[at]?.push(await way());
        rmSync(out, { recursive: true });
      }
    }
    const [folder = '', copied = '', tar = '', packed = ''] = runs.map((each) => shown(quickest(each)));
    return [
      [
        `bundle create of ${images.length} images from a registry, a folder`,
        folder,
        `${copied} (skopeo copy of each)`,
        '',
      ],
      ['the same, a tar', tar, `${packed} (the same, then tar)`, ''],
    ];
  } finally {
    await registry.close();
  }
}

function shown({ wallMs, peakMiB }: Usage): string {
  return `${(wallMs / 1000).toFixed(1)} s${Number.isNaN(peakMiB) ? '' : `, ${peakMiB.toFixed(0)} MiB`}`;
}

function smallImage(at: number) {
  const layers = Array.from({ length: LAYERS_PER_IMAGE }, (_, layer) => {
    const tar = tarArchive([{ path: `file-${at}-${layer}`, bytes: Buffer.alloc(200, `${at}/${layer}`) }]);
    return layerOfTar(tar, (bytes) => gzipSync(bytes, { level: 1 }));
  });
  return sampleImage({ seed: `small-${at}`, architecture: 'amd64', layers });
}
