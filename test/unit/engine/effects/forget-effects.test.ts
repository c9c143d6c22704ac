import { expect, it } from 'vitest';
import type { Assessment } from '../../../../src/domain/assess/assess.ts';
import type { Digest } from '../../../../src/domain/model/digest.ts';
import type { EffectContext } from '../../../../src/engine/effects/effect-context.ts';
import { forgetRelease } from '../../../../src/engine/effects/release-effects.ts';
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

/** A release with the documents of one image. `onRemove`: before each removal of one. */
function sample(onRemove: (removed: number) => void, onSigned: () => void = () => undefined) {
  const documents = imageDocuments();
  const [index = Buffer.alloc(0)] = documents;
  const kept = new Map<Digest, Buffer>(documents.map((bytes) => [digestOf(bytes), bytes]));
  const bundle = stored(
    verified({ images: { etcd: ['base'] }, imageOver: { etcd: { digest: digestOf(index), mediaType: INDEX } } }),
  );
  const state = { bundle, isForgotten: false };
  const ports = {
    alive: () => undefined,
    policy: POLICY,
    store: {
      load: () => storedState([state.bundle]),
      forget: () => {
        state.isForgotten = true;
      },
    },
    signedBundles: { remove: async () => onSigned() },
    documents: {
      list: async () => new Set(kept.keys()),
      sizeOf: async (digest: Digest) => kept.get(digest)?.length,
      read: async function* (digest: Digest) {
        yield kept.get(digest) ?? Buffer.alloc(0);
      },
      remove: async (digest: Digest) => {
        onRemove(documents.length - kept.size);
        kept.delete(digest);
      },
    },
  };
  const context = { ports } as unknown as EffectContext;
  const assessment = { bundles: [{ bundle }], notices: [], adoptions: [] } as unknown as Assessment;
  const forget = () => forgetRelease(context, bundle.bundleId, assessment, never);
  return { kept, total: documents.length, state, forget };
}

it.each([0, 1, 2, 3, 4, 5])('a release leaves no document when its removal ends after %i of them', async (most) => {
  let left = most;
  const { kept, total, state, forget } = sample(() => {
    if (left === 0) throw new Error('killed');
    left -= 1;
  });
  if (most < total) await expect(forget()).rejects.toThrow('killed');
  else await forget();
  expect(kept.size).toBe(total - most);
  left = total;
  await forget();
  expect([kept.size, state.isForgotten]).toEqual([0, true]);
});

it.each([0, 2, 4])('a release that is asked for again stays, after %i documents of it were removed', async (most) => {
  const { kept, total, state, forget } = sample((removed) => {
    if (removed === most) state.bundle = { ...state.bundle, activationRequestedAt: 1 };
  });
  await forget();
  expect([kept.size, state.isForgotten]).toEqual([total - most - 1, false]);
});

it('a release that is asked for while its last file is removed keeps its record', async () => {
  const { state, forget } = sample(
    () => undefined,
    () => {
      state.bundle = { ...state.bundle, activationRequestedAt: 1 };
    },
  );
  await forget();
  expect(state.isForgotten).toBe(false);
});
