import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { formatTable } from '../../src/cli/output/table.ts';
import { layerOfTar, sampleImage, writeOciLayout } from '../support/bundles/sample-image.ts';
import { tarArchive } from '../support/bundles/tar-archive.ts';
import { sized } from './size.ts';
import { quickest, runStickpin, type Usage } from './stickpin-process.ts';

const IMAGES = sized(1600, 20);
const LAYERS_PER_IMAGE = 11;
const RUNS = sized(3, 1);

/** Prints what `bundle create` costs for very many small blobs: as a folder, and as a tar. */
export async function benchFactory(print: (text: string) => void): Promise<void> {
  const base = mkdtempSync(join(tmpdir(), 'stickpin-bench-'));
  try {
    const layout = join(base, 'layout');
    const list = join(base, 'images.txt');
    const images = Array.from({ length: IMAGES }, (_, at) => ({ image: smallImage(at), names: [`image-${at}`] }));
    writeOciLayout(layout, images);
    const lines = images.map((_, at) => `quay.example.com/x/image-${at}:1=oci:${layout}:image-${at}\n`);
    writeFileSync(list, lines.join(''));
    const fixed = [
      ...['--name', 'many', '--version', '1.0.0', '--arch', 'amd64', '--sequence', '1'],
      ...['--images-file', list, '--json'],
    ];
    const blobs = (IMAGES * (LAYERS_PER_IMAGE + 2) + 1).toLocaleString('en');
    const measure = async (name: string) => {
      const runs: Usage[] = [];
      for (let run = 0; run < RUNS; run += 1) {
        runs.push(await runStickpin('create', ...fixed, '--out', join(base, name)));
        rmSync(join(base, name), { recursive: true });
      }
      const { wallMs, peakMiB } = quickest(runs);
      return `${(wallMs / 1000).toFixed(1)} s, ${peakMiB.toFixed(0)} MiB`;
    };
    const rows = [
      [`bundle create of ${blobs} small blobs, a folder`, await measure('bundle'), 'under 60 s'],
      ['the same, a tar', await measure('bundle.stickpin.tar'), ''],
    ];
    print(`\n${formatTable(['COMMAND', 'STICKPIN', 'AIM'], rows)}`);
  } finally {
    rmSync(base, { recursive: true, force: true });
  }
}

function smallImage(at: number) {
  const layers = Array.from({ length: LAYERS_PER_IMAGE }, (_, layer) => {
    const tar = tarArchive([{ path: `file-${at}-${layer}`, bytes: Buffer.alloc(200, `${at}/${layer}`) }]);
    return layerOfTar(tar, (bytes) => gzipSync(bytes, { level: 1 }));
  });
  return sampleImage({ seed: `small-${at}`, architecture: 'amd64', layers });
}
