import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { formatTable } from '../../../src/cli/output/table.ts';
import { makeSampleBundle, type SampleBundle, sampleKey } from '../../support/bundles/sample-bundle.ts';
import { sampleImage, sampleLayer } from '../../support/bundles/sample-image.ts';
import { execute } from '../../support/rootfs/execute.ts';
import { BENCH_REGISTRY } from '../bench-runtime.ts';
import { sized } from '../size.ts';
import { pullByHand } from '../stick-to-ready/measure.ts';
import { preloadOnce } from './preload-daemon.ts';

const COUNTS = sized([10, 100, 1000], [2, 4]);

/**
 * Prints what an image costs when there are 10, 100 and 1,000 of them, all small, and what it costs
 * the runtime without stickpin.
 */
export async function benchGrowth(print: (text: string) => void): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'stickpin-bench-'));
  try {
    const bundles: SampleBundle[] = [];
    for (const count of COUNTS) bundles.push(await smallBundle(join(folder, `${count}`), count));
    const rows: string[][] = [];
    for (const kind of ['embedded', 'containerd', 'cri-o'] as const) {
      const wallMs: number[] = [];
      for (const bundle of bundles) {
        const images = bundle.contents.images.length;
        await execute(['sync']);
        const run = await preloadOnce(kind, bundle);
        wallMs.push(run.wallMs / images);
        const byHandMs = kind === 'embedded' ? undefined : await pullByHand(kind, bundle);
        const told = byHandMs === undefined ? '' : `, by hand ${Math.round(byHandMs)} ms`;
        process.stderr.write(`${kind}, ${images} images: ${Math.round(run.wallMs)} ms${told}\n`);
        rows.push([
          kind,
          `${images}`,
          `${Math.round(run.wallMs)} ms`,
          `${(run.wallMs / images).toFixed(1)} ms`,
          `${(run.daemonCpuMs / images).toFixed(2)} ms`,
          `${run.daemonPeakMiB.toFixed(0)} MiB`,
          (run.wallMs / images / (wallMs[0] ?? 1)).toFixed(2),
          byHandMs === undefined ? '-' : `${(byHandMs / images).toFixed(1)} ms`,
        ]);
      }
    }
    const header = [
      ...['RUNTIME', 'IMAGES', 'WALL', 'WALL AN IMAGE', 'DAEMON CPU AN IMAGE', 'PEAK', 'AGAINST 10 IMAGES'],
      'TWO AT ONCE BY HAND, AN IMAGE',
    ];
    print(`\n${formatTable(header, rows)}`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Images of one layer that they share and one of their own. */
export function smallBundle(dir: string, count: number): Promise<SampleBundle> {
  const base = sampleLayer({ seed: 'base', sizeBytes: 64 * 1024 });
  const images = Array.from({ length: count }, (_none, at) => ({
    reference: `${BENCH_REGISTRY}/growth/image${at}:1.0.0`,
    image: sampleImage({ seed: `image${at}`, layers: [base, sampleLayer({ seed: `own${at}`, sizeBytes: 4096 })] }),
  }));
  return makeSampleBundle({ dir: join(dir, 'stickpin'), keys: [sampleKey()], images, schedule: 'manual' });
}
