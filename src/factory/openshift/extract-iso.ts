import { mkdir, open as openFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { bundleError } from '../../bundle/bundle-error.ts';
import { reasonOf } from '../../platform/app-error.ts';
import { runTool, type Tool } from '../image/make-image.ts';
import { checkSpace } from '../output/staging.ts';

const xorriso: Tool = { name: 'xorriso', package: 'xorriso' };

export interface ExtractedIso {
  /** Holds the files at their paths in the image. */
  readonly folder: string;
  readonly label: string;
}

/**
 * Takes the container storage and `release.env` out of an ISO9660 image or drive, without mount and
 * root. Device files are not made; links stay links: don't follow any.
 *
 * @throws AppError `bundle/source` without such a storage; `bundle/tool`; `bundle/no-space`
 */
export async function extractIso(path: string, to: string, signal: AbortSignal): Promise<ExtractedIso> {
  await mkdir(to, { recursive: true });
  await checkSpace(to, await volumeBytes(path));
  // A drive is only read; -indev would refuse one that is mounted without stdio:.
  const open = ['-report_about', 'WARNING', '-abort_on', 'FAILURE', '-indev', `stdio:${path}`];
  const { stdout: volume } = await runTool(xorriso, { args: [...open, '-pvd_info'] }, signal);
  const find = ['-find', '/', '-wholename', '*/docker/registry/v2', '-type', 'd'];
  const found = pathsIn((await runTool(xorriso, { args: [...open, ...find] }, signal)).stdout);
  if (found.length === 0) {
    const message = `${path} has no folder docker/registry/v2: is it an OpenShift medium with a registry's storage?`;
    throw bundleError('bundle/source', message);
  }
  const env = pathsIn(
    (await runTool(xorriso, { args: [...open, '-find', '/', '-name', 'release.env'] }, signal)).stdout,
  );
  const wanted = [...found, ...env].flatMap((one) => ['-extract', one, join(to, one)]);
  for (const one of [...found, ...env]) await mkdir(dirname(join(to, one)), { recursive: true });
  // Folders of an image are often read-only (mkisofs -r), and only root could empty their copies.
  // The modes change in memory alone, hence -rollback_end.
  const writable = ['-chmod_r', 'u+rwx', '/', '--'];
  await runTool(xorriso, { args: ['-osirrox', 'on', ...open, ...writable, ...wanted, '-rollback_end'] }, signal);
  return { folder: to, label: /^Volume Id {4}: (.*)$/m.exec(volume)?.[1]?.trim() ?? '' };
}

/** ECMA-119, 8.4: the primary volume descriptor, and its field "volume space size". */
const SECTOR_BYTES = 2048;
const DESCRIPTOR_AT = 16 * SECTOR_BYTES;
const SPACE_SIZE_AT = 80;

/** The size in the volume; the file of a drive has none. 0: there is no volume. */
async function volumeBytes(path: string): Promise<number> {
  const handle = await openFile(path).catch((cause: unknown) => {
    throw bundleError('bundle/source', `${path} can't be read: ${reasonOf(cause)}`, { cause });
  });
  try {
    const { size } = await handle.stat();
    const descriptor = Buffer.alloc(SECTOR_BYTES);
    await handle.read(descriptor, 0, SECTOR_BYTES, DESCRIPTOR_AT);
    if (descriptor.toString('latin1', 1, 6) !== 'CD001') return size;
    return Math.max(size, descriptor.readUInt32LE(SPACE_SIZE_AT) * SECTOR_BYTES);
  } finally {
    await handle.close();
  }
}

/** Paths as xorriso prints them, one a line in quotes. Paths with a quote inside are left out. */
function pathsIn(text: string): string[] {
  return [...text.matchAll(/^'(\/[^'\n]*)'$/gm)].flatMap(([, path = '']) =>
    path.split('/').includes('..') ? [] : [path],
  );
}
