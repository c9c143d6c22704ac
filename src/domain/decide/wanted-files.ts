import type { Assessment } from '../assess/assess.ts';
import type { BundleAssessment } from '../assess/assess-bundle.ts';
import { type Attachment, artifactLayers, type Image, type VerifiedBundle } from '../model/bundle.ts';
import type { Phase } from '../model/condition.ts';
import type { BundleId, Digest } from '../model/digest.ts';
import { repositoryOf } from '../model/reference.ts';
import { lackingCount } from '../preload/supply.ts';
import { hasFiles, ownFolderOf, releaseFolderOf } from '../release/hooks.ts';
import { isRetired } from '../release/recorded-phase.ts';
import type { Policy } from '../settings/settings.ts';
import type { Memory } from '../state/memory.ts';
import type { StoredBundle } from '../state/state.ts';
import { isPreloading } from './pull-plan.ts';

/** A ready release keeps the mirrors of its preload, so that its activation needs no reload. */
const SERVED_PHASES: ReadonlySet<Phase> = new Set<Phase>(['ready', 'activated', 'active', 'proven', 'superseded']);

/**
 * Returns all repositories that need stickpin's mirror, sorted.
 *
 * @param rendered the present mirrors. They stay while a task runs, since the runtime may need them
 *   for the next blob, and after a start until all media were read
 */
export function mirrorsWanted(
  rendered: readonly string[],
  memory: Memory,
  { bundles, tags }: Assessment,
  { serve }: Policy,
): readonly string[] {
  const current = rendered.filter(isCurrentMirror);
  const expected = memory.areMediaUnread ? new Set(bundles.filter(mayGoOn).flatMap(repositoriesIn)) : new Set();
  const wanted = new Set([
    ...current.filter((name) => memory.running.length > 0 || expected.has(name)),
    ...bundles.flatMap((entry) => [...repositoriesInWork(entry, memory), ...repositoriesOfArtifacts(entry, memory)]),
    ...tags.mirrored.map(({ tag }) => repositoryOf(tag)),
    ...bundles.filter(isInUse).flatMap((entry) => repositoriesIn(entry).filter((name) => isServed(name, serve))),
  ]);
  return [...wanted].sort();
}

/** An entry that is not current begins with another word. */
function isCurrentMirror(rendered: string): boolean {
  return !rendered.includes(' ');
}

/** Includes mirrors with another address (`stale …`). Files (`outdated …`) don't count. */
export function mirroredIn(rendered: readonly string[]): readonly string[] {
  return rendered.map((name) => name.replace(/^stale /, '')).filter(isCurrentMirror);
}

export function isServed(repository: string, { activated, except }: Policy['serve']): boolean {
  return activated !== 'off' && !except.includes(repository);
}

function isInUse({ bundle, phase, withdrawn }: BundleAssessment): boolean {
  if (withdrawn !== undefined || phase === 'retired') return false;
  return SERVED_PHASES.has(phase) || bundle.readyAt !== undefined;
}

/** Removing mirrors and restoring them after a restart would cost CRI-O two reloads. */
function mayGoOn({ bundle, withdrawn }: BundleAssessment): boolean {
  return (
    withdrawn === undefined && bundle.readyAt === undefined && bundle.cancelled === undefined && !isRetired(bundle)
  );
}

function repositoriesIn({ bundle }: BundleAssessment): readonly string[] {
  const { images, artifacts = [] } = bundle.contents;
  return repositoriesOf([...images, ...artifacts]);
}

/** Returns repositories in preload or activation. The set is stable, so CRI-O reloads once. */
export function repositoriesInWork(entry: BundleAssessment, { running, failures }: Memory): readonly string[] {
  const { bundle } = entry;
  if (stillPulled(entry.pullableImages, failures).length > 0 && isPreloading(entry)) {
    return repositoriesOf(entry.mirroredImages);
  }
  const isActivating = running.some((task) => task.kind === 'activate' && task.bundleId === bundle.bundleId);
  // Mirrors stay while the runtime does not report pins yet.
  const isDue = entry.activationDue && lackingCount(entry) === 0;
  return isActivating || isDue ? repositoriesOf(bundle.contents.images) : [];
}

/** A preload that was cancelled with these media needs no mirror. */
function stillPulled<One extends Pick<Image, 'reference'>>(all: readonly One[], failures: Memory['failures']) {
  const given = new Set(
    failures.flatMap(({ task, retryAt }) => (task.kind === 'pull' && retryAt === undefined ? [task.reference] : [])),
  );
  return all.filter(({ reference }) => !given.has(reference));
}

/** The runtime gets artifacts from this node alone. */
function repositoriesOfArtifacts(entry: BundleAssessment, { failures }: Memory): readonly string[] {
  if (entry.withdrawn !== undefined || !isPreloading(entry)) return [];
  return stillPulled(entry.artifactsToPull, failures).map(({ reference }) => repositoryOf(reference));
}

/** Tags may be in other repositories. */
function repositoriesOf(images: readonly Pick<Image, 'reference' | 'tags'>[]): readonly string[] {
  return images.flatMap(({ reference, tags }) => [reference, ...tags].map(repositoryOf));
}

export interface ReleaseFolder {
  readonly folder: string;
  readonly bundle: StoredBundle;
  readonly files: readonly Attachment[];
}

interface ReleaseFilesPlan {
  readonly install: readonly ReleaseFolder[];
  /** The bundles of these folders are gone. Folders are removed before any is installed. */
  readonly remove: readonly string[];
}

/** While there are unclaimed pins nothing is removed: their release may have lost its records. */
export function releaseFilesPlan(assessment: Assessment, installed: ReadonlyMap<string, BundleId>): ReleaseFilesPlan {
  const wanted = wantedFolders(assessment, installed);
  return {
    install: [...wanted]
      .filter(([folder, { bundleId }]) => installed.get(folder) !== bundleId)
      .map(([folder, bundle]) => ({ folder, bundle, files: bundle.payload.attachments ?? [] })),
    remove: assessment.pins.unclaimed.length > 0 ? [] : [...installed.keys()].filter((folder) => !wanted.has(folder)),
  };
}

/**
 * Returns attachments of retired releases on the node's own disk that no other bundle, image or
 * kept artifact names. While there are unclaimed pins, it returns none.
 *
 * @param kept the digests on the disk
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
  const needed = new Set([
    ...others.flatMap((other) => [...attachedTo(other), ...artifactLayers(other.contents).map(({ digest }) => digest)]),
    ...[...others, ...retired].flatMap(namedByImages),
  ]);
  return [...candidates].filter((digest) => !needed.has(digest));
}

function attachedTo({ payload }: VerifiedBundle): readonly Digest[] {
  return (payload.attachments ?? []).map(({ digest }) => digest);
}

function namedByImages({ contents }: VerifiedBundle): readonly Digest[] {
  return [
    ...contents.images.flatMap(({ digest, attached = [] }) => [
      digest,
      ...attached.flatMap((tag) => [tag.digest, ...tag.blobs.map((blob) => blob.digest)]),
    ]),
    ...(contents.artifacts ?? []).flatMap(({ digest, config }) => [digest, config.digest]),
  ];
}

interface Candidate {
  readonly bundle: StoredBundle;
  readonly isTrusted: boolean;
  readonly isRelease: boolean;
}

type Installed = ReadonlyMap<string, BundleId>;

/**
 * Returns the wanted folders of attached files, and their bundles. A bundle has files from when it
 * is ready (without images: adopted) until it is retired.
 *
 * `<name>/<version>` belongs to the release of that name that was activated last, else to the one
 * adopted last, and to a bundle without images only while no release has that name. Each of several
 * bundles also has its own folder. Hooks use that one, so that no bundle waits for another to free
 * its folder or finds its files.
 *
 * Files of a bundle whose trust was withdrawn stay, and are not installed again.
 */
function wantedFolders(assessment: Assessment, installed: Installed): ReadonlyMap<string, StoredBundle> {
  const current = assessment.bundles.filter(({ phase }) => phase !== 'retired');
  const reserved = new Set(current.map(({ bundle }) => releaseFolderOf(bundle.payload)));
  const wanted = new Map<string, StoredBundle>();
  for (const [folder, namesakes] of byFolder(candidatesIn(assessment, installed))) {
    const owner = ownerAmong(namesakes, reserved.has(folder));
    for (const entry of namesakes.filter(({ bundle }) => hasFiles(bundle))) {
      const { bundle } = entry;
      const ownFolder = ownFolderOf(bundle);
      // A hook may use the folder, so it stays when the others are gone.
      const hasOwn = namesakes.length > 1 || entry !== owner || installed.get(ownFolder) === bundle.bundleId;
      const folders = [...(entry === owner ? [folder] : []), ...(hasOwn ? [ownFolder] : [])];
      // A bundle without trust keeps the folders that already have its files.
      const kept = entry.isTrusted ? folders : folders.filter((one) => holds(one, bundle, installed));
      for (const one of kept) wanted.set(one, bundle);
    }
  }
  return wanted;
}

function candidatesIn({ bundles, notices }: Assessment, installed: Installed): readonly Candidate[] {
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

/** @param isReserved a release of this name and version is kept, whether or not it is ready */
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

function foldersOf(bundle: StoredBundle): readonly string[] {
  return [releaseFolderOf(bundle.payload), ownFolderOf(bundle)];
}

function holds(folder: string, { bundleId }: StoredBundle, installed: Installed): boolean {
  return installed.get(folder) === bundleId;
}
