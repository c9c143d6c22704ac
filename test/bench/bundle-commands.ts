import { randomBytes } from 'node:crypto';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { formatTable } from '../../src/cli/output/table.ts';
import { writePlainBundle } from '../support/bundles/plain-bundle.ts';
import { installKeys, sampleKey } from '../support/bundles/sample-bundle.ts';
import { sized } from './size.ts';
import { quickest, runOther, runStickpin, type Usage } from './stickpin-process.ts';

const MIB = 1024 * 1024;
const RUNS = sized(3, 1);
/** Images of `verify` and `inspect`. */
const MANY = sized(1000, 20);
const LAYER_MIB = sized(64, 1);
const LARGE_MIB = 8 * 4 * LAYER_MIB;

/**
 * Prints what `verify` and `inspect` cost as processes of their own: of many blobs, and of large
 * ones beside `openssl dgst -sha256` over the same files.
 */
export async function benchBundleCommands(print: (text: string) => void): Promise<void> {
  print(`\n${formatTable(['COMMAND', 'STICKPIN', 'COMPARED WITH', 'AIM'], await measureBundleCommands())}`);
}

async function measureBundleCommands(): Promise<string[][]> {
  const base = mkdtempSync(join(tmpdir(), 'stickpin-bench-'));
  try {
    const keys = join(base, 'keys');
    const key = sampleKey();
    installKeys(keys, [key]);
    const many = join(base, 'many');
    const blobs = writePlainBundle({ path: many, key, images: MANY, layersPerImage: 18 });
    const large = join(base, 'large');
    writePlainBundle({ path: large, key, images: 8, layersPerImage: 4, layer: () => randomBytes(LAYER_MIB * MIB) });
    const files = readdirSync(join(large, 'blobs/sha256')).map((name) => join(large, 'blobs/sha256', name));
    const runs = {
      start: [] as Usage[],
      verify: [] as Usage[],
      inspect: [] as Usage[],
      full: [] as Usage[],
      openssl: [] as Usage[],
    };
    const hash = ['openssl', 'dgst', '-sha256', ...files];
    // By turns, so that a neighbour's load falls on each; the first openssl brings the files into
    // the page cache.
    await runOther(hash);
    for (let run = 0; run < RUNS; run += 1) {
      runs.verify.push(await runStickpin('verify', many, '--keys', keys));
      runs.inspect.push(await runStickpin('inspect', many));
      runs.start.push(await runStickpin('verify', large, '--keys', keys));
      runs.full.push(await runStickpin('verify', large, '--keys', keys, '--full'));
      runs.openssl.push(await runOther(hash));
    }
    const [full, openssl] = [quickest(runs.full), quickest(runs.openssl)];
    const readMs = full.wallMs - quickest(runs.start).wallMs;
    const rate = (wallMs: number) => `${(LARGE_MIB * (1000 / wallMs)).toFixed(0)} MiB/s`;
    const usage = ({ wallMs, peakMiB }: Usage) => `${Math.round(wallMs)} ms, ${peakMiB.toFixed(0)} MiB`;
    const of = `of ${MANY.toLocaleString('en')} images and ${blobs.toLocaleString('en')} blobs`;
    return [
      [`bundle verify ${of}`, usage(quickest(runs.verify)), '', 'under 1,000 ms, 200 MiB'],
      [`bundle inspect ${of}`, usage(quickest(runs.inspect)), '', 'under 1,000 ms, 200 MiB'],
      [
        `bundle verify --full of ${LARGE_MIB} MiB in 32 blobs, from page cache`,
        `${rate(readMs)} (${rate(full.wallMs)} with the start of the program), ${full.peakMiB.toFixed(0)} MiB`,
        `${rate(openssl.wallMs)} (openssl dgst -sha256, one process): ${(openssl.wallMs / readMs).toFixed(2)} times`,
        'at least 1.7 times on two cores',
      ],
    ];
  } finally {
    rmSync(base, { recursive: true, force: true });
  }
}
