import { expect, it } from 'vitest';
import type { Assessment } from '../../../../src/domain/assess/assess.ts';
import type { Digest } from '../../../../src/domain/model/digest.ts';
import type { EffectContext } from '../../../../src/engine/effects/executor.ts';
import { forgetExecutors } from '../../../../src/engine/effects/forget-effects.ts';
import { digestOf } from '../../../../src/platform/digest.ts';
import { POLICY, stored, storedState, verified } from '../../../support/daemon/scenario.ts';

const MANIFEST = 'application/vnd.oci.image.manifest.v1+json';
const INDEX = 'application/vnd.oci.image.index.v1+json';
const never = new AbortController().signal;

/** The documents of one image for two platforms, the index first. */
function imageDocuments(): readonly Buffer[] {
  const described = (bytes: Buffer, mediaType: string) => ({ mediaType, digest: digestOf(bytes), size: bytes.length });
  const textOf = (value: unknown) => Buffer.from(JSON.stringify(value));
  const platforms = ['amd64', 'arm64'].map((architecture) => {
    const config = textOf({ architecture, os: 'linux' });
    const descriptor = described(config, 'application/vnd.oci.image.config.v1+json');
    const manifest = textOf({ schemaVersion: 2, mediaType: MANIFEST, config: descriptor, layers: [] });
    return { architecture, config, manifest };
  });
  const manifests = platforms.map(({ architecture, manifest }) => ({
    ...described(manifest, MANIFEST),
    platform: { architecture, os: 'linux' },
  }));
  const index = textOf({ schemaVersion: 2, mediaType: INDEX, manifests });
  return [index, ...platforms.flatMap(({ manifest, config }) => [manifest, config])];
}

it.each([0, 1, 2, 3, 4, 5])('a release leaves no document when its removal ends after %i of them', async (most) => {
  const documents = imageDocuments();
  const [index = Buffer.alloc(0)] = documents;
  const kept = new Map<Digest, Buffer>(documents.map((bytes) => [digestOf(bytes), bytes]));
  const bundle = stored(
    verified({ images: { etcd: ['base'] }, imageOver: { etcd: { digest: digestOf(index), mediaType: INDEX } } }),
  );
  let left = most;
  let isForgotten = false;
  const context = {
    alive: () => undefined,
    policy: POLICY,
    store: {
      load: () => storedState([bundle]),
      forget: () => {
        isForgotten = true;
      },
    },
    signedBundles: { remove: async () => undefined },
    documents: {
      list: async () => new Set(kept.keys()),
      sizeOf: async (digest: Digest) => kept.get(digest)?.length,
      read: async function* (digest: Digest) {
        yield kept.get(digest) ?? Buffer.alloc(0);
      },
      remove: async (digest: Digest) => {
        if (left === 0) throw new Error('killed');
        left -= 1;
        kept.delete(digest);
      },
    },
  } as unknown as EffectContext;
  const assessment = { bundles: [{ bundle }], notices: [], adoptions: [] } as unknown as Assessment;
  const forget = async () =>
    forgetExecutors(context)['forget-release'](
      { kind: 'forget-release', bundleId: bundle.bundleId },
      assessment,
      never,
    );
  if (most < documents.length) await expect(forget()).rejects.toThrow('killed');
  else await forget();
  expect(kept.size).toBe(documents.length - most);
  left = documents.length;
  await forget();
  expect([kept.size, isForgotten]).toEqual([0, true]);
});
