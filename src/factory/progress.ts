type BytesKind = 'unpack' | 'copy' | 'pack' | 'write' | 'verify' | 'push' | 'pull';

/** Sizes in bytes. */
export type CreateProgress =
  /** skopeo fetches the `position`th image (from 1) of `total`. */
  | {
      readonly kind: 'fetch';
      readonly image: string;
      readonly position: number;
      readonly total: number;
      readonly bytes: number;
    }
  /**
   * Archives are unpacked, layers copied, a tar or image packed, a stick written or read back, or
   * blobs sent to a registry or taken from one.
   */
  | {
      readonly kind: BytesKind;
      readonly doneBytes: number;
      readonly totalBytes: number;
    };

/** It is called after each chunk that was read; must be quick and must not throw. */
export type ProgressListener = (progress: CreateProgress) => void;

export function countBytes(kind: BytesKind, totalBytes: number, onProgress: ProgressListener): (bytes: number) => void {
  let doneBytes = 0;
  return (bytes) => {
    doneBytes += bytes;
    onProgress({ kind, doneBytes, totalBytes });
  };
}
