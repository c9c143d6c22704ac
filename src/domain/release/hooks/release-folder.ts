import type { Payload } from '../../model/bundle.ts';
import type { BundleId } from '../../model/digest.ts';
import type { StoredBundle } from '../../state/state.ts';

/**
 * The folder of a bundle's attached files: `<name>/<version>`. Both were checked against their
 * patterns with the payload, so that neither holds a slash or begins with a dot.
 */
export function releaseFolderOf({ name, version }: Pick<Payload, 'name' | 'version'>): string {
  return `${name}/${version}`;
}

/** Whether a release has attached files. */
export function hasFiles({ payload }: Pick<StoredBundle, 'payload'>): boolean {
  return (payload.attachments ?? []).length > 0;
}

/**
 * Whether the attached files of a release lie in its folder; true where it has none. `installed`:
 * whose files lie in each folder.
 */
export function areFilesInstalled(
  bundle: Pick<StoredBundle, 'bundleId' | 'payload'>,
  installed: ReadonlyMap<string, BundleId>,
): boolean {
  return !hasFiles(bundle) || installed.get(releaseFolderOf(bundle.payload)) === bundle.bundleId;
}
