import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Digest } from '../../../../src/domain/model/digest.ts';
import { makeSampleBundle } from '../../../support/bundles/sample-bundle.ts';
import { sampleImage, sampleLayer } from '../../../support/bundles/sample-image.ts';
import { createFakeUnit } from '../../../support/bus/fake-unit.ts';
import { type Containerd, startContainerd } from '../../../support/daemon/containerd.ts';
import { createCrioNode } from '../../../support/daemon/crio-node.ts';
import {
  createDaemonHarness,
  type DaemonHarness,
  type HarnessOptions,
} from '../../../support/daemon/daemon-harness.ts';
import { createStickGate, type StickGate } from '../../../support/daemon/stick-gate.ts';
import { have } from '../../../support/requirements.ts';
import { trixieRoot } from '../../../support/rootfs/trixie-root.ts';

const MIB = 1024 * 1024;

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
  const containerd: Containerd = await startContainerd();
  const unit = createFakeUnit();
  const harness = await createDaemonHarness({
    ...options,
    units: unit.units,
    settings: { runtime: { kind: 'containerd', socket: containerd.socketPath } },
  });
  const restart = async () => {
    await unit.restart(containerd.end, containerd.restart);
    return null;
  };
  const dispose = async () => {
    await harness.dispose();
    await containerd.stop();
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

  it('during a pull does not wait for the pull, which continues afterwards and has not failed', async () => {
    node = await startNode({ watchBundle: gate.watchBundle });
    const { harness } = node;
    const image = sampleImage({ seed: 'large', layers: [sampleLayer({ seed: 'large', sizeBytes: 6 * MIB })] });
    const bundle = await makeSampleBundle({
      dir: factory,
      keys: [harness.key],
      images: [{ reference: 'quay.example.com/ocp/large:1.0.0', image }],
    });
    gate.hold(image.layers[0]?.digest as Digest, 2 * MIB);
    await harness.start();
    harness.plug(bundle.path);
    await gate.reached();
    expect(await node.restart()).toBeNull();
    gate.release();
    await harness.until(({ bundles, operation }) => bundles[0]?.phase === 'activated' && operation === 'idle', 60_000);
    const events = harness.daemon().engine.history(undefined, 1_000);
    expect(events.filter(({ kind }) => /Failed|Degraded|Unreachable|Stalled|Paused/.test(kind))).toEqual([]);
    expect(events.map(({ kind }) => kind)).toContain('runtimeStopping');
    expect(harness.report().bundles[0]?.images).toEqual({ total: 1, present: 1, pinned: 1 });
  });
});
