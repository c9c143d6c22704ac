import { formatTable } from '../../../src/cli/output/table.ts';
import type { SampleBundle } from '../../support/bundles/sample-bundle.ts';
import type { Cost } from '../process-cost.ts';
import { catBlobs, copyWithSkopeo, importTar, pullByHand } from './contenders.ts';
import { type PreloadRun, preloadOnce } from './preload-daemon.ts';

const MIB = 1024 * 1024;

/** The ways to get the images of a bundle into a runtime, by what they are called in a table. */
const CONTENDERS = {
  stickpinContainerd: '(a) stickpin, containerd',
  serialContainerd: '(b) pulls one by one, containerd',
  twoContainerd: '(b2) pulls two at once, containerd',
  fourContainerd: '(c) pulls four at once, containerd',
  importContainerd: '(d) ctr images import, one tar',
  stickpinCrio: '(a) stickpin, CRI-O double',
  serialCrio: '(b) pulls one by one, CRI-O double',
  twoCrio: '(b2) pulls two at once, CRI-O double',
  fourCrio: '(c) pulls four at once, CRI-O double',
  skopeo: '(e) skopeo copy oci: one by one',
  cat: '(f) cat of all blobs',
} as const;

type Contender = keyof typeof CONTENDERS;

/** The quickest run of each. */
export type Best = { readonly [K in Contender]: Cost } & {
  readonly [K in 'stickpinContainerd' | 'stickpinCrio']: PreloadRun;
};

/**
 * Has each of them load `bundle` into a new runtime, `turns` times, by turns, so that a neighbour's
 * load falls on all. Each other turn goes backwards, since what ran before leaves the memory of a
 * virtual machine in another state. `tar` holds the same images. `before` comes before each run and
 * is not measured.
 */
export async function contest(
  { bundle, tar, turns }: { bundle: SampleBundle; tar: string; turns: number },
  before: () => Promise<unknown>,
): Promise<Best> {
  const runs: { readonly [K in Contender]: () => Promise<Best[K]> } = {
    cat: () => catBlobs(bundle),
    stickpinContainerd: () => preloadOnce('containerd', bundle),
    serialContainerd: () => pullByHand('containerd', bundle, 1),
    twoContainerd: () => pullByHand('containerd', bundle, 2),
    fourContainerd: () => pullByHand('containerd', bundle, 4),
    importContainerd: () => importTar(bundle, tar),
    stickpinCrio: () => preloadOnce('cri-o', bundle),
    serialCrio: () => pullByHand('cri-o', bundle, 1),
    twoCrio: () => pullByHand('cri-o', bundle, 2),
    fourCrio: () => pullByHand('cri-o', bundle, 4),
    skopeo: () => copyWithSkopeo(bundle),
  };
  const best = new Map<string, Cost>();
  for (let turn = 0; turn < turns; turn += 1) {
    const inOrder = Object.entries(runs);
    for (const [key, run] of turn % 2 === 0 ? inOrder : inOrder.reverse()) {
      await before();
      const cost = await run();
      process.stderr.write(`${CONTENDERS[key as Contender]}: ${Math.round(cost.wallMs)} ms\n`);
      const quickest = best.get(key);
      if (quickest === undefined || cost.wallMs < quickest.wallMs) best.set(key, cost);
    }
  }
  return Object.fromEntries(best) as unknown as Best;
}

/** A line for each. `uniqueBytes` is the size of all blobs. */
export function costTable(best: Best, uniqueBytes: number): string {
  const header = ['WHAT', 'WALL', 'CPU, ALL', 'OWN CPU', 'READ', 'READ / UNIQUE', 'OWN PEAK'];
  return formatTable(
    header,
    Object.entries(CONTENDERS).map(([key, what]) => row(what, best[key as Contender], uniqueBytes)),
  );
}

function row(what: string, cost: Cost, uniqueBytes: number): string[] {
  const { wallMs, cpuMs, ownCpuMs, readBytes, peakMiB } = cost;
  return [
    what,
    `${Math.round(wallMs)} ms`,
    `${Math.round(cpuMs)} ms`,
    `${Math.round(ownCpuMs)} ms`,
    `${(readBytes / MIB).toFixed(0)} MiB`,
    (readBytes / uniqueBytes).toFixed(3),
    `${peakMiB.toFixed(0)} MiB`,
  ];
}
