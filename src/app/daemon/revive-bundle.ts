import { parseContents } from '../../bundle/format/contents-schema.ts';
import { parseStoredPayload } from '../../bundle/format/schema.ts';
import type { BundleReviver } from '../../store/database/tables/load-bundles.ts';

/**
 * Parses the documents that the database keeps of an adopted bundle. Their size is not limited
 * again: it was when the bundle was adopted.
 *
 * @throws AppError as `parseStoredPayload()` and `parseContents()`
 */
export const reviveBundle: BundleReviver = ({ payload, contents }) => ({
  payload: parseStoredPayload(Buffer.from(payload)),
  contents: parseContents(Buffer.from(contents), Number.POSITIVE_INFINITY),
});
