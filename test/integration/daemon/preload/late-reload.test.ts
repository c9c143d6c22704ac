import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { SampleBundle } from '../../../support/bundles/sample-bundle.ts';
import { mirrorToml } from '../../../support/crio-double/source-and-double.ts';
import { type CrioNode, createCrioNode } from '../../../support/daemon/runtimes/crio-node.ts';
import { have } from '../../../support/requirements.ts';
import { type SourceRegistry, startSourceRegistry } from '../../../support/source-registry.ts';

/** Longer than it takes the daemon from the reload to the first pull. */
const RELOAD_DELAY_MS = 2_000;

describe.runIf(have('root', 'mmdebstrap'))(
  'a CRI-O that applies its mirrors late after a reload (docs/runtime-facts.md, fact 5)',
  () => {
    let node: CrioNode;
    let bundle: SampleBundle;
    let remote: SourceRegistry;

    beforeEach(async () => {
      remote = await startSourceRegistry();
      const files = { 'etc/containers/registries.conf.d/50-remote.conf': mirrorToml('quay.example.com', remote.host) };
      node = await createCrioNode({}, { files, reloadDelayMs: RELOAD_DELAY_MS });
      bundle = await node.harness.make();
      remote.publish(...bundle.images);
    });
    afterEach(async () => {
      await node.dispose();
      await remote.close();
    });

    const lines = () => node.harness.log.lines.map(({ message }) => message).join('\n');
    const activated = () => node.harness.until(({ bundles }) => bundles[0]?.phase === 'activated');
    /** What the registry that the references lead to gave. */
    const given = () => remote.requests.filter(({ digest }) => digest !== undefined);

    it('pulls no image from its own registry, although that has it and would answer before the reload takes effect', async () => {
      await node.harness.start(bundle.path);
      await activated();
      expect(given()).toEqual([]);
      expect(lines()).not.toMatch(/not from stickpin's registry|does not use its mirror configuration/);
      // What it asked there before the reload, to be seen at ours in the end, is nowhere.
      const probes = remote.requests.filter(({ kind }) => kind === 'manifest');
      expect(probes.length).toBeGreaterThan(0);
      expect(probes.every(({ status }) => status === 404)).toBe(true);
    });

    it('pulls no image from its own registry when the daemon was restarted before the reload took effect', async () => {
      await node.harness.start(bundle.path);
      await expect.poll(() => node.double().log(), { timeout: 60_000 }).toMatch(/Pulling image/);
      await node.harness.restart();
      await activated();
      expect(given()).toEqual([]);
    });
  },
);
