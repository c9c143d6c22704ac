import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import type { SampleBundle } from '../../../support/bundles/sample-bundle.ts';
import { ocpImages } from '../../../support/bundles/sample-bundle.ts';
import { connectCri } from '../../../support/crio-double/cri/cri-client.ts';
import { mirrorToml } from '../../../support/crio-double/source-and-double.ts';
import type { DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { type CrioNode, createCrioNode } from '../../../support/daemon/runtimes/crio-node.ts';
import { have } from '../../../support/requirements.ts';
import { startSourceRegistry } from '../../../support/source-registry.ts';

/** The default of CRI-O. */
const PAUSE = 'registry.k8s.io/pause:3.10.1';

describe.runIf(have('root', 'mmdebstrap'))('a preload into the CRI-O double', () => {
  let node: CrioNode;
  let harness: DaemonHarness;
  let bundle: SampleBundle;

  beforeEach(async () => {
    const files = {
      'etc/crio/crio.conf.d/10-user.conf': '[crio.image]\npinned_images = ["quay.example.com/user/own:1"]\n',
    };
    node = await createCrioNode({}, { files });
    ({ harness } = node);
    bundle = await harness.make();
  });

  const pinsText = () => readFileSync(join(node.double().dirs.base, 'run/crio/crio.conf.d/99-stickpin.conf'), 'utf8');
  const mirrorsText = () => readFileSync(join(node.double().dirs.registriesDropIns, '99-stickpin.conf'), 'utf8');

  it('pulls every image by digest, pins it, gives the tags at activation and leaves the mirrors in place', async () => {
    await harness.start();
    await harness.load(bundle.path);
    const images = await harness.images();
    expect(images.map((image) => image.pinned)).toEqual([true, true]);
    for (const { reference, tags } of bundle.contents.images) {
      const image = images.find((candidate) => candidate.repoDigests.includes(reference));
      expect(image?.repoTags).toEqual(tags);
      expect(pinsText()).toContain(`"${reference}"`);
    }
    expect(pinsText()).toContain('"quay.example.com/user/own:1"');
    await harness.until((report) => report.operation === 'idle');
    for (const { reference } of bundle.contents.images) {
      expect(mirrorsText()).toContain(`prefix = "${reference.split('@')[0]}"`);
    }
    expect(harness.report().status).toBe(
      'DONE: ocp 4.13.7 is installed. Remove the stick. It is activated: 2 images present and pinned.',
    );
    await harness.stop();
    expect(mirrorsText()).not.toContain('[[registry]]');
  });

  it('answers a forced pull by digest and by tag after the stick is gone, and says so', async () => {
    await harness.start();
    await harness.load(bundle.path);
    harness.unplug();
    const tested = await harness.until(({ conditions }) =>
      conditions.some(({ type, status }) => type === 'PullsAnswered' && status !== 'Unknown'),
    );
    expect(tested.conditions[0]).toMatchObject({ status: 'True', reason: 'PullAnswered' });
    const before = await harness.images();
    const { reference, tags } = bundle.contents.images[0] ?? { reference: '', tags: [] };
    const client = connectCri(node.double().socketPath);
    try {
      for (const name of [reference, tags[0] ?? '']) await client.pullImage(name);
    } finally {
      client.close();
    }
    await harness.engine.checkPulls(AbortSignal.timeout(30_000));
    expect(harness.engine.report()?.conditions).toMatchObject([
      { type: 'PullsAnswered', status: 'True' },
      { type: 'PullsFromElsewhere', status: 'True', message: expect.stringContaining(PAUSE) },
    ]);
    expect(await harness.images()).toEqual(before);
  });

  it('names the image of pod sandboxes until a release provides it', async () => {
    await harness.start(bundle.path);
    const elsewhere = (wanted: string) =>
      harness.until(
        ({ conditions }) => conditions.some(({ type, status }) => type === 'PullsFromElsewhere' && status === wanted),
        60_000,
      );
    const { conditions } = await elsewhere('True');
    expect(conditions[1]?.message).toContain(`${PAUSE} (every pod, by pause_image of CRI-O)`);
    await harness.stop();
    const provided = bundle.contents.images[0]?.tags[0] ?? '';
    writeFileSync(join(node.double().dirs.crioDropIns, '20-pause.conf'), `[crio.image]\npause_image = "${provided}"\n`);
    await node.double().reloadAndWait();
    await harness.start();
    await elsewhere('False');
  });

  it('pulls no present image after a restart with the same stick, except one test pull', async () => {
    await harness.start();
    await harness.load(bundle.path);
    await harness.stop();
    const pulled = () =>
      node
        .double()
        .log()
        .split('\n')
        .filter((line) => /PullImage|Pulling image/.test(line));
    const before = pulled().length;
    expect(before).toBeGreaterThan(0);
    await harness.start();
    await harness.until(
      ({ bundles, media, conditions }) =>
        bundles[0]?.images.pinned === 2 && media.length > 1 && conditions[0]?.status === 'True',
    );
    await harness.stop();
    const { reference } = bundle.contents.images[0] ?? { reference: '' };
    const since = pulled().slice(before);
    expect(since.length).toBeGreaterThan(0);
    for (const line of since) expect(line).toContain(reference);
  });

  it('pins an image that CRI-O had by its tag alone, by pulling its digest without a layer (docs/runtime-facts.md, fact 8)', async () => {
    const [image] = bundle.images;
    const source = await startSourceRegistry();
    if (image !== undefined) source.publish(image);
    writeFileSync(
      join(node.double().dirs.registriesDropIns, '50-source.conf'),
      mirrorToml('quay.example.com', source.host),
    );
    expect(await node.double().reloadAndWait()).toBeUndefined();
    const client = connectCri(node.double().socketPath);
    await client.pullImage(image?.reference ?? '');
    client.close();
    await source.close();
    await harness.start();
    const done = await harness.load(bundle.path);
    expect(done.bundles[0]?.images).toEqual({ total: 2, present: 2, pinned: 2 });
  });

  it('the disk fills up during a pull: reported, no half-written file is kept, and it continues once there is space', async () => {
    const { staging } = node.double().dirs;
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', staging]);
    try {
      const big = await harness.make({
        dir: harness.at('big'),
        images: ocpImages(['big'], { sizeBytes: 6 * 1024 * 1024 }),
      });
      await harness.start(big.path);
      const full = await harness.until(({ status }) => /disk is full/.test(status));
      expect(full.status).toMatch(/the runtime's disk is full while pulling quay\.example\.com\/ocp\/big@sha256/);
      expect(await harness.images()).toEqual([]);
      execFileSync('mount', ['-o', 'remount,size=64m', staging]);
      await harness.until((report) => report.bundles[0]?.phase === 'activated');
    } finally {
      execFileSync('umount', ['--lazy', staging]);
    }
  });

  it('holds while CRI-O does not run, and continues when it does', async () => {
    await node.killRuntime();
    await harness.start(bundle.path);
    const held = await harness.until((report) => report.bundles[0]?.phase === 'held');
    expect(held.bundles[0]?.hold).toBe('runtime');
    expect(held.status).toContain('The container runtime does not answer');
    await node.restartRuntime();
    harness.engine.kick();
    await harness.until((report) => report.bundles[0]?.phase === 'activated');
    expect(existsSync(node.double().socketPath)).toBe(true);
  });
});
