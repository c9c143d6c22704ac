import type { Stats } from 'node:fs';
import { constants, type FileHandle, mkdir, open, readdir, stat, symlink } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { bundleError } from '../../bundle/bundle-error.ts';
import { isBundleTar } from '../../bundle/read/open-bundle.ts';
import type { Payload } from '../../domain/model/bundle.ts';
import { type AppError, reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { PARTITION_OFFSET } from '../image/image-layout.ts';
import type { Medium } from '../image/make-image.ts';

export interface StickDevice {
  readonly device: string;
  /** `major:minor` of the device that was checked. */
  readonly number: string;
}

/** Nothing else can claim it meanwhile, as a mount does. */
interface ClaimedStick {
  readonly target: FileHandle;
  close(): Promise<void>;
}

/**
 * When a descriptor for writing is closed, udev has the kernel read the partition table and inform
 * everybody. The kernel refuses that while the device is claimed, so a descriptor for reading holds
 * the claim and is closed first.
 *
 * @throws AppError `bundle/stick` when it can't be opened, is in use or was swapped
 */
export async function claimStick(stick: StickDevice): Promise<ClaimedStick> {
  const claim = await openAs(constants.O_RDONLY | constants.O_EXCL, stick);
  const target = await openAs(constants.O_RDWR, stick).catch(async (error: unknown) => {
    await claim.close();
    throw error;
  });
  return {
    target,
    close: async () => {
      await claim.close();
      await target.close();
    },
  };
}

async function openAs(flags: number, { device, number }: StickDevice): Promise<FileHandle> {
  const opened = await open(device, flags).catch((cause: unknown) => {
    const hints: Readonly<Record<string, string>> = {
      EBUSY: 'another program uses it: unmount its filesystems and close disk tools',
      EACCES: 'only root may write to it: run the command with sudo',
      EPERM: 'only root may write to it: run the command with sudo',
      EROFS: 'it is read-only',
      ENOMEDIUM: 'it has no medium',
    };
    throw stickError(`${device} can't be opened: ${hints[systemCodeOf(cause) ?? ''] ?? reasonOf(cause)}`, cause);
  });
  if (numberOf(await opened.stat()) === number) return opened;
  await opened.close();
  throw stickError(`${device} is another device than a moment ago: look at it again`);
}

/** Pulled out: its node in /dev is gone or another device's; a reader stays and has no medium. */
export async function isGone({ device, number }: StickDevice): Promise<boolean> {
  try {
    const still = await open(device, constants.O_RDONLY);
    try {
      return numberOf(await still.stat()) !== number;
    } finally {
      await still.close();
    }
  } catch (error) {
    return ['ENOENT', 'ENXIO', 'ENODEV', 'ENOMEDIUM'].includes(systemCodeOf(error) ?? '');
  }
}

export function stickError(message: string, cause?: unknown): AppError {
  return bundleError('bundle/stick', message, { ...(cause !== undefined && { cause }) });
}

/** `major:minor` as in makedev(3). */
function numberOf({ rdev }: Stats): string {
  return `${((rdev >> 8) & 0xfff) >>> 0}:${((rdev & 0xff) | ((rdev >> 12) & 0xfff00)) >>> 0}`;
}

const MiB = 1024 * 1024;

/** @throws AppError `bundle/source` (`reject`) */
export async function imageSizeOf(path: string): Promise<number> {
  try {
    const file = await open(path, 'r');
    try {
      const { size } = await file.stat();
      const sector = Buffer.alloc(512);
      await file.read(sector, 0, sector.length, 0);
      const isImage = size > PARTITION_OFFSET && size % MiB === 0 && sector.readUInt16LE(510) === 0xaa55;
      if (isImage) return size;
    } finally {
      await file.close();
    }
  } catch (cause) {
    throw bundleError('bundle/source', `${path} can't be read: ${reasonOf(cause)}`, { cause });
  }
  const message = `${path} is not an image of a stick: make one with bundle create --filesystem, or name a bundle`;
  throw bundleError('bundle/source', message);
}

/** A new folder with a link to this bundle alone. @throws AppError `bundle/source` */
export async function mediumOf(bundle: string, { name, version, arch }: Payload, root: string): Promise<Medium> {
  const folder = `stickpin/${name}-${version}-${arch}`;
  await mkdir(join(root, 'stickpin'), { recursive: true });
  if (isBundleTar(bundle)) {
    const path = `${folder}.stickpin.tar`;
    await symlink(resolve(bundle), join(root, path));
    return { root, folders: ['stickpin'], files: [await fileOf(root, path)] };
  }
  await symlink(resolve(bundle), join(root, folder));
  const blobs = `${folder}/blobs/sha256`;
  const files = [];
  for (const file of (await readdir(join(root, folder))).sort()) {
    if (DOCUMENTS.has(file)) files.push(await fileOf(root, `${folder}/${file}`));
  }
  for (const blob of (await readdir(join(root, blobs))).sort()) {
    if (/^[0-9a-f]{64}$/.test(blob)) files.push(await fileOf(root, `${blobs}/${blob}`));
  }
  return { root, folders: ['stickpin', folder, `${folder}/blobs`, blobs], files };
}

const DOCUMENTS = new Set(['bundle.dsse.json', 'oci-layout', 'index.json', 'contents.json']);

async function fileOf(root: string, path: string): Promise<Medium['files'][number]> {
  return { path, sizeBytes: (await stat(join(root, path))).size };
}
