import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type CrioNode, createCrioNode } from '../../../support/daemon/runtimes/crio-node.ts';
import { startHeldPull } from '../../../support/daemon/start-held-pull.ts';
import { createStickGate, type StickGate } from '../../../support/daemon/stick-gate.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';
import { have } from '../../../support/requirements.ts';

describe.runIf(have('root', 'mmdebstrap'))('a call that fails while CRI-O runs', { timeout: 120_000 }, () => {
  const factory = folderForEach();
  let node: CrioNode;
  let gate: StickGate;

  beforeEach(() => {
    gate = createStickGate();
  });
  afterEach(() => {
    gate.release();
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
        harness.engine.kick();
        return failures();
      })
      .toBeGreaterThan(2);
    expect(harness.report().runtime).toEqual({ reachable: true, name: 'cri-o 1.36.3' });
    gate.release();
    await harness.until(({ bundles }) => bundles[0]?.phase === 'activated');
    expect(harness.statuses.filter((status) => /does not answer|waits for it/.test(status))).toEqual([]);
    const events = harness.history();
    expect(events.map(({ kind }) => kind)).toContain('preloadStarted');
    expect(events.map(({ kind }) => kind)).not.toContain('runtimeUnreachable');
  });
});
