import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connectApi } from '../../../src/api/client.ts';
import { bundleName } from '../../../src/domain/model/bundle.ts';
import type { SampleBundle } from '../../support/bundles/sample-bundle.ts';
import { eventually } from '../../support/eventually.ts';
import type { RuntimeKind } from '../bench-runtime.ts';
import { startDaemonProcess } from '../daemon-process.ts';
import { markdownTable } from '../markdown-table.ts';
import { cpuMsOf } from '../process-cost.ts';
import { sized } from '../size.ts';
import { smallBundle } from './growth.ts';
import { untilReady, withDaemonFolder } from './preload-daemon.ts';

const COUNTS = sized([200, 2000], [3]);
const ACTIVATED_TIMEOUT_MS = 600_000;
const LOOK_MS = 50;

/** Time and processor time of one activation. */
interface ActivationRun {
  readonly wallMs: number;
  readonly daemonCpuMs: number;
  readonly runtimeCpuMs: number;
}

/**
 * Prints what the activation of a release takes an image, from the command to the event that it is
 * activated, with 200 and 2,000 small images that are preloaded before.
 */
export async function benchActivation(print: (text: string) => void): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'stickpin-bench-'));
  const rows: string[][] = [];
  try {
    for (const count of COUNTS) {
      const bundle = await smallBundle(join(folder, `${count}`), count);
      for (const kind of ['embedded', 'containerd', 'cri-o'] as const) {
        const { wallMs, daemonCpuMs, runtimeCpuMs } = await activateOnce(kind, bundle);
        process.stderr.write(`${kind}, ${count} images: ${Math.round(wallMs)} ms\n`);
        const perImage = [wallMs, daemonCpuMs, runtimeCpuMs].map((ms) => `${(ms / count).toFixed(1)} ms`);
        const name = kind === 'cri-o' ? 'CRI-O double' : kind;
        const total = `${Math.round(wallMs).toLocaleString('en')} ms`;
        rows.push([name, count.toLocaleString('en'), total, ...perImage, 'under 20 ms an image']);
      }
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  const header = ['runtime', 'images', 'wall', 'an image', "daemon's CPU an image", "runtime's CPU an image", 'aim'];
  print(`\n${markdownTable(header, rows)}`);
}

function activateOnce(kind: RuntimeKind | 'embedded', bundle: SampleBundle): Promise<ActivationRun> {
  return withDaemonFolder(kind, bundle, async ({ config, runtime }) => {
    const stop = new AbortController();
    const daemon = await startDaemonProcess(config, runtime.env);
    const pid = daemon.child.pid ?? 0;
    const api = await connectApi({ ...process.env, ...runtime.env }, stop.signal);
    try {
      await api.load({ path: bundle.path }, stop.signal);
      await untilReady(daemon);
      const before = { daemonMs: cpuMsOf(pid), runtimeMs: runtime.cpuMs() };
      const startedAt = performance.now();
      await api.activate({ options: {}, bundle: bundleName(bundle.payload) }, stop.signal);
      await eventually(
        () => {
          if (!daemon.hasReported('bundleActivated')) throw new Error(`not activated: ${daemon.status()}`);
        },
        ACTIVATED_TIMEOUT_MS,
        LOOK_MS,
      );
      const wallMs = performance.now() - startedAt;
      return { wallMs, daemonCpuMs: cpuMsOf(pid) - before.daemonMs, runtimeCpuMs: runtime.cpuMs() - before.runtimeMs };
    } finally {
      api.close();
      stop.abort();
      await daemon.stop();
    }
  });
}
