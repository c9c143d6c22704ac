import { mkdir, open, readdir, stat, symlink } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { Payload } from '../../../domain/model/bundle.ts';
import { reasonOf } from '../../../platform/app-error.ts';
import { bundleError } from '../../bundle-error.ts';
import { isBundleTar } from '../../read/open-bundle.ts';
import { PARTITION_OFFSET } from '../image/image-layout.ts';
import type { Medium } from '../image/make-image.ts';

const MiB = 1024 * 1024;

/** The size of a finished image of a stick. @throws AppError `bundle/source` (`reject`) */
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
  throw bundleError(
    'bundle/source',
    `${path} is not an image of a stick: make one with bundle create --filesystem, or name a bundle`,
  );
}

/**
 * The files of a medium with this bundle alone, below a new folder `root`, which gets a link to the
 * bundle. Other files beside it stay away.
 *
 * @throws AppError `bundle/source` (`reject`) when a file can't be read
 */
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

/** Files of a bundle beside its blobs. */
const DOCUMENTS = new Set(['bundle.dsse.json', 'oci-layout', 'index.json', 'contents.json']);

async function fileOf(root: string, path: string): Promise<Medium['files'][number]> {
  return { path, sizeBytes: (await stat(join(root, path))).size };
}
