import { schemeOf, type VersionScheme } from '../model/version/version-scheme.ts';
import type { StoredBundle } from '../state/state.ts';
import { isRelease } from '../trust/notice.ts';

/**
 * The scheme of a stream, which its first release on the node has settled (bundle format,
 * "Versions"); undefined while the versions of all its releases fit both. The version of a notice
 * names the notice alone.
 *
 * @param bundles all adopted bundles, in the order in which they came to the node
 */
export function streamScheme(bundles: readonly StoredBundle[], stream: string): VersionScheme | undefined {
  const releases = bundles.filter((known) => isRelease(known) && known.payload.name === stream);
  return schemeOf(releases.map(({ payload }) => payload));
}
