import type { Assessment } from '../assess/assess.ts';
import type { Payload } from '../model/bundle.ts';
import type { BundleId } from '../model/digest.ts';
import { hasFiles, ownFolderOf, releaseFolderOf } from '../release/hooks/release-folder.ts';
import type { StoredBundle } from '../state/state.ts';

/** A bundle whose attached files may be installed. */
interface Candidate {
  readonly bundle: StoredBundle;
  readonly isTrusted: boolean;
  /** It has images: see `isRelease`. */
  readonly isRelease: boolean;
}

/** The bundle of each folder that exists and is ours. */
type Installed = ReadonlyMap<string, BundleId>;

/**
 * A folder as earlier versions called it; `ocp-4`@`1` and `ocp`@`4-1` shared one, and the marker in
 * it tells whose files it holds.
 */
export function formerFolderOf({ name, version }: Pick<Payload, 'name' | 'version'>): string {
  return `${name}-${version}`;
}

/**
 * The folders of attached files that are to be there, and whose files each is to hold. A bundle has
 * files from when it is ready (without images: adopted) until it is retired.
 *
 * `<name>/<version>` shows what is activated: of several bundles with that name and version it
 * belongs to the release that was activated last, else to the one that was adopted last, and to a
 * bundle without images only while no release of that name and version is kept. Each of several has
 * a folder of its own beside it. Hooks use that one, so that no bundle ever waits for another to
 * give up its folder, and none finds the files of another.
 *
 * Files of a bundle whose trust was withdrawn stay, and are not installed again.
 */
export function wantedFolders(
  assessment: Pick<Assessment, 'bundles' | 'notices'>,
  installed: Installed,
): ReadonlyMap<string, StoredBundle> {
  const kept = assessment.bundles.filter(({ phase }) => phase !== 'retired');
  const reserved = new Set(kept.map(({ bundle }) => releaseFolderOf(bundle.payload)));
  const wanted = new Map<string, StoredBundle>();
  for (const [folder, namesakes] of byFolder(candidatesIn(assessment, installed))) {
    const owner = ownerAmong(namesakes, reserved.has(folder));
    for (const entry of namesakes.filter(({ bundle }) => hasFiles(bundle))) {
      const { bundle } = entry;
      const own = ownFolderOf(bundle);
      // A hook may be using it: it stays when the others are gone.
      const hasOwn = namesakes.length > 1 || entry !== owner || installed.get(own) === bundle.bundleId;
      const folders = [...(entry === owner ? [folder] : []), ...(hasOwn ? [own] : [])];
      for (const one of entry.isTrusted ? folders : leftOf(folders, bundle, installed)) wanted.set(one, bundle);
    }
  }
  return wanted;
}

function candidatesIn(
  { bundles, notices }: Pick<Assessment, 'bundles' | 'notices'>,
  installed: Installed,
): readonly Candidate[] {
  const ready = bundles.filter(({ bundle, phase }) => bundle.readyAt !== undefined && phase !== 'retired');
  return [
    ...ready.map(({ bundle, withdrawn }) => ({ bundle, isTrusted: withdrawn === undefined, isRelease: true })),
    ...notices.map(({ bundle, withdrawn }) => ({ bundle, isTrusted: withdrawn === undefined, isRelease: false })),
  ].filter(({ bundle, isTrusted }) => isTrusted || foldersOf(bundle).some((one) => holds(one, bundle, installed)));
}

function byFolder(candidates: readonly Candidate[]): ReadonlyMap<string, readonly Candidate[]> {
  const groups = new Map<string, Candidate[]>();
  for (const candidate of candidates) {
    const folder = releaseFolderOf(candidate.bundle.payload);
    groups.set(folder, [...(groups.get(folder) ?? []), candidate]);
  }
  return groups;
}

/** `isReserved`: a release of this name and version is kept, whether or not it is ready. */
function ownerAmong(namesakes: readonly Candidate[], isReserved: boolean): Candidate | undefined {
  const eligible = namesakes.filter(({ isRelease }) => isRelease || !isReserved);
  return eligible.reduce<Candidate | undefined>(
    (best, one) => (best === undefined || comesAfter(one.bundle, best.bundle) ? one : best),
    undefined,
  );
}

function comesAfter(one: StoredBundle, other: StoredBundle): boolean {
  const activated = (one.activatedAt ?? 0) - (other.activatedAt ?? 0);
  return activated === 0 ? one.adoptedAt >= other.adoptedAt : activated > 0;
}

/** What a bundle without trust keeps of its folders: where its files lie already. */
function leftOf(folders: readonly string[], bundle: StoredBundle, installed: Installed): readonly string[] {
  const left = folders.filter((folder) => holds(folder, bundle, installed));
  return left.length > 0
    ? left
    : folders.slice(0, 1).filter(() => holds(formerFolderOf(bundle.payload), bundle, installed));
}

function foldersOf(bundle: StoredBundle): readonly string[] {
  return [releaseFolderOf(bundle.payload), ownFolderOf(bundle), formerFolderOf(bundle.payload)];
}

function holds(folder: string, { bundleId }: StoredBundle, installed: Installed): boolean {
  return installed.get(folder) === bundleId;
}
