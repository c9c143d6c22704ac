import type { Assessment } from '../assess/assess.ts';
import type { Attachment, VerifiedBundle } from '../model/bundle.ts';
import type { BundleId, Digest } from '../model/digest.ts';
import type { StoredBundle } from '../state/state.ts';
import { formerFolderOf, wantedFolders } from './wanted-folders.ts';

/** A folder of attached files that is to be there. */
export interface ReleaseFolder {
  /** Below the folder of all: see {@link wantedFolders}. */
  readonly folder: string;
  readonly bundle: StoredBundle;
  readonly files: readonly Attachment[];
}

/** What is to be done with the folders of attached files. */
export interface ReleaseFilesPlan {
  readonly install: readonly ReleaseFolder[];
  /** Folders of bundles that are gone. They are removed before any is moved. */
  readonly remove: readonly string[];
  /**
   * Folders where an earlier version of stickpin made them, in the order in which they are to be
   * moved, before any is installed.
   */
  readonly move: readonly { readonly from: string; readonly to: string }[];
}

/**
 * What is to be done so that the folders are those that are wanted. While there are unclaimed pins
 * nothing is removed: it may belong to a release whose records are lost.
 *
 * @param installed the bundle of each folder that exists and is ours
 */
export function releaseFilesPlan(assessment: Assessment, installed: ReadonlyMap<string, BundleId>): ReleaseFilesPlan {
  const wanted = wantedFolders(assessment, installed);
  const lacking = [...wanted].filter(([folder, { bundleId }]) => installed.get(folder) !== bundleId);
  const movable = lacking.filter(
    ([folder, { bundleId, payload }]) =>
      installed.get(formerFolderOf(payload)) === bundleId &&
      folder === lacking.find(([, other]) => other.bundleId === bundleId)?.[0],
  );
  const move = movable
    .map(([to, { payload }]) => ({ from: formerFolderOf(payload), to }))
    // The former folder `ocp-4` of ocp@4 stands where ocp-4/1 is to be: the shorter one goes first.
    .sort((a, b) => a.from.length - b.from.length);
  const moved = new Set(move.map(({ from }) => from));
  return {
    install: lacking
      .filter((entry) => !movable.includes(entry))
      .map(([folder, bundle]) => ({ folder, bundle, files: bundle.payload.attachments ?? [] })),
    remove:
      assessment.pins.unclaimed.length > 0
        ? []
        : [...installed.keys()].filter((folder) => !wanted.has(folder) && !moved.has(folder)),
    move,
  };
}

/**
 * Attachments of retired releases among the blobs on the node's own disk that nothing else needs:
 * no other bundle has them attached, and no image of any bundle names them. Should such a release
 * be activated again, its files come from its medium. None while there are unclaimed pins.
 *
 * @param kept what lies on the disk.
 */
export function spareAttachments(
  { bundles, notices, adoptions, pins }: Assessment,
  kept: ReadonlySet<Digest>,
): readonly Digest[] {
  const retired = bundles.filter(({ phase }) => phase === 'retired').map(({ bundle }) => bundle);
  const candidates = new Set(retired.flatMap(attachedTo).filter((digest) => kept.has(digest)));
  if (candidates.size === 0 || pins.unclaimed.length > 0) return [];
  const others: readonly VerifiedBundle[] = [
    ...bundles.filter(({ phase }) => phase !== 'retired').map(({ bundle }) => bundle),
    ...notices.map(({ bundle }) => bundle),
    ...adoptions.map(({ found }) => found.bundle),
  ];
  const needed = new Set([...others.flatMap(attachedTo), ...[...others, ...retired].flatMap(namedByImages)]);
  return [...candidates].filter((digest) => !needed.has(digest));
}

function attachedTo({ payload }: VerifiedBundle): readonly Digest[] {
  return (payload.attachments ?? []).map(({ digest }) => digest);
}

function namedByImages({ contents }: VerifiedBundle): readonly Digest[] {
  return contents.images.flatMap(({ digest, attached = [] }) => [
    digest,
    ...attached.flatMap((tag) => [tag.digest, ...tag.blobs.map((blob) => blob.digest)]),
  ]);
}
