import { findingsOn } from '../domain/model/reason.ts';
import { repositoryOf } from '../domain/model/reference.ts';
import { minFreePercent } from '../domain/preload/space.ts';
import { formatCount } from '../platform/sizes.ts';
import type { Check, ExaminedKubelet, ExaminedNode, Found } from './check.ts';

const { ok, warning } = findingsOn('kubelet');
const space = findingsOn('space');

/**
 * Whether the kubelet uses images that it did not pull itself (KEP-2535), and whether it collects
 * images before stickpin stops pulling. A node without a kubelet has no finding.
 */
export function checkKubelet({ kubelet, settings }: ExaminedNode): readonly Check[] {
  const run = async (signal: AbortSignal): Promise<Found> => {
    const found = await kubelet(signal);
    const { configFile, isRunning, pullIntents, secretRepositories } = found;
    if (configFile === undefined && !isRunning && pullIntents.length + secretRepositories.length === 0)
      return undefined;
    const percent = minFreePercent(settings.preload, { hasKubelet: true });
    return [
      policyOf(found),
      recordsOf(found),
      dockerPinsOf(found),
      marksOf(found, percent),
      evictionOf(found, percent),
    ];
  };
  return [{ subject: 'kubelet', remedy: "run 'sudo stickpin doctor'", run }];
}

/** How the kubelet treats images without a record of a pull, such as ours. */
function policyOf({ verificationPolicy, allowlist, repositories, configFile }: ExaminedKubelet): Found {
  const named = `imagePullCredentialsVerificationPolicy in ${configFile}`;
  switch (verificationPolicy) {
    case undefined:
    case 'NeverVerify':
    case 'NeverVerifyPreloadedImages':
      return ok('it uses images that were pulled by others, as those of a stick');
    case 'AlwaysVerify':
      return warning(
        `${named} is AlwaysVerify: it asks the registry of each image whether a pod may use it, so that no pod starts without a network`,
        'set it to NeverVerifyPreloadedImages, and restart the kubelet',
      );
    default: {
      const missing = repositories.filter((repository) => !allowlist.some((entry) => isListed(repository, entry)));
      if (missing.length === 0) return ok('it uses the images of all releases without asking their registries');
      const [first, ...others] = missing;
      const more = others.length === 0 ? '' : ` and ${formatCount(others.length, 'other')}`;
      return warning(
        `${named} is ${verificationPolicy}, and its allow-list lacks ${first}${more}: pods with these images need a network`,
        'add the repositories to preloadedImagesVerificationAllowlist, or set the policy to NeverVerifyPreloadedImages, and restart the kubelet',
      );
    }
  }
}

/** An entry names a repository, or with `/*` all below it (KubeletConfiguration v1beta1). */
function isListed(repository: string, entry: string): boolean {
  return entry.endsWith('/*') ? repository.startsWith(entry.slice(0, -1)) : repository === entry;
}

/** Records that make the kubelet query the registry in spite of its policy. */
function recordsOf({ pullIntents, secretRepositories, repositories, records }: ExaminedKubelet): Found {
  const ours = new Set(repositories);
  const begun = pullIntents.filter((image) => ours.has(repositoryOf(image)));
  const secret = [...new Set(secretRepositories.filter((repository) => ours.has(repository)))];
  return [
    begun.length > 0 &&
      warning(
        `an unfinished pull of ${begun[0]} is recorded; after its next start the kubelet may need the registry for it`,
        `when the image is present, remove the file of ${records}/pulling that names it, and restart the kubelet`,
      ),
    secret.length > 0 &&
      warning(
        `it pulled ${secret[0]} with the secret of a pod, so that other pods need a secret and a network for the same content`,
        `give these pods the secret, or remove the file of ${records}/pulled that names it, and restart the kubelet`,
      ),
  ];
}

/**
 * A kubelet on Docker collects images by cri-dockerd, which reports its own pins and none of ours.
 * stickpin gives each name again that was removed.
 */
function dockerPinsOf(found: ExaminedKubelet): Found {
  const { criDockerd, repositories, collectsAtPercent, collectsAfter, collectsOlderThan } = found;
  if (criDockerd === undefined) return undefined;
  const { images, labels } = criDockerd;
  const names = repositories.map(dockerName);
  const missing = names.filter((name) => !images.some((entry) => isPinned(name, entry)));
  if (images.length > 0 && missing.length === 0) return ok('cri-dockerd pins the images of all releases');
  if (labels.length > 0)
    return ok(`cri-dockerd pins images with the label ${labels[0]}; the labels of images were not checked`);
  if (collectsAtPercent >= 100 && collectsOlderThan === undefined)
    return ok('the kubelet removes unused images only before it ends pods for lack of space');
  const [first = 'those of releases', ...others] = missing;
  const more = others.length === 0 ? '' : ` and ${formatCount(others.length, 'other')}`;
  const when = [
    ...(collectsAtPercent < 100 ? [`above ${collectsAtPercent} % disk use`] : []),
    ...(collectsOlderThan === undefined ? [] : [`at the age of ${collectsOlderThan} (imageMaximumGCAge)`]),
  ];
  return warning(
    `cri-dockerd does not pin ${first}${more}: ${when.join(', and ')} the kubelet removes the names of each image that no pod uses, ${collectsAfter} after it came (imageMinimumGCAge). stickpin gives the names again, and a unit that needs one before then fails`,
    `add --pinned-images=${missing.slice(0, 3).join(',') || 'REPOSITORY'}${others.length > 2 ? ',…' : ''} to the options of cri-dockerd if 'cri-dockerd --help' lists it (after 0.4.4); otherwise set imageGCHighThresholdPercent: 100 and no imageMaximumGCAge in ${found.configFile ?? "the kubelet's configuration"}, and restart the kubelet`,
  );
}

/** Docker lists `docker.io/library/etcd` as `etcd`, and cri-dockerd compares with that. */
function dockerName(repository: string): string {
  return repository.replace(/^docker\.io\/(?:library\/)?/, '');
}

/** Whether an entry pins all tags of the repository; one with a tag or a digest pins one image. */
function isPinned(repository: string, entry: string): boolean {
  return entry.endsWith('*') ? `${repository}:`.startsWith(entry.slice(0, -1)) : repository === entry;
}

/** stickpin must stop pulling before the kubelet begins to collect images. */
function marksOf({ collectsAtPercent }: ExaminedKubelet, keptPercent: number): Found {
  const kept = 100 - collectsAtPercent;
  if (keptPercent >= kept)
    return space.ok(`the kubelet collects images when ${collectsAtPercent} % are used, and stickpin pulls none then`);
  return space.warning(
    `stickpin fills the disk up to ${100 - keptPercent} %, and the kubelet collects images from ${collectsAtPercent} % on: images that are not pinned go while a release is pulled`,
    `set preload.min_free_percent = ${Math.min(90, kept)}, or a higher imageGCHighThresholdPercent of the kubelet`,
  );
}

/** Below its mark of eviction the kubelet removes unused images and ends pods. */
function evictionOf({ evictsBelow }: ExaminedKubelet, keptPercent: number): Found {
  if (evictsBelow === undefined) return undefined;
  const percent = /^(\d+(?:\.\d+)?)%$/.exec(evictsBelow)?.[1];
  if (percent === undefined) {
    return space.ok(
      `the kubelet ends pods when less than ${evictsBelow} are free for images (evictionHard); preload.min_free_percent = ${keptPercent} should keep more than that`,
    );
  }
  if (keptPercent >= Number(percent)) return undefined;
  return space.warning(
    `stickpin keeps ${keptPercent} % of the disk free, and the kubelet ends pods when less than ${percent} % are free for images (evictionHard, imagefs.available)`,
    `set preload.min_free_percent = ${Math.min(90, Math.ceil(Number(percent)))}, or a lower imagefs.available of the kubelet`,
  );
}
