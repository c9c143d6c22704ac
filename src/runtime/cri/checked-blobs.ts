import type { Digest } from '../../domain/model/digest.ts';
import type { ExpectedImage } from '../../domain/model/image.ts';
import type { ContentFault } from '../../domain/model/reason.ts';

export type BlobState = 'whole' | 'absent' | Extract<ContentFault, { kind: 'blob' }>['why'];

type OnBytes = (bytes: number) => void;

/** The blobs of images. Each is read once. */
export class CheckedBlobs {
  private readonly states = new Map<Digest, BlobState>();

  constructor(private readonly read: (digest: Digest, onBytes: OnBytes, signal: AbortSignal) => Promise<BlobState>) {}

  /** Checks documents, then layers. */
  async faultsOf({ documents, layers }: ExpectedImage, onBytes: OnBytes, signal: AbortSignal): Promise<ContentFault[]> {
    const faults: ContentFault[] = [];
    const isDocument = new Set(documents);
    for (const digest of [...documents, ...layers.map((layer) => layer.digest)]) {
      const state = this.states.get(digest) ?? (await this.read(digest, onBytes, signal));
      this.states.set(digest, state);
      if (state === 'absent')
        faults.push({ kind: isDocument.has(digest) ? 'document-absent' : 'layer-absent', digest });
      else if (state !== 'whole') faults.push({ kind: 'blob', digest, why: state });
    }
    return faults;
  }
}
