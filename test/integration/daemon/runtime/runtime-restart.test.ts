import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createFakeUnit } from '../../../support/bus/fake-unit.ts';
import type { DaemonHarness, HarnessOptions } from '../../../support/daemon/daemon-harness.ts';
import { createContainerdNode } from '../../../support/daemon/runtimes/containerd-node.ts';
import { createCrioNode } from '../../../support/daemon/runtimes/crio-node.ts';
import { startHeldPull } from '../../../support/daemon/start-held-pull.ts';
import { createStickGate, type StickGate } from '../../../support/daemon/stick-gate.ts';
import { have } from '../../../support/requirements.ts';
import { trixieRoot } from '../../../support/rootfs/trixie-root.ts';

interface Node {
  readonly harness: DaemonHarness;
  /**
   * As `systemctl restart`. Resolves to the signal that ended the runtime in the end, null when it
   * ended by itself.
   */
  restart(): Promise<NodeJS.Signals | null>;
  dispose(): Promise<void>;
}

type StartNode = (options: Pick<HarnessOptions, 'watchBundle'>) => Promise<Node>;

const withCrio: StartNode = async (options) => {
  const node = await createCrioNode({}, {}, options);
  const restart = async () => {
    const { process } = node.double();
    await node.restartRuntime();
    return process.signalCode;
  };
  return { harness: node.harness, restart, dispose: node.dispose };
};
const withContainerd: StartNode = async (options) => {
  const unit = createFakeUnit();
  const { harness, containerd, dispose } = await createContainerdNode({ ...options, units: unit.units });
  const restart = async () => {
    await unit.restart(containerd.end, containerd.restart);
    return null;
  };
  return { harness, restart, dispose };
};

describe.runIf(have('root', 'mmdebstrap')).each([
  ['the CRI-O double', withCrio],
  ['containerd', withContainerd],
])('a restart of %s', { timeout: 120_000 }, (_name, startNode) => {
  let factory: string;
  let node: Node;
  let gate: StickGate;

  beforeAll(async () => {
    await trixieRoot();
  });
  beforeEach(() => {
    factory = mkdtempSync(join(tmpdir(), 'stickpin-factory-'));
    gate = createStickGate();
  });
  afterEach(async () => {
    gate.release();
    await node.dispose();
    rmSync(factory, { recursive: true, force: true });
  });

  it('during a pull does not wait for the pull, which continues afterwards and is not counted as failed', async () => {
    node = await startNode({ watchBundle: gate.watchBundle });
    const { harness } = node;
    await startHeldPull(harness, gate, factory);
    expect(await node.restart()).toBeNull();
    gate.release();
    await harness.until(({ bundles, operation }) => bundles[0]?.phase === 'activated' && operation === 'idle');
    const events = harness.daemon().engine.history(undefined, 1_000);
    expect(events.filter(({ kind }) => /Failed|Degraded|Unreachable|Stalled|Paused/.test(kind))).toEqual([]);
    expect(events.map(({ kind }) => kind)).toContain('runtimeStopping');
    expect(harness.report().bundles[0]?.images).toEqual({ total: 1, present: 1, pinned: 1 });
  });
});
