import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { CriClient } from '../../../../src/runtime/cri/cri-client.ts';
import { makeSampleBundle, type SampleBundle } from '../../../support/bundles/sample-bundle.ts';
import type { DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { createContainerdNode } from '../../../support/daemon/runtimes/containerd-node.ts';
import { createCrioNode } from '../../../support/daemon/runtimes/crio-node.ts';
import { eventually } from '../../../support/eventually.ts';
import { have } from '../../../support/requirements.ts';
import { trixieRoot } from '../../../support/rootfs/trixie-root.ts';

const never = new AbortController().signal;

/** Without a stick, and with no registry but ours. */
describe.runIf(have('root', 'mmdebstrap')).each(['CRI-O', 'containerd'] as const)(
  'an activated release whose manifests and configs are lost, on %s',
  { timeout: 120_000 },
  (runtime) => {
    let factory: string;
    let harness: DaemonHarness;
    let socketPath: string;
    let dispose: () => Promise<void>;
    let bundle: SampleBundle;

    beforeAll(async () => {
      await trixieRoot();
    });
    beforeEach(async () => {
      factory = mkdtempSync(join(tmpdir(), 'stickpin-factory-'));
      if (runtime === 'CRI-O') {
        const node = await createCrioNode();
        ({ harness, dispose } = node);
        socketPath = node.double().socketPath;
      } else {
        const node = await createContainerdNode();
        ({ harness, dispose } = node);
        socketPath = node.containerd.socketPath;
      }
      bundle = await makeSampleBundle({ dir: factory, keys: [harness.key] });
      await harness.start();
      harness.plug(bundle.path);
      await harness.until((report) => report.bundles[0]?.phase === 'activated' && report.operation === 'idle', 60_000);
      harness.unplug();
      await harness.until((report) => report.bundles[0]?.media.length === 0);
    }, 120_000);
    afterEach(async () => {
      await dispose();
      rmSync(factory, { recursive: true, force: true });
    });

    const folder = () => join(harness.settings.paths.state_dir, 'blobs/sha256');
    const files = () => readdirSync(folder()).map((name) => join(folder(), name));
    const names = () => bundle.contents.images.flatMap(({ reference, tags }) => [reference, ...tags]);
    const pullAll = async () => {
      const cri = new CriClient({ socketPath });
      try {
        for (const name of names()) await cri.pullImage(name, never);
      } finally {
        cri.close();
      }
    };
    const lines = () => harness.log.lines.map(({ message }) => message).filter((line) => line.includes('kept again'));

    const overwrite = (bytesFor: (before: Buffer) => Buffer) => () => {
      for (const file of files()) writeFileSync(file, bytesFor(readFileSync(file)));
    };

    it.each<[string, () => void]>([
      ['gone', () => rmSync(folder(), { recursive: true })],
      ['garbage', overwrite((before) => Buffer.alloc(before.length, 0xa5))],
      ['empty', overwrite(() => Buffer.alloc(0))],
    ])('answers forced pulls of all its images after the next start: %s', async (_how, lose) => {
      const before = harness.report();
      await harness.stop();
      const kept = files().length;
      lose();
      await harness.start();
      await harness.until((now) => now !== before && now.operation === 'idle');
      await eventually(async () => expect(lines()).toHaveLength(1), 20_000);
      expect(files()).toHaveLength(kept);
      // CRI-O reads the mirrors of the new start a little later.
      await eventually(pullAll, 30_000);
      await harness.daemon().engine.checkPulls(never);
      await harness.until(({ conditions }) => conditions[0]?.reason === 'PullAnswered');
      expect(harness.report().bundles[0]).toMatchObject({ phase: 'activated' });
      expect(harness.report().bundles[0]?.degraded).toBeUndefined();
    });

    it('answers them again after stickpin verify-images, if they were lost meanwhile', async () => {
      // The first check of the documents ends before that of pulls: it would restore them here.
      await harness.until(({ conditions }) => conditions[0]?.reason === 'PullAnswered', 30_000);
      for (const file of files()) rmSync(file);
      await expect(pullAll()).rejects.toThrow();
      await harness.daemon().engine.verifyImages('', never);
      await pullAll();
    });
  },
);
