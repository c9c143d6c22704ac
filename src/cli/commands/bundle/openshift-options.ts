import { dirname } from 'node:path';
import { type Command, InvalidArgumentError } from 'commander';
import { bundleError } from '../../../bundle/bundle-error.ts';
import type { ImageRequest } from '../../../bundle/image-request.ts';
import { formatReference, isRegistry } from '../../../domain/model/reference.ts';
import type { CreateOptions } from '../../../factory/create-options.ts';
import type { OtherRegistry } from '../../../factory/openshift/other-images.ts';
import type { ReleaseSignature, SignatureChoice } from '../../../factory/openshift/release-signatures.ts';
import type { FaultList } from '../../../platform/app-error.ts';
import { defined } from '../../../platform/defined.ts';
import type { CommandContext } from '../../context/command-context.ts';
import { collect, collected } from '../../context/option-values.ts';
import type { ImageOptions } from './image-options.ts';

/** An OpenShift medium may give them. */
export interface NameOptions {
  readonly name?: string;
  readonly version?: string;
  readonly fromOpenshiftIso?: string;
  readonly withOtherImages: readonly OtherRegistry[];
  readonly withoutPrevious?: true;
}

export interface SignatureOptions {
  readonly releaseSignatures: readonly string[];
  readonly releaseKey?: string;
}

export type BundleName = Pick<CreateOptions, 'name' | 'version' | 'arch' | 'release' | 'notes'> & {
  /** The signatures on the medium. */
  readonly onMedium?: readonly ReleaseSignature[];
  /** Images that are not of the release. */
  readonly others?: readonly ImageRequest[];
};

/** The stream of an OpenShift release without `--name`. */
const OPENSHIFT_STREAM = 'ocp';

export function addOpenshiftOption(command: Command): Command {
  return command
    .option(
      '--from-openshift-iso <path>',
      'take the release from an OpenShift medium: an ISO image, a drive with one, the folder with its files, or an archive of oc-mirror 2, mirror_000001.tar, beside its other parts; --version and --arch are found on it, --name is ocp by default, and --release gives the release image another name; an ISO image needs xorriso, but no root',
    )
    .option(
      '--with-other-images <registry>',
      'take images of the medium that are not of the release too, such as operators, as REGISTRY/REPOSITORY; PATH=REGISTRY takes only repositories below PATH, as openshift4=registry.redhat.io; may be repeated',
      collected(otherRegistry),
      [],
    )
    .option(
      '--without-previous',
      'for a release image in a bundle with versions of its own: take no --from from the release image, and do not compare its version with --version',
    )
    .option(
      '--release-signatures <file|dir>',
      'signatures of the release image, as Red Hat publishes them, or ConfigMaps with them; they travel with the release, so that the cluster upgrades without --force; may be repeated',
      collect,
      [],
    )
    .option(
      '--release-key <file>',
      'OpenPGP public keys: take only signatures that one of them made, and make no bundle without one; needs gpgv',
    );
}

/** The parts of an archive of oc-mirror are a medium, also when they are given as archives. */
export async function takeMirror(command: Command): Promise<void> {
  const { archive, fromOpenshiftIso } = command.opts<NameOptions & ImageOptions>();
  const { isMirrorPart } = await import('../../../factory/openshift/mirror-archive.ts');
  const first = archive.find(isMirrorPart);
  if (first === undefined || fromOpenshiftIso !== undefined) return;
  const others = archive.filter((path) => !isMirrorPart(path) || dirname(path) !== dirname(first));
  command.setOptionValue('fromOpenshiftIso', first).setOptionValue('archive', others);
}

/**
 * The reason for an option that can't be read is added to `faults`.
 * @returns undefined when no option is given
 */
export async function readSignatureOptions(
  options: SignatureOptions & NameOptions & ImageOptions,
  faults: FaultList,
  signal: AbortSignal,
): Promise<{ readonly signatures?: SignatureChoice }> {
  const { releaseSignatures: paths, releaseKey, release, fromOpenshiftIso } = options;
  if (paths.length === 0 && releaseKey === undefined) return {};
  const flag = paths.length > 0 ? '--release-signatures' : '--release-key';
  if (release === undefined && fromOpenshiftIso === undefined) {
    const message = `${flag} is for the release image of --release or --from-openshift-iso, and none is given`;
    faults.add(bundleError('bundle/option', message));
  }
  const { readReleaseKey, readSignatures } = await import('../../../factory/openshift/release-signatures.ts');
  const found: ReleaseSignature[] = [];
  for (const path of paths) found.push(...((await faults.of(() => readSignatures(path, signal))) ?? []));
  const key = await faults.of(() => (releaseKey === undefined ? undefined : readReleaseKey(releaseKey, signal)));
  return { signatures: { found, isRequired: true, ...defined({ key }) } };
}

/** @throws AppError `bundle/option` (`reject`) when another flag names the source of the release */
export function checkMediumOptions({
  fromOpenshiftIso,
  release,
  withOtherImages,
  withoutPrevious,
}: NameOptions & ImageOptions): void {
  if (withoutPrevious && fromOpenshiftIso === undefined && release === undefined) {
    const message =
      '--without-previous is for the release image of --release or --from-openshift-iso, and none is given';
    throw bundleError('bundle/option', message);
  }
  if (fromOpenshiftIso === undefined && withOtherImages.length > 0) {
    const message = '--with-other-images is for images of --from-openshift-iso, and none is given';
    throw bundleError('bundle/option', message);
  }
  if (fromOpenshiftIso === undefined || release === undefined) return;
  if (release.source.kind === 'skopeo' && isOwnName(release)) return;
  throw bundleError(
    'bundle/option',
    '--release has a source, but --from-openshift-iso is the source: give its name only',
  );
}

/**
 * `act` gets the name of the bundle, and the release of the medium if one is given. Meanwhile,
 * files of the medium are in a hidden folder beside `--out`. Call it with checked options.
 * @throws errors of `act` and of `readOpenshiftMedium()`
 */
export async function withBundleName<T>(
  options: NameOptions & ImageOptions & { readonly arch?: string; readonly out: string },
  { signal }: CommandContext,
  act: (name: BundleName) => Promise<T>,
): Promise<T> {
  const { fromOpenshiftIso: path, name = OPENSHIFT_STREAM, version, arch, release, out } = options;
  if (path === undefined) return act({ name, version: version ?? '', arch: arch ?? '' });
  const { inFolderBeside } = await import('../../../factory/output/staging.ts');
  return inFolderBeside(out, async (folder) => {
    const { readOpenshiftMedium } = await import('../../../factory/openshift/openshift-medium.ts');
    const wanted = {
      registries: options.withOtherImages,
      ...defined({ reference: release?.reference, version, arch }),
    };
    const { request, signatures, ...found } = await readOpenshiftMedium({ path, folder, ...wanted }, signal);
    return act({ name, ...found, release: request, onMedium: signatures });
  });
}

function otherRegistry(text: string): OtherRegistry {
  const [, path = '', registry = ''] = /^(?:([a-z0-9._/-]+)=)?([^=]+)$/.exec(text) ?? [];
  if (isRegistry(registry)) return { path: path.replace(/\/+$/, ''), registry };
  throw new InvalidArgumentError('It must be a registry such as registry.redhat.io, or PATH=REGISTRY.');
}

/** The source is what a reference alone means. */
function isOwnName({ reference, source }: NonNullable<ImageOptions['release']>): boolean {
  const { repository, digest, tag } = reference;
  const names = [{ repository }, defined({ repository, tag }), defined({ repository, digest })];
  return source.kind === 'skopeo' && names.some((name) => source.location === `docker://${formatReference(name)}`);
}
