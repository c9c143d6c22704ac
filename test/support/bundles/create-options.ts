import { parseImageRequest } from '../../../src/bundle/image-request.ts';
import type { CreateOptions } from '../../../src/factory/create-options.ts';

/** Options for `createBundle()`: an unsigned ocp 4.13.7 for amd64; `more` is what differs. */
export function sampleCreateOptions(
  out: string,
  images: readonly string[],
  more: Partial<CreateOptions> = {},
): CreateOptions {
  return {
    out,
    name: 'ocp',
    version: '4.13.7',
    arch: 'amd64',
    sequence: 1,
    created: '2026-01-01T00:00:00Z',
    images: images.map((text) => parseImageRequest(text)),
    keys: [],
    ...more,
  };
}
