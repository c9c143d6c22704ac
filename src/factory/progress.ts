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
   * Archives are unpacked, layers copied, a tar or image packed, or a stick written or read back.
   */
  | {
      readonly kind: 'unpack' | 'copy' | 'pack' | 'write' | 'verify';
      readonly doneBytes: number;
      readonly totalBytes: number;
    };

/** Called often, after each chunk that was read; must be quick and must not throw. */
export type ProgressListener = (progress: CreateProgress) => void;

export function countBytes(
  kind: 'unpack' | 'copy' | 'pack' | 'write' | 'verify',
  totalBytes: number,
  onProgress: ProgressListener,
): (bytes: number) => void {
  let doneBytes = 0;
  return (bytes) => {
    doneBytes += bytes;
    onProgress({ kind, doneBytes, totalBytes });
  };
}
