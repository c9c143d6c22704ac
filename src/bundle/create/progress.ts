/** Progress of making a bundle. Sizes in bytes. */
export type CreateProgress =
  /**
   * An image is being fetched through skopeo: the `position`th (from 1) of `total`, of which
   * `bytes` have come so far.
   */
  | {
      readonly kind: 'fetch';
      readonly image: string;
      readonly position: number;
      readonly total: number;
      readonly bytes: number;
    }
  /**
   * Archives are being unpacked, layers measured and copied, or packed into the tar file or image;
   * or an image is written to a stick, or read back.
   */
  | {
      readonly kind: 'unpack' | 'copy' | 'pack' | 'write' | 'verify';
      readonly doneBytes: number;
      readonly totalBytes: number;
    };

/** Called often, after each chunk that was read; must be quick and must not throw. */
export type ProgressListener = (progress: CreateProgress) => void;

/** Adds up bytes for a listener. */
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
