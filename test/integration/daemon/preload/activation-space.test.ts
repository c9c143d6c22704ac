import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { makeSampleBundle } from '../../../support/bundles/sample-bundle.ts';
import { type CrioNode, createCrioNode } from '../../../support/daemon/runtimes/crio-node.ts';
import { mounting, mountSmallDisk, type SmallDisk } from '../../../support/files/small-disk.ts';
import { have } from '../../../support/requirements.ts';
import { trixieRoot } from '../../../support/rootfs/trixie-root.ts';

describe.runIf(have('root', 'mmdebstrap', mounting))(
  'the storage of the runtime fills up before the activation',
  () => {
    let disk: SmallDisk;
    let node: CrioNode;
    let factory: string;

    beforeAll(async () => {
      await trixieRoot();
    });
    beforeEach(async () => {
      factory = mkdtempSync(join(tmpdir(), 'stickpin-factory-'));
      disk = mountSmallDisk('tmpfs', 64 * 1024 ** 2);
      node = await createCrioNode();
      execFileSync('mkdir', ['-p', node.double().dirs.graphRoot]);
      execFileSync('mount', ['--bind', disk.path, node.double().dirs.graphRoot]);
    });
    afterEach(async () => {
      execFileSync('umount', ['--lazy', node.double().dirs.graphRoot]);
      await node.dispose();
      disk.dispose();
      rmSync(factory, { recursive: true, force: true });
    });

    it('reports it, names the filesystem, and continues soon after there is space', async () => {
      const { harness } = node;
      const bundle = await makeSampleBundle({ dir: factory, keys: [harness.key], schedule: 'manual' });
      await harness.start();
      harness.plug(bundle.path);
      await harness.until((report) => report.bundles[0]?.phase === 'ready');
      disk.fill();
      harness.daemon().engine.activate({ bundle: 'ocp@4.13.7' });
      const report = await harness.until(({ bundles }) => bundles[0]?.degraded?.code === 'runtime/no-space', 90_000);
      expect(report.bundles[0]?.reason?.message).toMatch(
        /^ocp 4\.13\.7 could not be activated: the runtime's storage \(.*\) is full or its quota used up\. Make room on it/,
      );
      disk.free();
      await harness.until(({ bundles }) => bundles[0]?.phase === 'activated');
    }, 180_000);
  },
);
