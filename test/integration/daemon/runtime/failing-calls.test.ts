import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type CrioNode, createCrioNode } from '../../../support/daemon/runtimes/crio-node.ts';
import { startHeldPull } from '../../../support/daemon/start-held-pull.ts';
import { createStickGate, type StickGate } from '../../../support/daemon/stick-gate.ts';
import { have } from '../../../support/requirements.ts';
import { trixieRoot } from '../../../support/rootfs/trixie-root.ts';

describe.runIf(have('root', 'mmdebstrap'))('a call that fails while CRI-O runs', { timeout: 120_000 }, () => {
  let factory: string;
  let node: CrioNode;
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

  const failures = () =>
    [
      ...node
        .double()
        .log()
        .matchAll(/ImageFsInfo: lstat \S+: no such file/g),
    ].length;

  it('ImageFsInfo fails because a file disappeared: the runtime counts as reachable, and nothing is reported', async () => {
    node = await createCrioNode({}, {}, { watchBundle: gate.watchBundle });
    const { harness } = node;
    await startHeldPull(harness, gate, factory);
    await expect
      .poll(() => {
        harness.daemon().engine.kick();
        return failures();
      })
      .toBeGreaterThan(2);
    expect(harness.report().runtime).toEqual({ reachable: true, name: 'cri-o 1.36.3' });
    gate.release();
    await harness.until(({ bundles }) => bundles[0]?.phase === 'activated');
    expect(harness.statuses.filter((status) => /does not answer|waits for it/.test(status))).toEqual([]);
    const events = harness.daemon().engine.history(undefined, 1_000);
    expect(events.map(({ kind }) => kind)).toContain('preloadStarted');
    expect(events.map(({ kind }) => kind)).not.toContain('runtimeUnreachable');
  });
});
