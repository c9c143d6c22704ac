import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { type CrioNode, createCrioNode } from '../../../support/daemon/runtimes/crio-node.ts';
import { have } from '../../../support/requirements.ts';

describe.runIf(have('root', 'mmdebstrap'))('a runtime that is too old', { timeout: 120_000 }, () => {
  let node: CrioNode;

  it('is reported before the first stick; nothing is loaded into it, and an upgrade is noticed', async () => {
    node = await createCrioNode({}, { flags: ['--version=1.27.8'] });
    const { harness } = node;
    const bundle = await harness.make();
    await harness.start();
    const idle = await harness.until(({ status }) => status.includes('too old'));
    expect(idle.status).toMatch(
      /: cri-o 1\.27\.8 is too old: stickpin needs CRI-O 1\.28 or newer\. Upgrade and restart it;/,
    );
    harness.plug(bundle.path);
    const held = await harness.until(({ bundles }) => bundles[0]?.phase === 'held');
    expect(held.bundles[0]).toMatchObject({ hold: 'runtime-version', reason: { code: 'runtime/version' } });
    expect(held.advice.text).toMatch(
      /^cri-o 1\.27\.8 is too old: .*; stickpin continues automatically\. .*ocp 4\.13\.7 waits for it\.$/,
    );
    expect(node.double().log()).not.toContain('Pulling image');
    expect(node.double().log()).not.toContain('Reloading');
    expect(existsSync(harness.settings.crio.pins_file)).toBe(false);
    await node.restartRuntime(['--version=1.28.0']);
    harness.engine.kick();
    await harness.until(({ bundles }) => bundles[0]?.phase === 'activated');
    const pins = readFileSync(harness.settings.crio.pins_file, 'utf8');
    for (const { reference } of bundle.contents.images) expect(pins).toContain(reference);
  });

  it('keeps the pins that it had before it was replaced by an older one', async () => {
    node = await createCrioNode();
    const { harness } = node;
    const bundle = await harness.make();
    await harness.start();
    await harness.load(bundle.path);
    const pins = readFileSync(harness.settings.crio.pins_file, 'utf8');
    await node.restartRuntime(['--version=1.27.8']);
    harness.engine.kick();
    const old = await harness.until(({ status }) => status.includes('too old'));
    expect(old.bundles[0]).toMatchObject({ phase: 'activated', reason: { code: 'runtime/version' } });
    await harness.engine.commands.unpin(
      { bundle: 'ocp@4.13.7', force: true, removeImages: true },
      AbortSignal.timeout(10_000),
    );
    await harness.until(({ bundles }) => bundles[0]?.phase === 'retired');
    expect(readFileSync(harness.settings.crio.pins_file, 'utf8')).toBe(pins);
    expect((await harness.images()).map(({ pinned }) => pinned)).toEqual([true, true]);
  });
});
