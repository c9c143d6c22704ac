import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { type Digest, digestFromHex } from '../../../src/domain/model/digest.ts';
import { stored, verified } from '../../support/daemon/scenario.ts';
import { createFakeNode } from '../../support/fake-ports.ts';

const hashOf = (bytes: Buffer): Digest => digestFromHex(createHash('sha256').update(bytes).digest('hex'));
const config = Buffer.from('{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":[]}}');
const manifest = Buffer.from(
  JSON.stringify({
    schemaVersion: 2,
    mediaType: 'application/vnd.oci.image.manifest.v1+json',
    config: {
      mediaType: 'application/vnd.oci.image.config.v1+json',
      digest: hashOf(config),
      size: config.length,
    },
    layers: [],
  }),
);
const index = Buffer.from(
  JSON.stringify({
    schemaVersion: 2,
    mediaType: 'application/vnd.oci.image.index.v1+json',
    manifests: [digestFromHex('0'.repeat(64)), hashOf(manifest)].map((digest) => ({
      mediaType: 'application/vnd.oci.image.manifest.v1+json',
      digest,
      size: manifest.length,
    })),
  }),
);
const whole = [config, manifest, index];
const reference = `quay.example.com/ocp/etcd@${hashOf(index)}`;
const bundle = verified({
  images: { etcd: ['base'] },
  imageOver: { etcd: { reference, digest: hashOf(index) } },
});
const times = { readyAt: 1, activationRequestedAt: 2, activatedAt: 3, provenAt: 4, activeAt: 4 };

const byDigest = (all: readonly Buffer[]) => new Map(all.map((bytes) => [hashOf(bytes), bytes]));

/** A node with an activated release: which of its documents are kept, and which the runtime has. */
function nodeWith(own: readonly Buffer[], runtime: ReadonlyMap<Digest, Buffer> = new Map()) {
  const node = createFakeNode([stored(bundle, times)], {}, undefined, runtime);
  for (const [digest, bytes] of byDigest(own)) node.documents.set(digest, bytes);
  for (const name of [reference, 'quay.example.com/ocp/etcd:4.13.7']) node.runtime.images.set(name, reference);
  return node;
}
const degraded = (node: ReturnType<typeof nodeWith>) => node.engine.report()?.bundles[0]?.degraded;
const pulls = (node: ReturnType<typeof nodeWith>) =>
  node.runtime.log.filter((entry) => entry.startsWith('pull ')).length;

describe('documents of releases that are lost', () => {
  it.each([
    ['all', []],
    ['the config', [manifest, index]],
    ['the manifest below an index', [config, index]],
  ])('are kept again from what the runtime has, before pulls are tested: %s', async (_what, own) => {
    const node = nodeWith(own, byDigest(whole));
    await node.start();
    await node.clock.advance(1_000);
    expect([...node.documents.keys()].sort()).toEqual(whole.map(hashOf).sort());
    expect(degraded(node)).toBeUndefined();
    expect(node.log.lines.filter(({ message }) => message.includes('lost or damaged, kept again'))).toHaveLength(1);
    expect(node.engine.report()?.conditions[0]).toMatchObject({ type: 'PullsAnswered', status: 'True' });
    expect(pulls(node)).toBe(1);
    await node.stop();
  });

  it('are not taken from a runtime that has other bytes', async () => {
    const garbage = Buffer.alloc(manifest.length, 'x');
    const node = nodeWith([index, config], new Map([[hashOf(manifest), garbage]]));
    await node.start();
    await node.clock.advance(6_000);
    expect(degraded(node)).toMatchObject({ code: 'engine/documents-missing' });
    expect(node.documents.has(hashOf(manifest))).toBe(false);
    await node.stop();
  });

  it('degrade the release when nothing has them, until its stick is plugged in', async () => {
    const node = nodeWith([index, manifest]);
    await node.start();
    await node.clock.advance(1_000);
    // The runtime may just have failed to answer.
    expect(degraded(node)).toBeUndefined();
    await node.clock.advance(5_000);
    expect(node.phase('4.13.7')).toBe('proven');
    expect(degraded(node)).toMatchObject({
      code: 'engine/documents-missing',
      message: expect.stringMatching(/^1 of 1 images of ocp 4\.13\.7 .* Plug in the stick of ocp 4\.13\.7$/),
    });
    expect(node.statuses.at(-1)).toContain('Plug in the stick of ocp 4.13.7');
    node.blobs.set(hashOf(config), config);
    node.plug('sda1', bundle);
    await node.clock.advance(1_000);
    expect(degraded(node)).toBeUndefined();
    expect(node.documents.get(hashOf(config))).toEqual(config);
    await node.stop();
  });

  it('are looked for when images are verified', async () => {
    const node = nodeWith(whole, byDigest(whole));
    await node.start();
    await node.clock.advance(1_000);
    node.documents.delete(hashOf(manifest));
    await node.engine.verifyImages('', new AbortController().signal);
    expect(node.documents.has(hashOf(manifest))).toBe(true);
    await node.stop();
  });
});
