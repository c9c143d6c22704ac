import { cpSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { makeSampleBundle, type SampleBundle, sampleKey } from '../../support/bundles/sample-bundle.ts';
import { eventually } from '../../support/eventually.ts';
import type { RuntimeKind } from '../bench-runtime.ts';
import { startChild } from '../child.ts';
import type { DaemonTold } from '../daemon-child.ts';
import { markdownTable } from '../markdown-table.ts';
import { cpuMsOf } from '../process-cost.ts';
import { sized } from '../size.ts';
import { pullByHand } from '../stick-to-ready/measure.ts';
import { layeredImages } from './layered-images.ts';
import { withDaemonFolder } from './preload-daemon.ts';
import { STEPS, type Step } from './step-times.ts';

/** Six images over one shared layer, 10 MiB. */
const SMALL = { sharedMiB: [4], images: 6, ownMiB: 1 };
const RUNS = sized(3, 1);
const READY_TIMEOUT_MS = 120_000;

/**
 * One run: when each step was over, after the plug, and processor time from the plug to `ready`.
 */
interface ReadyRun {
  readonly afterPlugMs: ReadonlyMap<Step, number>;
  readonly daemonCpuMs: number;
  readonly runtimeCpuMs: number;
}

/**
 * Prints what passes from the plug of a small release until it is ready, step by step, beside pulls
 * of the same images by hand. The stick is a directory, which is read when it was quiet for 500 ms;
 * a device is not waited for.
 */
export async function benchReady(print: (text: string) => void): Promise<void> {
  const folder = mkdtempSync('/var/tmp/stickpin-bench-');
  try {
    const bundle = await makeSampleBundle({
      dir: join(folder, 'stickpin'),
      keys: [sampleKey()],
      images: layeredImages(SMALL),
      schedule: 'manual',
    });
    const rows: string[][] = [];
    for (const kind of ['containerd', 'cri-o'] as const) {
      const best = await quickestOf(() => plugOnce(kind, bundle), readyMs);
      const byHandMs = await quickestOf(
        () => pullByHand(kind, bundle),
        (wallMs) => wallMs,
      );
      const steps = STEPS.map((step) => `${Math.round(best.afterPlugMs.get(step) ?? Number.NaN)} ms`);
      const cpu = [best.daemonCpuMs, best.runtimeCpuMs].map((ms) => `${Math.round(ms)} ms`);
      const name = kind === 'cri-o' ? 'CRI-O double' : kind;
      rows.push([name, ...steps, ...cpu, `${Math.round(byHandMs)} ms`]);
    }
    const { images, sizeBytes } = bundle.payload.totals;
    print(`\n${images} images, ${(sizeBytes / 1024 ** 2).toFixed(0)} MiB; the quickest of ${RUNS} runs\n\n`);
    print(markdownTable(['runtime', ...STEPS, 'daemon CPU', 'runtime CPU', 'two pulls at once by hand'], rows));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const readyMs = ({ afterPlugMs }: ReadyRun) => afterPlugMs.get('ready') ?? Number.NaN;

async function quickestOf<T>(run: () => Promise<T>, msOf: (one: T) => number): Promise<T> {
  let best = await run();
  for (let count = 1; count < RUNS; count += 1) {
    const next = await run();
    if (msOf(next) < msOf(best)) best = next;
  }
  return best;
}

function plugOnce(kind: RuntimeKind, bundle: SampleBundle): Promise<ReadyRun> {
  return withDaemonFolder(kind, bundle, async ({ config, runtime, stick }) => {
    const prepared = `${stick}-prepared`;
    cpSync(dirname(bundle.path), join(prepared, 'stickpin'), { recursive: true });
    const daemon = await startChild<DaemonTold>('daemon-child', [config, ''], runtime.env);
    try {
      const before = { daemonMs: cpuMsOf(daemon.pid), runtimeMs: runtime.cpuMs() };
      const pluggedAt = performance.timeOrigin + performance.now();
      renameSync(prepared, stick);
      let told = await daemon.ask();
      await eventually(async () => {
        told = await daemon.ask();
        if (told.steps.ready === undefined) throw new Error(`not ready: ${told.status}`);
      }, READY_TIMEOUT_MS);
      const at = (step: Step) => (told.steps[step] ?? Number.NaN) - pluggedAt;
      return {
        afterPlugMs: new Map(STEPS.map((step) => [step, at(step)] as const)),
        daemonCpuMs: cpuMsOf(daemon.pid) - before.daemonMs,
        runtimeCpuMs: runtime.cpuMs() - before.runtimeMs,
      };
    } finally {
      await daemon.stop();
    }
  });
}
