import { execFileSync } from 'node:child_process';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type CrioNode, createCrioNode } from '../../../support/daemon/runtimes/crio-node.ts';
import { mounting, mountSmallDisk, type SmallDisk } from '../../../support/files/small-disk.ts';
import { have } from '../../../support/requirements.ts';

describe.runIf(have('root', 'mmdebstrap', mounting))(
  'the storage of the runtime fills up before the activation',
  () => {
    let disk: SmallDisk;
    let node: CrioNode;

    beforeEach(async () => {
      disk = mountSmallDisk('tmpfs', 64 * 1024 ** 2);
      node = await createCrioNode();
      execFileSync('mkdir', ['-p', node.double().dirs.graphRoot]);
      execFileSync('mount', ['--bind', disk.path, node.double().dirs.graphRoot]);
    });
    afterEach(async () => {
      execFileSync('umount', ['--lazy', node.double().dirs.graphRoot]);
      await node.dispose();
      disk.dispose();
    });

    it('reports it, names the filesystem, and continues soon after there is space', async () => {
      const { harness } = node;
      const bundle = await harness.make({ schedule: 'manual' });
      await harness.start(bundle.path);
      await harness.until((report) => report.bundles[0]?.phase === 'ready');
      disk.fill();
      harness.engine.commands.activate({ bundle: 'ocp@4.13.7' });
      const report = await harness.until(({ bundles }) => bundles[0]?.degraded?.code === 'runtime/no-space', 90_000);
      expect(report.bundles[0]?.reason?.message).toMatch(
        /^ocp 4\.13\.7 could not be activated: the runtime's storage \(.*\) is full or its quota used up\. Make room on it/,
      );
      disk.free();
      await harness.until(({ bundles }) => bundles[0]?.phase === 'activated');
    }, 180_000);
  },
);
