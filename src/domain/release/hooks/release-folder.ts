import type { Payload } from '../../model/bundle.ts';
import { type BundleId, hexOf } from '../../model/digest.ts';
import type { StoredBundle } from '../../state/state.ts';

type Bundle = Pick<StoredBundle, 'bundleId' | 'payload'>;

/**
 * The folder of the attached files of a release: `<name>/<version>`. Both were checked against
 * their patterns with the payload, so that neither holds a slash or an `@` or begins with a dot.
 */
export function releaseFolderOf({ name, version }: Pick<Payload, 'name' | 'version'>): string {
  return `${name}/${version}`;
}

/** As many digits of a digest tell bundles with one name and version apart. */
const DIGITS = 16;

/**
 * The folder that no other bundle can have, while several have the same name and version:
 * `<name>/<version>@<first 16 digits of the digest>`.
 */
export function ownFolderOf({ bundleId, payload }: Bundle): string {
  return `${releaseFolderOf(payload)}@${hexOf(bundleId).slice(0, DIGITS)}`;
}

/** Whether a release has attached files. */
export function hasFiles({ payload }: Pick<StoredBundle, 'payload'>): boolean {
  return (payload.attachments ?? []).length > 0;
}

/**
 * Where the attached files of a release lie: in its own folder, which stays as it is until the
 * release is retired, else in that of its name and version. Undefined when they lie nowhere.
 *
 * @param installed whose files lie in each folder
 */
export function filesFolderOf(bundle: Bundle, installed: ReadonlyMap<string, BundleId>): string | undefined {
  return [ownFolderOf(bundle), releaseFolderOf(bundle.payload)].find(
    (folder) => installed.get(folder) === bundle.bundleId,
  );
}

/**
 * Whether the attached files of a release are installed; true where it has none. `installed`: whose
 * files lie in each folder.
 */
export function areFilesInstalled(bundle: Bundle, installed: ReadonlyMap<string, BundleId>): boolean {
  return !hasFiles(bundle) || filesFolderOf(bundle, installed) !== undefined;
}
