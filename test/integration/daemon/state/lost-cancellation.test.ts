import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createDaemonHarness, type DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { startHeldPull } from '../../../support/daemon/start-held-pull.ts';
import { createStickGate, type StickGate } from '../../../support/daemon/stick-gate.ts';
import { loseMirror } from '../../../support/state/lose-state.ts';

let node: DaemonHarness;
let gate: StickGate;
let factory: string;

beforeEach(async () => {
  factory = mkdtempSync(join(tmpdir(), 'stickpin-factory-'));
  gate = createStickGate();
  node = await createDaemonHarness({ watchBundle: gate.watchBundle });
  await startHeldPull(node, gate, factory);
  node.daemon().engine.commands.cancel();
  await untilCancelled();
  await node.rounds();
  await node.stop();
});
afterEach(async () => {
  await node.dispose();
  rmSync(factory, { recursive: true, force: true });
});

const untilCancelled = () =>
  node.until(({ bundles, operation }) => operation === 'idle' && bundles[0]?.hold === 'cancelled');
const lose = (...names: readonly string[]) => {
  for (const name of names) rmSync(join(node.settings.paths.state_dir, name), { force: true });
};

describe('a preload that a person cancelled', () => {
  it.each([
    { lost: 'the database', lose: () => lose('state.db') },
    { lost: 'the mirror', lose: () => loseMirror(node.settings.paths.state_dir) },
  ])('stays cancelled after the loss of $lost, until a person goes on', async ({ lose: loseThem }) => {
    const before = node.report();
    loseThem();
    await node.start();
    await node.until((report) => report !== before && report.media.some(({ state }) => state === 'read'));
    await untilCancelled();
    await node.rounds();
    expect(node.report().bundles[0]).toMatchObject({ phase: 'held', hold: 'cancelled', images: { present: 0 } });
    expect(node.report().bundles[0]?.cancelled).toEqual(before.bundles[0]?.cancelled);
    // A restart finds it in the new database.
    await node.stop();
    lose('state.json', 'status.json');
    await node.start();
    await untilCancelled();
    gate.release();
    node.daemon().engine.commands.resume();
    // Without any record of floors its activation waits for a person.
    const report = await node.until(({ bundles }) => ['ready', 'activated'].includes(bundles[0]?.phase ?? ''));
    expect(report.bundles[0]?.cancelled).toBeUndefined();
  });
});
