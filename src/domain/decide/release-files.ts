import type { Assessment } from '../assess/assess.ts';
import type { Attachment, Payload, VerifiedBundle } from '../model/bundle.ts';
import type { BundleId, Digest } from '../model/digest.ts';
import { releaseFolderOf } from '../release/hooks/release-folder.ts';
import type { StoredBundle } from '../state/state.ts';

/** A folder of attached files that is to be there. */
export interface ReleaseFolder {
  /**
   * `<name>/<version>`: both were checked against their patterns with the payload, so that neither
   * holds a slash or begins with a dot.
   */
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
 * Its folder as earlier versions called it; `ocp-4`@`1` and `ocp`@`4-1` shared one, and the marker
 * in it tells whose files it holds.
 */
function formerFolderOf({ name, version }: Pick<Payload, 'name' | 'version'>): string {
  return `${name}-${version}`;
}

/**
 * The attached files of a bundle are installed from when it is ready (without images: adopted)
 * until it is retired. Of two bundles with one folder, the one that was adopted last has it. Files
 * of a bundle whose trust was withdrawn stay, and are not installed again. While there are
 * unclaimed pins nothing is removed: it may belong to a release whose records are lost.
 *
 * @param installed the bundle of each folder that exists and is ours
 */
export function releaseFilesPlan(
  { bundles, notices, pins }: Assessment,
  installed: ReadonlyMap<string, BundleId>,
): ReleaseFilesPlan {
  const entitled = [
    ...bundles
      .filter(({ bundle, phase }) => bundle.readyAt !== undefined && phase !== 'retired')
      .map(({ bundle, withdrawn }) => ({ bundle, isTrusted: withdrawn === undefined })),
    ...notices.map(({ bundle, withdrawn }) => ({ bundle, isTrusted: withdrawn === undefined })),
  ]
    .filter(({ bundle }) => (bundle.payload.attachments ?? []).length > 0)
    .sort((a, b) => a.bundle.adoptedAt - b.bundle.adoptedAt);
  const owners = new Map<string, (typeof entitled)[number]>();
  for (const entry of entitled) {
    const folder = releaseFolderOf(entry.bundle.payload);
    const isInstalled = [folder, formerFolderOf(entry.bundle.payload)].some(
      (one) => installed.get(one) === entry.bundle.bundleId,
    );
    if (entry.isTrusted || isInstalled) owners.set(folder, entry);
  }
  const lacking = [...owners].filter(([folder, { bundle }]) => installed.get(folder) !== bundle.bundleId);
  const movable = lacking.filter(([, { bundle }]) => installed.get(formerFolderOf(bundle.payload)) === bundle.bundleId);
  const move = movable
    .map(([to, { bundle }]) => ({ from: formerFolderOf(bundle.payload), to }))
    // The former folder `ocp-4` of ocp@4 stands where ocp-4/1 is to be: the shorter one goes first.
    .sort((a, b) => a.from.length - b.from.length);
  const moved = new Set(move.map(({ from }) => from));
  return {
    install: lacking
      .filter((entry) => !movable.includes(entry))
      .map(([folder, { bundle }]) => ({ folder, bundle, files: bundle.payload.attachments ?? [] })),
    remove:
      pins.unclaimed.length > 0
        ? []
        : [...installed.keys()].filter((folder) => !owners.has(folder) && !moved.has(folder)),
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
