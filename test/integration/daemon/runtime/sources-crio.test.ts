import { cpSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { hexOf } from '../../../../src/domain/model/digest.ts';
import type { SampleBundle } from '../../../support/bundles/sample-bundle.ts';
import { sampleImage } from '../../../support/bundles/sample-image.ts';
import { mirrorToml } from '../../../support/crio-double/source-and-double.ts';
import type { SettingsOverrides } from '../../../support/daemon/daemon-harness.ts';
import { type CrioNode, createCrioNode } from '../../../support/daemon/runtimes/crio-node.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';
import { have } from '../../../support/requirements.ts';
import { runCommand } from '../../../support/run-command.ts';
import { type SourceRegistry, startSourceRegistry } from '../../../support/source-registry.ts';

describe.runIf(have('root', 'mmdebstrap'))('where blobs come from, with the CRI-O double', () => {
  const factory = folderForEach();
  let node: CrioNode;
  let bundle: SampleBundle;
  let remote: SourceRegistry;

  beforeEach(async () => {
    remote = await startSourceRegistry();
  });
  afterEach(async () => {
    await node.dispose();
    await remote.close();
  });

  const setUp = async (settings: SettingsOverrides = {}) => {
    const toml = mirrorToml('quay.example.com', remote.host);
    node = await createCrioNode(settings, { files: { 'etc/containers/registries.conf.d/50-remote.conf': toml } });
    bundle = await node.harness.make();
    await node.harness.start();
  };
  const activated = () =>
    node.harness.until(
      ({ bundles, operation }) =>
        bundles[0]?.phase === 'activated' && operation === 'idle' && bundles[0].images.pinned === 2,
      120_000,
    );
  const backAfterWipe = async () => {
    await node.powerCutAndWipe();
    node.harness.engine.kick();
    await expect
      .poll(async () => (await node.harness.images()).filter((image) => image.pinned).length, { timeout: 60_000 })
      .toBe(2);
  };
  /** Puts the images of the bundle into the registry that its references lead to. */
  const publish = () => remote.publish(...bundle.images);
  const envelopeOf = async (name: string) => {
    const folder = join(factory, name);
    const made = await runCommand(['bundle', 'envelope', bundle.path, '--out', folder]);
    if (made.exitCode !== 0) throw new Error(made.stderr);
    return folder;
  };
  /** As made by hand: manifests and configs are not there either. */
  const bareEnvelopeOf = async (name: string) => {
    const folder = await envelopeOf(name);
    rmSync(join(folder, 'blobs'), { recursive: true });
    return folder;
  };
  const drop = (folder: string) => {
    cpSync(folder, join(node.harness.base, 'half'), { recursive: true });
    cpSync(join(node.harness.base, 'half'), join(node.harness.incoming, 'ocp'), { recursive: true });
  };

  it('a wiped runtime is filled again from the stick that was left in', async () => {
    await setUp();
    node.harness.plug(bundle.path);
    await activated();
    await backAfterWipe();
  });

  it('a wiped runtime is filled again from the drop folder', async () => {
    await setUp();
    drop(bundle.path);
    await activated();
    await backAfterWipe();
  });

  it('with retention.blobs = "kept" a wiped runtime is filled again without any medium', async () => {
    await setUp({ retention: { blobs: 'kept' } });
    node.harness.plug(bundle.path);
    await activated();
    const layers = () => readdirSync(join(node.harness.base, 'state/blobs/layers')).sort();
    const expected = bundle.contents.layers.map(({ digest }) => hexOf(digest)).sort();
    await expect.poll(layers, { timeout: 60_000 }).toEqual(expected);
    await node.harness.takeOut();
    await backAfterWipe();
  });

  it('an envelope without blobs is preloaded from the registries that its references name, and pinned', async () => {
    await setUp();
    publish();
    drop(await envelopeOf('envelope'));
    const done = await activated();
    expect(done.bundles[0]?.images).toEqual({ total: 2, present: 2, pinned: 2 });
    expect(node.harness.statuses.join('\n')).toContain('Preloading ocp 4.13.7 from quay.example.com: 0/2 images');
    for (const { digest } of bundle.contents.images) expect(remote.getCount(digest)).toBeGreaterThan(0);
    await backAfterWipe();
  });

  /** The tags of both images name another one in their registry. */
  const moveTags = () =>
    remote.publish(...bundle.images.map((one) => ({ ...one, image: sampleImage({ seed: 'moved' }) })));
  const tagsNow = async () => (await node.harness.images()).flatMap(({ repoTags }) => repoTags);

  it('a tag that moved in its registry does not move on the node: tags come from the manifests of the envelope', async () => {
    await setUp();
    publish();
    moveTags();
    drop(await envelopeOf('envelope'));
    await activated();
    const images = await node.harness.images();
    for (const { reference, tags } of bundle.contents.images) {
      expect(images.find(({ repoDigests }) => repoDigests.includes(reference))?.repoTags).toEqual(tags);
    }
    expect(remote.requests.filter(({ path }) => path.endsWith('/manifests/4.13.7'))).toEqual([]);
  });

  it('without manifests a tag that moved in its registry is removed and reported, and set once it is right', async () => {
    await setUp();
    publish();
    moveTags();
    drop(await bareEnvelopeOf('envelope'));
    const failed = await node.harness.until(
      ({ bundles }) => /does not name .* after it was pulled/.test(bundles[0]?.reason?.message ?? ''),
      120_000,
    );
    expect(failed.bundles[0]).toMatchObject({ phase: 'ready', images: { total: 2, present: 2, pinned: 2 } });
    expect(node.harness.log.lines.map(({ message }) => message).join('\n')).toMatch(
      /ocp 4\.13\.7 could not be activated: quay\.example\.com\/coreos\/etcd:4\.13\.7 does not name quay/,
    );
    publish();
    await activated();
    expect((await tagsNow()).sort()).toEqual(bundle.contents.images.flatMap(({ tags }) => tags).sort());
  });

  it('an envelope waits for its registry: retried automatically, and reported', async () => {
    await setUp();
    drop(await envelopeOf('envelope'));
    const failed = await node.harness.until(({ status }) => /No source has the image/.test(status));
    expect(failed.status).toMatch(
      /^WAIT \(R-15\): Preloading .* from quay\.example\.com: .* No source has the image\.$/,
    );
    expect(failed.bundles[0]?.reason?.message).toMatch(
      /from quay\.example\.com\b.* no medium has its blobs: .* Plug in the medium that has it$/,
    );
    publish();
    await activated();
  });

  it('with preload.online = false an envelope waits for the stick with its blobs', async () => {
    await setUp({ preload: { online: false } });
    publish();
    drop(await envelopeOf('envelope'));
    await node.harness.until(({ status }) => status.includes('has no blobs, and preload.online is false'));
    expect(node.harness.report().bundles[0]?.hold).toBe('media');
    expect(remote.requests).toEqual([]);
    node.harness.plug(bundle.path);
    await activated();
  });

  it('a half-copied stick does not cause requests to registries', async () => {
    await setUp();
    publish();
    const half = join(factory, 'half');
    cpSync(bundle.path, half, { recursive: true });
    const kept = hexOf(bundle.payload.contents.digest);
    for (const name of readdirSync(join(half, 'blobs/sha256'))) {
      if (name !== kept) rmSync(join(half, 'blobs/sha256', name));
    }
    node.harness.plug(half);
    const held = await node.harness.until(({ bundles }) => bundles[0]?.hold === 'media');
    expect(held.status).toMatch(/lacks \d+ blobs/);
    expect(remote.requests).toEqual([]);
  });

  it('loads images from the medium if it has all their blobs, and the others from their registry', async () => {
    await setUp();
    publish();
    const half = join(factory, 'half');
    cpSync(bundle.path, half, { recursive: true });
    const [etcd, api] = bundle.images;
    for (const layer of api?.image.layers ?? []) rmSync(join(half, 'blobs/sha256', layer.digest.slice(7)));
    drop(await envelopeOf('envelope'));
    remote.drop(etcd?.image.top.digest ?? '');
    node.harness.plug(half);
    await activated();
    expect(remote.bytesSent(etcd?.image.layers[0]?.digest)).toBe(0);
    expect(remote.bytesSent(api?.image.layers[0]?.digest)).toBeGreaterThan(0);
  });
});
