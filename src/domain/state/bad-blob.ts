import type { Digest } from '../model/digest.ts';
import type { Flaws } from '../model/reason.ts';

/**
 * A blob that a pull failed for: where its bad copy lies, and whether anything plugged in has
 * another one.
 */
export interface FailedBlob {
  readonly digest: Digest;
  readonly why: BadBlob['why'];
  /** Label of the medium; undefined when the blob is on none. */
  readonly medium?: string;
  /** The file on the medium, relative to its root. */
  readonly file?: string;
  /** Nothing plugged in has a copy that may be good. */
  readonly isLast: boolean;
}

/**
 * A blob that a bundle needs and of which only a bad copy, or none, was seen. Stored, so that it is
 * known when the medium is away.
 */
export interface BadBlob {
  readonly digest: Digest;
  /**
   * `damaged`: its bytes have another digest. `truncated`: its file has another size. `absent`: it
   * may lie on another medium of the bundle.
   */
  readonly why: Flaws['why'];
  /** Label of the medium on which it was looked for. */
  readonly medium: string;
  /** The image whose pull failed for it; absent when it was noticed while the medium was read. */
  readonly reference?: string;
}

/** Those of which a copy was seen that is no good: the bundle has to be copied again. */
export function flawedAmong(badBlobs: readonly BadBlob[]): readonly BadBlob[] {
  return badBlobs.filter(({ why }) => why !== 'absent');
}

/** What is wrong with the copies that were seen; undefined when nothing is known to be. */
export function flawsAmong(badBlobs: readonly BadBlob[]): Flaws | undefined {
  const [first, ...others] = flawedAmong(badBlobs);
  if (first === undefined) return undefined;
  const { digest, why, medium } = first;
  return { digest, why, medium, more: others.length };
}
