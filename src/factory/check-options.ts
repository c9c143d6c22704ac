import { bundleError } from '../bundle/bundle-error.ts';
import { isTimestamp, payloadFaults, releaseMembers } from '../bundle/format/schema.ts';
import { isBundleTar } from '../bundle/read/open-bundle.ts';
import { checkAccess } from '../distribution/logins.ts';
import { RELEASE_SIGNATURES } from '../domain/model/bundle.ts';
import { digestFromHex } from '../domain/model/digest.ts';
import { FaultList } from '../platform/app-error.ts';
import { type CreateOptions, sizeRulesOf } from './create-options.ts';
import { checkTarget } from './output/staging.ts';
import { type AttachmentRequest, checkAttachmentNames, checkAttachments } from './payload/attachments.ts';
import { checkReleaseSource, payloadOf } from './payload/release-payload.ts';
import { jsonBytes } from './write-bundle.ts';

const SIGNATURES_FILE: AttachmentRequest = { path: '(signatures of the release)', ...RELEASE_SIGNATURES };

/** Notes may say why there is no image. */
const MAX_NOTES = 20;

/**
 * Reports all faults at once, before anything is copied. The checks of the reader check the
 * payload.
 * @throws AppError `bundle/option`, `bundle/source`, `bundle/target`
 */
export async function checkOptions(options: CreateOptions): Promise<void> {
  const { access = {}, release, out } = options;
  const attachments = options.attachments ?? [];
  const named = options.signatures === undefined ? attachments : [...attachments, SIGNATURES_FILE];
  const faults = new FaultList();
  const areNamed = await faults.of(() => checkAttachmentNames(named) === undefined);
  await checkDraft(areNamed ? options : { ...options, attachments: [] }, faults);
  await faults.of(() => checkImageOptions(options));
  await faults.of(() => checkOut(options));
  if (release !== undefined) await faults.of(() => checkReleaseSource(release));
  await faults.of(() => checkCarried(options));
  await faults.of(() => checkVerifiable(options));
  await faults.of(() => checkAccess(access));
  for (const one of attachments) await faults.of(() => checkAttachments([one], sizeRulesOf(options)));
  const isFile = options.volumeBytes === undefined && (options.filesystem !== undefined || isBundleTar(out));
  if (out !== '') await faults.of(() => checkTarget(out, isFile ? 'file' : 'directory'));
  faults.throwAny();
}

async function checkDraft(options: CreateOptions, faults: FaultList): Promise<void> {
  const nothing = { digest: digestFromHex('0'.repeat(64)), size: 0 };
  const totals = { images: options.images.length, blobs: 0, sizeBytes: 0, diskBytes: 0, inodes: 0 };
  const attachments = (options.attachments ?? []).map(({ name, mediaType }) => ({ name, mediaType, ...nothing }));
  const tree = { indexPointer: nothing, contentsPointer: nothing, contents: { layers: [], images: [] } };
  const draft = payloadOf(options, tree, totals, attachments, []);
  for (const fault of payloadFaults(jsonBytes(draft))) faults.add(bundleError('bundle/option', fault));
  const ends = { expires: options.expires, endOfLife: options.update?.endOfLife };
  for (const [field, time] of Object.entries(ends)) {
    if (time === undefined || !isTimestamp(time) || Date.parse(time) > Date.parse(options.created)) continue;
    faults.add(bundleError('bundle/option', `${field}: ${time} is not after created, ${options.created}`));
  }
  const itself = options.advisories?.find(({ version }) => version === options.version);
  if (itself !== undefined) {
    const message = `advisories: ${itself.version} is this release itself; say --deadend or --barrier instead`;
    faults.add(bundleError('bundle/option', message));
  }
}

function checkCarried(options: CreateOptions): void {
  const hasNotice = options.advisories !== undefined || options.trust !== undefined;
  const hasFiles = (options.attachments ?? []).length > 0;
  if (!hasImages(options) && !hasNotice && !hasFiles) {
    const message =
      'no image is given: a bundle needs at least one image, or --archive, --release, --attach, --advisory, --trust-key or --revoke-key';
    throw bundleError('bundle/option', [message, ...(options.notes ?? []).slice(0, MAX_NOTES)].join('; '));
  }
  if (!hasImages(options)) checkNoticeOptions(options, hasFiles && !hasNotice);
}

function checkNoticeOptions({ base, artifacts = [], imagePolicy, ...options }: CreateOptions, hasFiles: boolean): void {
  const others = [
    base !== undefined && '--base',
    artifacts.length > 0 && '--artifact',
    imagePolicy !== undefined && '--verify-images',
  ];
  const members = hasFiles ? [] : releaseMembers(options).map(({ flag }) => flag);
  const found = [...members, ...others.filter((flag) => flag !== false)];
  if (found.length === 0) return;
  const message = `no image is given, so that ${found.join(', ')} would have no effect: add the images, or leave the option out. To say that another release is a barrier or a dead end, use --advisory`;
  throw bundleError('bundle/option', message);
}

function checkOut({ out, volumeBytes }: CreateOptions): void {
  if (out === '') throw bundleError('bundle/option', 'out: it is empty; name a directory, or FILE.stickpin.tar');
  if (isBundleTar(out)) {
    if (volumeBytes === undefined) return;
    const message = `out: ${out} is one file, but --volume-size makes directories: name a directory`;
    throw bundleError('bundle/option', message);
  }
  if (!/\.(?:tar|tgz|tar\.[a-z0-9]+)\/*$/i.test(out)) return;
  const message = `out: ${out} would be a directory: a bundle as one file is named FILE.stickpin.tar, and is not compressed`;
  throw bundleError('bundle/option', message);
}

function checkImageOptions({ out, filesystem, volumeBytes, allowLargeBlobs }: CreateOptions): void {
  const isNamedImage = /\.img$/i.test(out);
  const fault =
    filesystem === undefined
      ? isNamedImage && 'an image of a stick needs a filesystem: add --filesystem vfat or --filesystem ext4'
      : volumeBytes === undefined && !isNamedImage
        ? `--filesystem ${filesystem} makes the image of a stick: its name must end in .img`
        : volumeBytes !== undefined && (isNamedImage || isBundleTar(out))
          ? 'it is one file, but --volume-size makes several images: name a directory'
          : filesystem === 'vfat' &&
            allowLargeBlobs === true &&
            'no file on FAT has 4 GiB: give --filesystem ext4 instead of --allow-large-blobs';
  if (fault !== false) throw bundleError('bundle/option', `out: ${out}: ${fault}`);
}

function checkVerifiable({ imagePolicy, referrers }: CreateOptions): void {
  if (imagePolicy === undefined || referrers !== 'none') return;
  throw bundleError('bundle/option', '--verify-images verifies the signatures that travel: take them along');
}

function hasImages({ images, archives = [], release }: CreateOptions): boolean {
  return images.length + archives.length > 0 || release !== undefined;
}
