import { describe, expect, it } from 'vitest';
import { digestFromHex } from '../../../../src/domain/model/digest.ts';
import { AppError } from '../../../../src/platform/app-error.ts';
import { type AskedManifest, mayBegin } from '../../../../src/registry/answers/begin.ts';
import type { PullApi } from '../../../../src/registry/answers/exchange.ts';

const manifest = digestFromHex('ab'.repeat(32));
const config = {
  mediaType: 'application/vnd.oci.image.config.v1+json',
  digest: digestFromHex('cd'.repeat(32)),
  size: 2,
};
const layer = { mediaType: 'application/vnd.oci.image.layer.v1.tar', digest: digestFromHex('ef'.repeat(32)), size: 9 };
const document: AskedManifest['document'] = {
  kind: 'manifest',
  schemaVersion: 2,
  mediaType: 'application/vnd.oci.image.manifest.v1+json',
  config,
  layers: [layer],
};
const REFERENCE = `quay.example.com/etcd@${manifest}`;
const offer = {
  tags: new Map(),
  layers: new Map(),
  images: { references: new Map([[manifest, REFERENCE]]), arriving: new Set<never>() },
};

/** A registry with a manifest and its config, but no layer; the clock passes as it is slept on. */
function askOnce(isHeld: NonNullable<PullApi['isHeld']>) {
  let timeMs = 0;
  const clock = {
    now: () => timeMs,
    monotonic: () => timeMs,
    sleep: async (ms: number) => {
      timeMs += ms;
    },
  };
  const source = {
    sizeOf: async (digest: string) => (digest === config.digest ? 2 : undefined),
    read: () => {
      throw new Error('nothing is read');
    },
  };
  // The parts of the pull API that the decision uses.
  const api = { isHeld, clock, source } as unknown as PullApi;
  const never = new AbortController().signal;
  return mayBegin(api, { digest: manifest, document, offer, client: 'runtime' }, never);
}

describe('a manifest whose layers are not at hand', () => {
  it.each([true, false])('is sent to the runtime as the runtime says that it has the image: %s', async (held) => {
    const asked: string[] = [];
    const answer = await askOnce(async (reference) => {
      asked.push(reference);
      return held;
    });
    expect([answer, asked]).toEqual([held, [REFERENCE]]);
  });

  it('waits for a runtime that the daemon has not reached yet, as after a start', async () => {
    let failures = 3;
    const answer = await askOnce(async () => {
      failures -= 1;
      if (failures >= 0)
        throw new AppError({ code: 'runtime/unreachable', message: 'not found yet', disposition: 'retry' });
      return true;
    });
    expect([answer, failures]).toEqual([true, -1]);
  });
});
