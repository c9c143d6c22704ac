import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { SampleBundle } from '../../support/bundles/sample-bundle.ts';
import { skopeoArgv } from '../../support/rootfs/trixie-root.ts';
import { type RuntimeKind, startBenchRuntime } from '../bench-runtime.ts';
import { startChild } from '../child.ts';
import type { RegistryTold } from '../load/registry-child.ts';
import { type Cost, cpuMsOf, peakMiBOf, runMeasured } from '../process-cost.ts';

/**
 * Pulls every image of a bundle from the daemon's registry without the daemon, `parallel` at once
 * in the order of the bundle.
 */
export async function pullByHand(kind: RuntimeKind, bundle: SampleBundle, parallel: number): Promise<Cost> {
  const registry = await startChild<RegistryTold>('registry-child', [bundle.path]);
  const base = mkdtempSync(join(tmpdir(), 'stickpin-bench-'));
  const runtime = await startBenchRuntime(kind, base);
  try {
    await runtime.leadTo(registry.hello.authority);
    const before = { ownMs: cpuMsOf(registry.pid), runtimeMs: runtime.cpuMs() };
    const startedAt = performance.now();
    const left = bundle.contents.images.map(({ reference }) => reference);
    const pullNext = async (): Promise<void> => {
      for (let next = left.shift(); next !== undefined; next = left.shift()) await runtime.pull(next);
    };
    await Promise.all(Array.from({ length: parallel }, pullNext));
    const wallMs = performance.now() - startedAt;
    const ownCpuMs = cpuMsOf(registry.pid) - before.ownMs;
    const cpuMs = ownCpuMs + runtime.cpuMs() - before.runtimeMs;
    if ((await runtime.imageCount()) !== bundle.contents.images.length) throw new Error('not every image was pulled');
    const { sentBytes } = await registry.ask();
    return { wallMs, cpuMs, ownCpuMs, readBytes: sentBytes, peakMiB: peakMiBOf(registry.pid) };
  } finally {
    await registry.stop();
    await runtime.stop();
    rmSync(base, { recursive: true, force: true });
  }
}

/** `ctr images import` of the same images as one tar, into a new containerd. */
export async function importTar(bundle: SampleBundle, tar: string): Promise<Cost> {
  const base = mkdtempSync(join(tmpdir(), 'stickpin-bench-'));
  const runtime = await startBenchRuntime('containerd', base);
  try {
    const before = runtime.cpuMs();
    const cost = await runMeasured([runtime.ctr('images', 'import', tar)]);
    const cpuMs = cost.cpuMs + runtime.cpuMs() - before;
    if ((await runtime.imageCount()) !== bundle.contents.images.length) throw new Error('not every image was imported');
    return { ...cost, cpuMs };
  } finally {
    await runtime.stop();
    rmSync(base, { recursive: true, force: true });
  }
}

/**
 * One `skopeo copy` an image, from the same blobs into a storage of its own: what a user would do
 * by hand for CRI-O.
 */
export async function copyWithSkopeo(bundle: SampleBundle): Promise<Cost> {
  const base = mkdtempSync(join(tmpdir(), 'stickpin-bench-'));
  try {
    const commands = bundle.contents.images.map(({ reference }, at) => {
      const target = `containers-storage:[overlay@${base}/root+${base}/run]${reference.replace(/@.*/, '')}:copy`;
      return [...skopeoArgv(), '--insecure-policy', 'copy', '--quiet', `oci:${bundle.path}:@${at}`, target];
    });
    return await runMeasured(commands);
  } finally {
    rmSync(base, { recursive: true, force: true });
  }
}

/** `cat` of every blob to nowhere: what reading alone takes. */
export function catBlobs(bundle: SampleBundle): Promise<Cost> {
  const folder = join(bundle.path, 'blobs/sha256');
  return runMeasured([['cat', ...readdirSync(folder).map((name) => join(folder, name))]]);
}
