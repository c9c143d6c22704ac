import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { renderList } from '../../../../src/cli/output/render/render-status.ts';
import { messageIds } from '../../../../src/platform/message-ids.ts';
import type { SampleBundle } from '../../../support/bundles/sample-bundle.ts';
import { sampleImage } from '../../../support/bundles/sample-image.ts';
import { connectCri, type TestCriClient } from '../../../support/crio-double/cri/cri-client.ts';
import { mirrorToml } from '../../../support/crio-double/source-and-double.ts';
import type { DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { type CrioNode, createCrioNode } from '../../../support/daemon/runtimes/crio-node.ts';
import { eventually } from '../../../support/eventually.ts';
import { have } from '../../../support/requirements.ts';
import { startSourceRegistry } from '../../../support/source-registry.ts';

/** Less than the half minute after which everything is looked at anyway. */
const AT_ONCE_MS = 15_000;

describe.runIf(have('root', 'mmdebstrap'))('repairs of a release on the CRI-O double', { timeout: 90_000 }, () => {
  let node: CrioNode;
  let client: TestCriClient;
  let harness: DaemonHarness;
  let bundle: SampleBundle;

  beforeEach(async () => {
    // Tags can be moved from another registry.
    const serve = { activated: 'digests' } as const;
    node = await createCrioNode({ serve }, {}, { reload: (double) => double.reloadAndWait() });
    client = connectCri(node.double().socketPath);
    ({ harness } = node);
    bundle = await harness.make();
    await harness.start();
    await harness.load(bundle.path);
    harness.unplug();
    await harness.until((report) => report.bundles[0]?.media.length === 0);
  });
  afterEach(async () => {
    client.close();
  });

  const tagOf = (index: number) => bundle.contents.images[index]?.tags[0] ?? '';
  const told = (kind: keyof typeof messageIds) => harness.history(kind);
  /** Every image is there by digest, pinned, and has its tags. */
  const isWhole = async () => {
    const images = await harness.images();
    for (const { reference, tags } of bundle.contents.images) {
      const image = images.find((candidate) => candidate.repoDigests.includes(reference));
      expect(image).toMatchObject({ pinned: true, repoTags: tags });
    }
  };
  const restartCrio = async (meanwhile: () => void) => {
    client.close();
    await node.killRuntime();
    meanwhile();
    await node.restartRuntime();
    client = connectCri(node.double().socketPath);
  };

  it('restores a moved tag and a removed tag without the stick', async () => {
    const source = await startSourceRegistry();
    const stranger = sampleImage({ seed: 'stranger' });
    source.publish({ reference: tagOf(0), image: stranger });
    const mirror = join(node.double().dirs.registriesDropIns, '50-source.conf');
    writeFileSync(mirror, mirrorToml('quay.example.com', source.host));
    const mirrors = () => readFileSync(join(node.double().dirs.registriesDropIns, '99-stickpin.conf'), 'utf8');
    // What is configured meanwhile stands behind our mirror soon.
    await expect.poll(mirrors, { timeout: 60_000 }).toContain(source.host);
    await node.double().reloadAndWait();
    await client.pullImage(tagOf(0));
    await client.removeImage(tagOf(1));
    const strangers = (await harness.images()).find((image) => image.repoTags.includes(tagOf(0)));
    expect(strangers?.repoDigests[0]).toContain(stranger.top.digest);
    harness.engine.kick();
    await eventually(isWhole, AT_ONCE_MS);
    await eventually(() => expect(told('tagsRestored')).toHaveLength(1));
    expect(told('tagsRestored')[0]?.message).toContain(
      `2 tags of ocp 4.13.7 name their images again, first ${tagOf(0)}`,
    );
    expect(harness.log.lines.some(({ fields }) => fields.messageId === messageIds.tagsRestored)).toBe(true);
    // The stranger's image is not ours to remove.
    expect((await harness.images()).some((image) => image.repoDigests[0]?.includes(stranger.top.digest))).toBe(true);
    await expect.poll(mirrors, { timeout: 60_000 }).toContain('[[registry]]');
    await source.close();
  });

  it('restores a tag however often it is removed, also when the daemon is restarted in between', async () => {
    const lose = async () => {
      await harness.stop();
      await client.removeImage(tagOf(0));
      await harness.start();
    };
    for (let times = 1; times <= 4; times += 1) {
      await lose();
      await eventually(() => expect(told('tagsRestored')).toHaveLength(times), 60_000);
      await eventually(isWhole, AT_ONCE_MS);
    }
    expect(harness.report().bundles[0]?.degraded).toBeUndefined();
  }, 150_000);

  it('observes at once when CRI-O was restarted, and renders missing pins again', async () => {
    const pins = join(node.double().dirs.base, 'run/crio/crio.conf.d/99-stickpin.conf');
    await restartCrio(() => writeFileSync(pins, ''));
    await eventually(isWhole, AT_ONCE_MS);
    expect(readFileSync(pins, 'utf8')).toContain(bundle.contents.images[0]?.reference ?? 'no image');
  });

  it('reports a file that takes the pins away, and its removal, once each', async () => {
    const theirs = join(node.double().dirs.crioDropIns, '99-z.conf');
    const pinKinds = () => harness.log.kinds().filter((kind) => kind === 'pinsNotTaken' || kind === 'pinsHold');
    writeFileSync(theirs, '[crio.image]\npinned_images = []\n');
    harness.engine.kick();
    await eventually(() =>
      expect(told('pinsNotTaken').map((row) => row.message)).toEqual([expect.stringContaining(theirs)]),
    );
    await harness.rounds();
    rmSync(theirs);
    harness.engine.kick();
    await eventually(() => expect(told('pinsHold')).toHaveLength(1));
    await harness.rounds();
    expect(pinKinds()).toEqual(['pinsNotTaken', 'pinsHold']);
    await eventually(isWhole, AT_ONCE_MS);
  });

  it('names a file that hides our mirrors, as long as it does', async () => {
    const theirs = join(node.double().dirs.registriesDropIns, 'zz-last.conf');
    const repository = tagOf(0).replace(/:[^:/]*$/, '');
    writeFileSync(theirs, `[[registry]]\nprefix = "${repository}"\nlocation = "${repository}"\n`);
    await harness.until(({ status }) => status.includes(theirs), 60_000);
    for (let times = 0; times < 2; times += 1) {
      await harness.rounds();
      const { status, bundles } = harness.report();
      expect(status).toContain(theirs);
      expect(bundles[0]?.degraded?.code).toBe('runtime/mirrors-hidden');
    }
    const { conditions } = harness.report().bundles[0] ?? {};
    expect(conditions).toContainEqual(
      expect.objectContaining({ type: 'Degraded', status: 'True', message: expect.stringContaining(theirs) }),
    );
    expect(told('bundleDegraded').map((row) => row.message)).toEqual([expect.stringContaining(theirs)]);
    rmSync(theirs);
    await harness.until(({ bundles }) => bundles[0]?.degraded === undefined, 60_000);
    // A place that CRI-O refuses is not copied into our file.
    const refused = join(node.double().dirs.registriesDropIns, '10-refused.conf');
    writeFileSync(refused, `[[registry]]\nprefix = "${repository}"\nlocation = "https://m.example.com/x"\n`);
    await harness.until(({ status }) => status.includes(refused), 60_000);
    await harness.rounds();
    expect(readFileSync(join(node.double().dirs.registriesDropIns, '99-stickpin.conf'), 'utf8')).not.toContain(
      'https://m.',
    );
    rmSync(refused);
    await harness.until(({ bundles }) => bundles[0]?.degraded === undefined, 60_000);
  });

  it('reports missing images and their stick once, and pulls them again with their tags', async () => {
    for (const image of await harness.images()) await client.removeImage(image.imageId);
    harness.engine.kick();
    // A round may come after the first of them is removed.
    const gone = await harness.until(({ bundles }) => bundles[0]?.degraded !== undefined && !bundles[0].images.present);
    const names = bundle.contents.images.map(({ reference }) => reference).join(', ');
    const message = `2 of 2 images of ocp 4.13.7 are missing. The missing ones are ${names}. Plug in the stick of ocp 4.13.7`;
    expect(gone.bundles[0]).toMatchObject({
      phase: 'activated',
      degraded: { code: 'engine/image-missing', message },
      images: { total: 2, present: 0 },
    });
    expect(gone.status).toMatch(
      /: 2 of 2 images of ocp 4\.13\.7 are missing\. Plug in the stick of ocp 4\.13\.7\. The (?:first )?missing ones? (?:is|are) .*\.$/,
    );
    expect(renderList(gone)).toContain('Plug in the stick of ocp 4.13.7');
    harness.engine.kick();
    harness.plugAgain();
    await eventually(isWhole, 30_000);
    // One message, of what was missing in the round that saw it first.
    const first = /^[12] of 2 images of ocp 4\.13\.7 (is|are) missing\. .+ Plug in the stick of ocp 4\.13\.7$/;
    expect(told('imagesMissing').map((row) => row.message)).toEqual([expect.stringMatching(first)]);
    await harness.until((report) => report.bundles[0]?.degraded === undefined);
  });
});
