import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { sampleArtifact } from '../../../support/bundles/sample-image.ts';
import { connectCri } from '../../../support/crio-double/cri/cri-client.ts';
import { type CrioNode, createCrioNode } from '../../../support/daemon/runtimes/crio-node.ts';
import { have } from '../../../support/requirements.ts';

const model = sampleArtifact({ files: { 'weights.bin': Buffer.alloc(100_000, 'w') } });
const reference = `models.example.com/small@${model.top.digest}`;
const artifacts = [{ reference: 'models.example.com/small:1', image: model }];

describe.runIf(have('root', 'mmdebstrap'))('artifacts, on the CRI-O double', { timeout: 180_000 }, () => {
  let node: CrioNode;

  beforeEach(async () => {
    node = await createCrioNode();
  }, 180_000);
  afterEach(() => node.dispose());

  const inRuntime = async () =>
    (await node.harness.images()).filter(({ repoDigests }) => repoDigests.includes(reference));
  const load = async (version: string, sequence: number, carried = artifacts) => {
    const { path } = await node.harness.make({ version, sequence, artifacts: carried });
    node.harness.plug(path);
    await node.harness.until(
      ({ bundles, operation }) =>
        operation === 'idle' && bundles.some((one) => one.version === version && one.phase === 'activated'),
      120_000,
    );
    node.harness.unplug();
  };

  it('are pulled and pinned there once they are kept, again after they were removed, and go with their release', async () => {
    await node.harness.start();
    await load('4.13.7', 1);
    await expect.poll(inRuntime, { timeout: 60_000 }).toMatchObject([{ pinned: true }]);
    expect(node.harness.report().bundles[0]).toMatchObject({ artifacts: { present: 1 } });
    expect(node.harness.report().bundles[0]?.degraded).toBeUndefined();
    const cri = connectCri(node.double().socketPath);
    await cri.removeImage(reference);
    cri.close();
    expect(await inRuntime()).toEqual([]);
    node.harness.engine.kick();
    await expect.poll(inRuntime, { timeout: 60_000 }).toMatchObject([{ pinned: true }]);

    await load('4.13.8', 2, []);
    const args = { bundle: 'ocp@4.13.7', removeImages: true, force: true };
    await node.harness.engine.commands.unpin(args, new AbortController().signal);
    await expect.poll(inRuntime, { timeout: 60_000 }).toEqual([]);
  });

  it('are taken also where images are served for their preload only, and their mirror goes again', async () => {
    await node.dispose();
    node = await createCrioNode({ serve: { activated: 'off' } });
    await node.harness.start();
    await load('4.13.7', 1);
    await expect.poll(inRuntime, { timeout: 60_000 }).toMatchObject([{ pinned: true }]);
    const { registriesDropIns: folder } = node.double().dirs;
    const mirrors = () =>
      readdirSync(folder)
        .map((name) => readFileSync(join(folder, name), 'utf8'))
        .join();
    await expect.poll(mirrors, { timeout: 60_000 }).not.toContain('models.example.com');
  });

  it('hold nothing when policy.json refuses them, and are named', async () => {
    const refused = { docker: { 'models.example.com': [{ type: 'reject' }] } };
    const policy = { default: [{ type: 'insecureAcceptAnything' }], transports: refused };
    writeFileSync(node.double().dirs.policyFile, JSON.stringify(policy));
    await node.harness.start();
    await load('4.13.7', 1);
    const { bundles } = await node.harness.until((report) => report.bundles[0]?.degraded !== undefined, 60_000);
    expect(bundles[0]).toMatchObject({
      phase: 'activated',
      artifacts: { present: 1 },
      degraded: { code: 'runtime/policy' },
    });
    expect(bundles[0]?.degraded?.message).toContain(`policy.json refuses ${reference} of ocp 4.13.7`);
  });
});
