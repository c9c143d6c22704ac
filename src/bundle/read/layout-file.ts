import * as v from 'valibot';
import { bundleError } from '../bundle-error.ts';
import { parseJson } from '../format/json.ts';
import { limits } from '../limits.ts';
import type { BundleReader } from './bundle-reader.ts';

/** image-spec, image-layout.md: readers accept any 1.x, and 1.0.0 is the only version so far. */
const layoutFile = v.looseObject({ imageLayoutVersion: v.string() });

/**
 * Checks the file by which OCI tools recognise a layout. A node does not need it, and it is not
 * signed: only `create` and `verify` check it.
 *
 * @throws AppError `bundle/absent`, `bundle/layout` (`reject`); `media/read`, `media/gone`.
 */
export async function checkLayoutFile(reader: BundleReader, signal: AbortSignal): Promise<void> {
  const bytes = await reader.readFile('oci-layout', limits.layoutBytes, signal);
  const { imageLayoutVersion } = parseJson(bytes, layoutFile, 'oci-layout', 'bundle/layout');
  if (/^1\.\d{1,9}\.\d{1,9}$/.test(imageLayoutVersion)) return;
  const found = JSON.stringify(imageLayoutVersion.slice(0, 40));
  throw bundleError('bundle/layout', `oci-layout: imageLayoutVersion ${found} is not known; it must be "1.0.0"`);
}
