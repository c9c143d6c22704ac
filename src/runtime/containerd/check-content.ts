import { createHash } from 'node:crypto';
import type { Digest } from '../../domain/model/digest.ts';
import type { ExpectedLayer, ImageContent } from '../../domain/model/image.ts';
import type { ContentFault } from '../../domain/model/reason.ts';
import type { Clock } from '../../platform/clock.ts';
import { digestOf } from '../../platform/digest.ts';
import type { ContentCheck } from '../../ports/runtime.ts';
import { type BlobState, CheckedBlobs } from '../cri/checked-blobs.ts';
import type { CriClient } from '../cri/cri-client.ts';
import { callAgain, grpcCodeOf, toRuntimeError } from '../cri/runtime-error.ts';
import type { ContentClient } from './content-client.ts';

interface ContentCheckClients {
  readonly cri: Pick<CriClient, 'imageStatus' | 'imageFilesystemPath'>;
  readonly content: Pick<ContentClient, 'sizeOf' | 'read' | 'hasSnapshot' | 'isUnpacked'>;
  readonly clock: Clock;
}

/** These errors are about the blob, not the runtime. */
const ABOUT_THE_BLOB: Readonly<Record<number, BlobState>> = {
  2: 'unreadable', // unknown: an error of the disk
  5: 'lost',
  11: 'truncated', // out of range
  13: 'unreadable', // internal
  15: 'unreadable', // data loss
};

/** containerd keeps each snapshotter in such a folder (core/snapshots). */
const SNAPSHOTTER_FOLDER = /\/io\.containerd\.snapshotter\.v1\.([^/]+)$/;

/**
 * Reads all blobs of images, each once, and compares their digests. A layer may have no blob when
 * it is unpacked (`discard_unpacked_layers`).
 */
export function openContentCheck(clients: ContentCheckClients): ContentCheck {
  const { cri, content, clock } = clients;
  const blobs = new CheckedBlobs((digest, onBytes, signal) => readWhole(content, digest, onBytes, signal));
  return {
    check: async (image, onBytes, signal): Promise<ImageContent> => {
      const { reference, layers } = image;
      const listed = await callAgain((inner) => cri.imageStatus(reference, inner), clock, signal);
      const found = await blobs.faultsOf(image, onBytes, signal);
      if (listed === undefined) return { kind: 'absent', faults: found.filter(({ kind }) => kind === 'blob') };
      const absent = new Set(found.flatMap((fault) => (fault.kind === 'layer-absent' ? [fault.digest] : [])));
      const unpacked = absent.size === 0 ? layers.length : await unpackedLayers(clients, layers, signal);
      if (unpacked === undefined) return NO_SNAPSHOTTER;
      const lacking = layers.slice(unpacked).filter(({ digest }) => absent.has(digest));
      const faults = [
        ...found.filter(({ kind }) => kind !== 'layer-absent'),
        ...lacking.map(({ digest }): ContentFault => ({ kind: 'layer-absent', digest })),
      ];
      if (faults.length > 0) return { kind: 'broken', faults };
      const isUnpacked = await content.isUnpacked(listed.imageId as Digest, signal);
      return isUnpacked ? { kind: 'whole', by: 'bytes' } : { kind: 'broken', faults: [{ kind: 'not-unpacked' }] };
    },
  };
}

const NO_SNAPSHOTTER: ImageContent = {
  kind: 'unknown',
  reason: {
    code: 'runtime/config',
    message: 'containerd does not tell its snapshotter, so that it is not known which layers are unpacked',
  },
};

async function readWhole(
  content: ContentCheckClients['content'],
  digest: Digest,
  onBytes: (bytes: number) => void,
  signal: AbortSignal,
): Promise<BlobState> {
  const sizeBytes = await content.sizeOf(digest, signal);
  if (sizeBytes === undefined) return 'absent';
  const hash = createHash('sha256');
  let readBytes = 0;
  try {
    for await (const chunk of content.read(digest, 0, signal)) {
      hash.update(chunk);
      readBytes += chunk.length;
      onBytes(chunk.length);
    }
  } catch (error) {
    const state = signal.aborted ? undefined : ABOUT_THE_BLOB[grpcCodeOf(error) ?? -1];
    if (state === undefined) throw toRuntimeError(error, `Reading ${digest} from containerd`, signal);
    return state;
  }
  if (`sha256:${hash.digest('hex')}` === digest) return 'whole';
  return readBytes < sizeBytes ? 'truncated' : 'altered';
}

/** The layers from the lowest; undefined for an unknown snapshotter. A snapshot has all parents. */
async function unpackedLayers(
  { cri, content, clock }: ContentCheckClients,
  layers: readonly ExpectedLayer[],
  signal: AbortSignal,
): Promise<number | undefined> {
  const folder = await callAgain((inner) => cri.imageFilesystemPath(inner), clock, signal);
  const snapshotter = SNAPSHOTTER_FOLDER.exec(folder ?? '')?.[1];
  if (snapshotter === undefined) return undefined;
  const chain = chainIds(layers);
  for (let count = chain.length; count > 0; count -= 1) {
    if (await content.hasSnapshot(snapshotter, chain[count - 1] ?? '', signal)) return count;
  }
  return 0;
}

/** OCI image-spec, config.md, "Layer ChainID". */
export function chainIds(layers: readonly ExpectedLayer[]): readonly string[] {
  const ids: string[] = [];
  for (const { diffId } of layers) {
    const below = ids.at(-1);
    ids.push(below === undefined ? diffId : digestOf(Buffer.from(`${below} ${diffId}`)));
  }
  return ids;
}
