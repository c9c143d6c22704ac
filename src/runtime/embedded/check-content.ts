import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import type { Digest } from '../../domain/model/digest.ts';
import type { ExpectedImage, ImageContent } from '../../domain/model/image.ts';
import type { ContentFault } from '../../domain/model/reason.ts';
import { systemCodeOf } from '../../platform/app-error.ts';
import type { ContentCheck } from '../../ports/image-content.ts';
import type { ImageLayout } from './image-layout.ts';

/** What {@link openContentCheck} reads. */
export interface CheckedLayout {
  readonly layout: Pick<ImageLayout, 'find'>;
  readonly pathOf: (digest: Digest) => string;
}

type BlobState = 'whole' | 'absent' | 'altered' | 'unreadable';

interface Checking extends CheckedLayout {
  readonly blobs: Map<Digest, BlobState>;
}

/** A check that reads all blobs of images in an OCI image layout, each once. */
export function openContentCheck(layout: CheckedLayout): ContentCheck {
  const checking: Checking = { ...layout, blobs: new Map() };
  return { check: (image, onBytes, signal) => checkImage(checking, image, onBytes, signal) };
}

async function checkImage(
  checking: Checking,
  { reference, documents, layers }: ExpectedImage,
  onBytes: (bytes: number) => void,
  signal: AbortSignal,
): Promise<ImageContent> {
  const faults: ContentFault[] = [];
  const layerDigests = new Set(layers.map(({ digest }) => digest));
  for (const digest of [...documents, ...layerDigests]) {
    const state = checking.blobs.get(digest) ?? (await readWhole(checking.pathOf(digest), digest, onBytes, signal));
    checking.blobs.set(digest, state);
    if (state === 'whole') continue;
    const absent = layerDigests.has(digest) ? 'layer-absent' : 'document-absent';
    faults.push(state === 'absent' ? { kind: absent, digest } : { kind: 'blob', digest, why: state });
  }
  if ((await checking.layout.find(reference)) === undefined) {
    return { kind: 'absent', faults: faults.filter(({ kind }) => kind === 'blob') };
  }
  return faults.length === 0 ? { kind: 'whole', by: 'bytes' } : { kind: 'broken', faults };
}

async function readWhole(
  path: string,
  digest: Digest,
  onBytes: (bytes: number) => void,
  signal: AbortSignal,
): Promise<BlobState> {
  const hash = createHash('sha256');
  try {
    for await (const chunk of createReadStream(path, { signal })) {
      hash.update(chunk as Buffer);
      onBytes((chunk as Buffer).length);
    }
  } catch (error) {
    signal.throwIfAborted();
    return systemCodeOf(error) === 'ENOENT' ? 'absent' : 'unreadable';
  }
  return `sha256:${hash.digest('hex')}` === digest ? 'whole' : 'altered';
}
