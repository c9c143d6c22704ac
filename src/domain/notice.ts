import type { VerifiedBundle } from './bundle.ts';

/**
 * Whether a bundle is a release: it carries images. One without ("a bundle may carry nothing else", bundle format, `advisories`) is a notice: it is
 * adopted for its advisories and keys, and there is nothing to preload or to activate.
 */
export function isRelease({ contents }: Pick<VerifiedBundle, 'contents'>): boolean {
  return contents.images.length > 0;
}
