import { describe, expect, it } from 'vitest';
import { digestFromHex } from '../../../../src/domain/model/digest.ts';
import { AppError } from '../../../../src/platform/app-error.ts';
import { mayBegin, type PullApi, type RequestedManifest } from '../../../../src/registry/answers.ts';

const manifest = digestFromHex('ab'.repeat(32));
const config = {
  mediaType: 'application/vnd.oci.image.config.v1+json',
  digest: digestFromHex('cd'.repeat(32)),
  size: 2,
};
const layer = { mediaType: 'application/vnd.oci.image.layer.v1.tar', digest: digestFromHex('ef'.repeat(32)), size: 9 };
const document: RequestedManifest['document'] = {
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
      if (timeMs > 60_000) throw new Error('it waits without end');
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
  const answer = mayBegin(api, { digest: manifest, document, offer, client: 'runtime' }, never);
  return answer.then((isSent) => ({ isSent, waitedMs: timeMs }));
}

describe('a manifest whose layers are not at hand', () => {
  it.each([true, false])('is sent to the runtime as the runtime says that it has the image: %s', async (held) => {
    const asked: string[] = [];
    const { isSent } = await askOnce(async (reference) => {
      asked.push(reference);
      return held;
    });
    expect([isSent, asked]).toEqual([held, [REFERENCE]]);
  });

  it('waits for a runtime that the daemon has not reached yet, as after a start', async () => {
    let failures = 3;
    const { isSent } = await askOnce(async () => {
      failures -= 1;
      if (failures >= 0)
        throw new AppError({ code: 'runtime/unreachable', message: 'not found yet', disposition: 'retry' });
      return true;
    });
    expect([isSent, failures]).toEqual([true, -1]);
  });

  it('is not sent, at once, while the runtime answers with an error, as when CRI-O has lost a layer', async () => {
    const message = 'ImageStatus failed: locating item: layer not known';
    const end = await askOnce(async () => {
      throw new AppError({ code: 'runtime/pull-failed', message, disposition: 'retry' });
    });
    expect(end).toEqual({ isSent: false, waitedMs: 0 });
  });
});
