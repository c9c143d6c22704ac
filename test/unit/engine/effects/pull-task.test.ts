import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { mediaTypes } from '../../../../src/bundle/format/oci-schema.ts';
import { type Digest, digestFromHex } from '../../../../src/domain/model/digest.ts';
import { pullImage } from '../../../../src/engine/effects/pull-effects.ts';
import type { StallWatch } from '../../../../src/engine/tasks/stall-watch.ts';
import { AppError } from '../../../../src/platform/app-error.ts';
import type { BlobSource, BlobUnion, CopyFault } from '../../../../src/ports/blobs.ts';
import { digestOf, layer, stored, verified } from '../../../support/daemon/scenario.ts';

const hashOf = (bytes: Buffer): Digest => digestFromHex(createHash('sha256').update(bytes).digest('hex'));
const bytesOf = (value: unknown): Buffer => Buffer.from(typeof value === 'string' ? value : JSON.stringify(value));

const config = bytesOf({ architecture: 'amd64' });
const layerBytes = bytesOf('a layer');
const descriptorOf = (mediaType: string, bytes: Buffer) => ({ mediaType, digest: hashOf(bytes), size: bytes.length });
const manifest = bytesOf({
  schemaVersion: 2,
  config: descriptorOf(mediaTypes.ociConfig, config),
  layers: [descriptorOf('application/vnd.oci.image.layer.v1.tar', layerBytes)],
});
const index = bytesOf({
  schemaVersion: 2,
  manifests: [manifest, bytesOf('s390x')].map((bytes) => descriptorOf(mediaTypes.ociManifest, bytes)),
});

interface Case {
  readonly error?: unknown;
  /**
   * Blobs that the media have under their names; others are absent. Default: all, as they should
   * be.
   */
  readonly blobs?: ReadonlyMap<Digest, Buffer>;
  readonly isUnused?: boolean;
  /** Whether our registry has the manifest when it is asked. Default: yes. */
  readonly isSent?: boolean;
  readonly online?: boolean;
  readonly root?: Digest;
  readonly sent?: readonly Digest[];
  /** What was seen to have another digest while it was sent. */
  readonly damaged?: readonly Digest[];
  /** What the runtime asks for that nothing offers. */
  readonly wanted?: Digest;
  readonly unreadable?: Digest;
  /** What a second medium has. */
  readonly other?: ReadonlyMap<Digest, Buffer>;
  /** In place of `blobs`, `unreadable` and `other`. */
  readonly source?: Shelf;
}

const whole = new Map([config, layerBytes, manifest, index].map((bytes) => [hashOf(bytes), bytes]));
const without = (bytes: Buffer) => new Map([...whole].filter(([digest]) => digest !== hashOf(bytes)));
const spoilt = (bytes: Buffer) => new Map([...whole, [hashOf(bytes), bytesOf('rubbish')]]);
const failed = (code: string, message = 'rpc error: no') => new AppError({ code, message, disposition: 'retry' });

const NOTHING = { count: 0, last: undefined };
const unwatched: StallWatch = { guard: (_pull, signal, work) => work(signal) };

interface Shelf extends Omit<BlobUnion, 'onChange'> {
  readonly reads: Digest[];
}

/** Each medium is tried after those before it, what is distrusted last. */
function sourceOf(...media: readonly { blobs: ReadonlyMap<Digest, Buffer>; unreadable?: Digest | undefined }[]): Shelf {
  const reads: Digest[] = [];
  const faults = new Map<string, CopyFault>();
  const shelves = media.map(({ blobs, unreadable }, at) => {
    const read: BlobSource['read'] = async function* (digest) {
      reads.push(digest);
      const bytes = blobs.get(digest);
      if (bytes === undefined) throw failed('media/gone');
      if (digest === unreadable) throw failed('media/read', 'EIO: i/o error');
      yield bytes.subarray(0, 3);
      yield bytes.subarray(3);
    };
    return { label: `stick-${at + 1}`, blobs, read };
  });
  const copies = (digest: Digest) =>
    shelves
      .filter(({ blobs }) => blobs.has(digest))
      .map(({ label, read }) => ({
        label,
        isTrusted: !faults.has(`${label} ${digest}`),
        read: (startByte: number, signal: AbortSignal) => read(digest, startByte, signal),
        distrust: (fault: CopyFault) => void faults.set(`${label} ${digest}`, fault),
      }))
      .sort((a, b) => Number(b.isTrusted) - Number(a.isTrusted));
  return {
    reads,
    sizeOf: async (digest) => shelves.find(({ blobs }) => blobs.has(digest))?.blobs.get(digest)?.length,
    read: async function* (digest, startByte, signal) {
      const [copy] = copies(digest);
      if (copy === undefined) throw failed('media/gone');
      yield* copy.read(startByte, signal);
    },
    copiesOf: async (digest) => copies(digest),
  };
}

async function pull({
  error,
  blobs = whole,
  isUnused = false,
  isSent = true,
  online = false,
  root = hashOf(manifest),
  sent,
  damaged = [],
  wanted,
  unreadable,
  other,
  source = sourceOf({ blobs, unreadable }, ...(other === undefined ? [] : [{ blobs: other }])),
}: Case) {
  const reference = `quay.example.com/ocp/etcd@${root}`;
  const bundle = stored(
    verified({
      images: { etcd: ['etcd'] },
      layers: { etcd: layer('etcd', { digest: hashOf(layerBytes) }) },
      imageOver: { etcd: { reference, digest: root } },
    }),
  );
  const [image] = bundle.contents.images;
  if (image === undefined) throw new Error('no image');
  let requests = 0;
  const end = await pullImage(
    image,
    bundle,
    {
      source,
      online,
      stalls: unwatched,
      runtime: {
        pull: async () => {
          if (!isUnused) requests += 1;
          if (error !== undefined) throw error;
        },
      },
      meter: {
        manifestRequests: () => requests,
        manifestsSent: () => (isSent ? requests : 0),
        unknownRequests: () => (wanted === undefined || requests === 0 ? NOTHING : { count: 1, last: wanted }),
        sentBytes: () => new Map((sent ?? [hashOf(layerBytes)]).map((digest) => [digest, 1])),
        damaged: () => new Set(damaged),
      },
    },
    new AbortController().signal,
  );
  return { end, fault: end.kind === 'failed' ? end : undefined, source };
}

describe('pullImage', () => {
  it('reports nothing after a successful pull', async () => {
    expect((await pull({})).end).toEqual({ kind: 'pulled', isElsewhere: false });
  });

  it('notices an image that was pulled without a manifest from our registry, unless that is intended', async () => {
    expect((await pull({ isUnused: true })).end).toEqual({ kind: 'pulled', isElsewhere: true });
    expect((await pull({ isSent: false })).end).toEqual({ kind: 'pulled', isElsewhere: true });
    expect((await pull({ isUnused: true, online: true })).end).toEqual({ kind: 'pulled', isElsewhere: false });
  });

  it.each([
    ['runtime/unreachable', 'observed', /the runtime went away while pulling quay\S+ of ocp 4\.13\.7/],
    ['runtime/no-space', 'backoff', /the runtime's disk is full .* all pulls are stopped\. Free space on it/],
    ['runtime/policy', 'person', /policy\.json refuses/],
    ['engine/stalled', 'backoff', /^rpc error: no$/],
    ['runtime/cancelled', 'backoff', /cancelled by the runtime/],
    ['runtime/pull-failed', 'backoff', /could not be pulled: rpc error: no/],
    ['something/else', 'backoff', /could not be pulled: rpc error: no/],
  ])('explains %s', async (code, retry, message) => {
    const { fault } = await pull({ error: failed(code) });
    expect(fault).toMatchObject({ retry, reason: { code, message: expect.stringMatching(message) } });
  });

  it('says why the runtime can not use an image, and what to do, by its manifest', async () => {
    const odd = bytesOf({
      schemaVersion: 2,
      config: descriptorOf(mediaTypes.ociConfig, config),
      layers: [descriptorOf('application/octet-stream', layerBytes)],
    });
    const error = failed('runtime/unfit-image', 'mismatched image rootfs');
    const blobs = new Map([...whole, [hashOf(odd), odd]]);
    const { fault } = await pull({ error, blobs, root: hashOf(odd) });
    expect(fault).toMatchObject({ retry: 'person', reason: { code: 'runtime/unfit-image' } });
    expect(fault?.reason.message).toMatch(
      /^the runtime can't use quay\S+ of ocp 4\.13\.7\. Make the bundle again .*containerd can't use it, since .*application\/octet-stream: build it again.* The runtime says: mismatched image rootfs$/,
    );
    const lost = await pull({ error, blobs: without(odd), root: hashOf(odd) });
    expect(lost.fault?.reason.message).toMatch(/in another form\. The runtime says: mismatched image rootfs$/);
  });

  it('does not count the stop of the runtime as a failure', async () => {
    expect((await pull({ error: failed('runtime/stopping') })).end).toEqual({ kind: 'interrupted' });
  });

  it('counts a foreign error as a failed pull', async () => {
    const { fault } = await pull({ error: new TypeError('oops') });
    expect(fault).toMatchObject({ retry: 'backoff', reason: { code: 'runtime/pull-failed' } });
  });

  it('throws what aborted it', async () => {
    const controller = new AbortController();
    const bundle = stored();
    const [image] = bundle.contents.images;
    if (image === undefined) throw new Error('no image');
    const runtime = {
      pull: async () => {
        controller.abort(new Error('stop'));
        throw failed('runtime/cancelled');
      },
    };
    const meter = {
      manifestRequests: () => 0,
      manifestsSent: () => 0,
      sentBytes: () => new Map(),
      damaged: () => new Set<Digest>(),
      unknownRequests: () => NOTHING,
    };
    const deps = { runtime, meter, source: sourceOf({ blobs: whole }), stalls: unwatched };
    await expect(pullImage(image, bundle, deps, controller.signal)).rejects.toThrow('stop');
  });

  it('reports that the runtime never asked our registry, reads no blob, and tries again soon', async () => {
    const { fault, source } = await pull({
      error: failed('runtime/not-found'),
      isUnused: true,
      blobs: spoilt(layerBytes),
    });
    expect(fault).toMatchObject({ retry: 'settling', reason: { code: 'engine/mirror-unused' } });
    expect(source.reads).toEqual([]);
  });

  it.each([
    ['layer', layerBytes],
    ['config', config],
    ['manifest', manifest],
  ])('names a damaged %s by both digests', async (_what, bytes) => {
    const { fault } = await pull({ error: failed('runtime/digest-mismatch'), blobs: spoilt(bytes) });
    expect(fault).toMatchObject({ retry: 'media', reason: { code: 'media/blob-damaged' } });
    expect(fault?.reason.message).toMatch(
      new RegExp(`^Blob ${hashOf(bytes)} .* is damaged .*Copy ocp 4\\.13\\.7 to the stick again`),
    );
    expect(fault?.reason.message.length).toBeLessThanOrEqual(400);
  });

  it('checks only blobs that were sent for damage', async () => {
    const { source } = await pull({ error: failed('runtime/pull-failed'), sent: [] });
    expect(source.reads).not.toContain(hashOf(layerBytes));
  });

  it('checks a blob first that was damaged when it was sent, and no other one if that is the cause', async () => {
    const { fault, source } = await pull({
      error: failed('runtime/digest-mismatch'),
      blobs: spoilt(layerBytes),
      damaged: [hashOf(layerBytes)],
    });
    expect(fault?.reason.message).toContain(`Blob ${hashOf(layerBytes)} of etcd is damaged on stick-1`);
    // The manifest is read to know what the image is made of.
    expect(source.reads).toEqual([hashOf(manifest), hashOf(layerBytes)]);
  });

  it('names a blob whose bytes were wrong while it was sent and right afterwards, and tries again', async () => {
    const { fault } = await pull({ error: failed('runtime/digest-mismatch'), damaged: [hashOf(layerBytes)] });
    expect(fault).toMatchObject({ retry: 'backoff', reason: { code: 'media/blob-damaged' } });
    expect(fault?.reason.message).toMatch(
      new RegExp(`^Blob ${hashOf(layerBytes)} of etcd was read with other bytes than it has, and with the right ones`),
    );
    const other = await pull({ error: failed('runtime/digest-mismatch'), damaged: [digestOf('of another image')] });
    expect(other.fault?.reason.code).toBe('runtime/pull-failed');
  });

  it('names a config that is on no medium, and waits for one that has it', async () => {
    const { fault } = await pull({ error: failed('runtime/not-found'), blobs: without(config) });
    expect(fault).toMatchObject({ retry: 'media', reason: { code: 'bundle/blob-missing' } });
    expect(fault?.reason.message).toContain(`lacks blob ${hashOf(config)}`);
  });

  it('finds the missing config below an index too, and ignores other platforms', async () => {
    const root = hashOf(index);
    const lacking = await pull({ error: failed('runtime/not-found'), blobs: without(config), root });
    expect(lacking.fault?.reason.message).toContain(`lacks blob ${hashOf(config)}`);
    const all = await pull({ error: failed('runtime/not-found'), root });
    expect(all.fault?.reason.code).toBe('runtime/pull-failed');
  });

  it('names a blob that can not be read, unless another one is damaged', async () => {
    const { fault } = await pull({ error: failed('runtime/pull-failed'), unreadable: hashOf(layerBytes) });
    expect(fault).toMatchObject({ retry: 'backoff', reason: { code: 'media/blob-unreadable' } });
    expect(fault?.reason.message).toMatch(
      new RegExp(`^Blob ${hashOf(layerBytes)} of etcd can't be read from stick-1: EIO.*Copy`),
    );
    const both = await pull({
      error: failed('runtime/pull-failed'),
      unreadable: hashOf(config),
      blobs: spoilt(layerBytes),
    });
    expect(both.fault?.reason.message).toContain(`Blob ${hashOf(layerBytes)} of etcd is damaged`);
  });

  it('reads a blob that is damaged on one medium from another one at once, and names both', async () => {
    const { fault, source } = await pull({
      error: failed('runtime/digest-mismatch'),
      blobs: spoilt(layerBytes),
      other: whole,
    });
    expect(fault).toMatchObject({ retry: 'observed', reason: { code: 'media/blob-damaged' } });
    expect(fault?.reason.message).toMatch(
      new RegExp(
        `^Blob ${hashOf(layerBytes)} of etcd is damaged on stick-1 .*\\. It is taken from stick-2 instead; copy ocp 4\\.13\\.7 to stick-1 again\\.$`,
      ),
    );
    const copies = await source.copiesOf(hashOf(layerBytes), new AbortController().signal);
    expect(copies.map(({ label }) => label)).toEqual(['stick-2', 'stick-1']);
  });

  it('reads a blob that is unreadable on one medium from another one', async () => {
    const unreadable = hashOf(layerBytes);
    const { fault } = await pull({ error: failed('runtime/pull-failed'), unreadable, other: whole });
    expect(fault).toMatchObject({ retry: 'observed', reason: { code: 'media/blob-unreadable' } });
    expect(fault?.reason.message).toContain("can't be read from stick-1: EIO: i/o error. It is taken from stick-2");
  });

  it('waits for a person once every copy is damaged', async () => {
    const blobs = spoilt(config);
    const error = failed('runtime/digest-mismatch');
    const source = sourceOf({ blobs }, { blobs });
    const first = await pull({ error, source });
    expect(first.fault).toMatchObject({ retry: 'observed' });
    expect(first.fault?.reason.message).toContain('It is taken from stick-2 instead');
    const second = await pull({ error, source });
    expect(second.fault).toMatchObject({ retry: 'media' });
    expect(second.fault?.reason.message).toMatch(/is damaged on stick-2 .*Copy ocp 4\.13\.7 to the stick again/);
  });

  it('finds all damaged blobs in one pull if another medium has them, and waits for a person otherwise', async () => {
    const both = new Map([...spoilt(layerBytes), [hashOf(config), bytesOf('rubbish')]]);
    const { fault, source } = await pull({ error: failed('runtime/digest-mismatch'), blobs: both, other: whole });
    expect(fault?.retry).toBe('observed');
    for (const bytes of [layerBytes, config]) {
      const [copy] = await source.copiesOf(hashOf(bytes), new AbortController().signal);
      expect(copy?.label).toBe('stick-2');
    }
    const lone = await pull({ error: failed('runtime/digest-mismatch'), blobs: both, other: without(layerBytes) });
    expect(lone.fault).toMatchObject({ retry: 'media' });
    expect(lone.fault?.reason.message).toContain(`Blob ${hashOf(layerBytes)}`);
  });

  it('names a blob that the runtime requested and the bundle lacks', async () => {
    const wanted = hashOf(bytesOf('s390x'));
    const { fault } = await pull({ error: failed('runtime/not-found'), wanted });
    expect(fault).toMatchObject({ retry: 'backoff', reason: { code: 'bundle/not-in-bundle' } });
    expect(fault?.reason.message).toContain(`asked for ${wanted} to pull`);
    const gone = await pull({ error: failed('runtime/not-found'), wanted, blobs: without(manifest) });
    expect(gone.fault?.reason.code).toBe('media/gone');
  });

  it.each([
    ['layer', layerBytes],
    ['manifest', manifest],
  ])('says that the medium was removed when the %s is gone', async (_what, bytes) => {
    const { fault } = await pull({ error: failed('runtime/pull-failed'), blobs: without(bytes) });
    expect(fault).toMatchObject({ retry: 'observed', reason: { code: 'media/gone' } });
  });
});
