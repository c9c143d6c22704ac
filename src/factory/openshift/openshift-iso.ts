import { createReadStream, createWriteStream } from 'node:fs';
import { mkdir, open as openFile, readdir, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { bundleError } from '../../bundle/bundle-error.ts';
import { reasonOf } from '../../platform/app-error.ts';
import { runTool, type Tool } from '../image/make-image.ts';
import { checkSpace } from '../output/staging.ts';

const xorriso: Tool = { name: 'xorriso', package: 'xorriso' };

export interface ExtractedMedium {
  readonly folder: string;
  readonly label: string;
}

/** A file, or a folder of files, as oc-mirror and `oc adm release mirror` name them. */
const SIGNATURES = 'signature*';

/**
 * Takes the container storage, `release.env` and signatures out of an ISO9660 image or drive,
 * without mount and root. Device files are not made; links stay links: don't follow any.
 *
 * @throws AppError `bundle/source` without such a storage; `bundle/tool`; `bundle/no-space`
 */
export async function extractIso(
  path: string,
  to: string,
  signal: AbortSignal,
  isData = false,
): Promise<ExtractedMedium> {
  await mkdir(to, { recursive: true });
  await checkSpace(to, await volumeBytes(path));
  // A drive is only read; -indev would refuse one that is mounted without stdio:.
  const open = ['-report_about', 'WARNING', '-abort_on', 'FAILURE', '-indev', `stdio:${path}`];
  const run = async (...args: string[]) => (await runTool(xorriso, { args: [...open, ...args] }, signal)).stdout;
  const find = async (...tests: string[]) => pathsIn(await run('-find', '/', ...tests));
  const label = /^Volume Id {4}: (.*)$/m.exec(await run('-pvd_info'))?.[1]?.trim() ?? '';
  const storages = await find('-wholename', '*/docker/registry/v2', '-type', 'd');
  const parts = storages.length > 0 || isData ? [] : partsIn(await find('-name', 'data.iso*', '-type', 'f'));
  const found = [...storages, ...parts];
  if (found.length === 0) throw noStorage(path);
  const others = [...(await find('-name', 'release.env')), ...(await find('-name', SIGNATURES))].filter(
    (one, _at, all) => ![...found, ...all].some((folder) => one.startsWith(`${folder}/`)),
  );
  const wanted = [...found, ...others];
  for (const one of wanted) await mkdir(dirname(join(to, one)), { recursive: true });
  // Folders of an image are often read-only (mkisofs -r), and only root could empty their copies.
  // The modes change in memory alone, hence -rollback_end.
  const writable = ['-osirrox', 'on', ...open, '-chmod_r', 'u+rwx', '/', '--'];
  const extract = wanted.flatMap((one) => ['-extract', one, join(to, one)]);
  await runTool(xorriso, { args: [...writable, ...extract, '-rollback_end'] }, signal);
  if (parts.length > 0) {
    const files = parts.map((part) => join(to, part));
    await extractParts(files, to, (file) => rm(file), signal);
  }
  return { folder: to, label };
}

/** Unpacks the parts of a live ISO in a folder. @throws AppError errors of {@link extractIso} */
export async function unpackParts(parts: readonly string[], to: string, signal: AbortSignal): Promise<ExtractedMedium> {
  await mkdir(to, { recursive: true });
  await extractParts(parts, to, async () => undefined, signal);
  return { folder: to, label: '' };
}

/** Extracts into the folder `data` of `to`. @param used is called with each part that was read */
async function extractParts(
  files: readonly string[],
  to: string,
  used: (file: string) => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  const whole = join(to, 'data.iso.whole');
  for (const file of files) {
    await checkSpace(to, (await stat(file)).size);
    await pipeline(createReadStream(file), createWriteStream(whole, { flags: 'a' }), { signal });
    await used(file);
  }
  await extractIso(whole, join(to, 'data'), signal, true);
  await rm(whole);
}

/** The storage of a live ISO: `data.isoaa`, `data.isoab` … in a folder, as split(1) names them. */
function partsIn(paths: readonly string[]): string[] {
  const parts = paths.filter((path) => /\/data\.iso[a-z0-9]{0,4}$/.test(path)).sort();
  return new Set(parts.map(dirname)).size === 1 ? parts : [];
}

export async function partsBelow(folder: string): Promise<string[]> {
  const found: string[] = [];
  for (const one of [folder, join(folder, 'registry')]) {
    const entries = await readdir(one, { withFileTypes: true }).catch(() => []);
    found.push(...entries.filter((entry) => entry.isFile()).map(({ name }) => join(one, name)));
  }
  return partsIn(found);
}

export function noStorage(path: string) {
  const message = `${path} has no folder docker/registry/v2: is it an OpenShift medium with a registry's storage?`;
  return bundleError('bundle/source', message);
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

/** xorriso prints one path a line, in quotes. Paths with a quote inside are left out. */
function pathsIn(text: string): string[] {
  return [...text.matchAll(/^'(\/[^'\n]*)'$/gm)].flatMap(([, path = '']) =>
    path.split('/').includes('..') ? [] : [path],
  );
}
