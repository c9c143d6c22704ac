import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { ManifestImage } from '../../../domain/release/manifest-warnings.ts';
import { bundleError } from '../../bundle-error.ts';
import { parseManifests } from '../../documents/kubernetes-manifest.ts';
import { sourceError } from '../images/layout-source.ts';

const MAX_FILE_BYTES = 16 * 1024 * 1024;
const MAX_FILES = 20_000;
const MANIFEST = /\.(?:ya?ml|json)$/i;

/**
 * Reads the images that Kubernetes manifests ask for: every document of every `*.yaml`, `*.yml` and
 * `*.json` (YAML 1.2 with merge keys) below `directory`, in the order of their paths. Hidden files
 * and folders, and links to folders, are left out. At most 20,000 files of 16 MiB each.
 *
 * @throws AppError `bundle/source` (`reject`) that names the file, and the line where it is
 *   malformed; also when there is no manifest.
 */
export async function readManifests(directory: string, signal: AbortSignal): Promise<ManifestImage[]> {
  const files = await manifestFiles(directory, signal);
  if (files.length === 0) {
    throw bundleError('bundle/source', `there is no *.yaml, *.yml or *.json in ${directory}`);
  }
  const found: ManifestImage[] = [];
  for (const file of files) {
    for (const image of parseManifests(await readText(file, signal), file)) found.push(image);
  }
  return found;
}

async function manifestFiles(directory: string, signal: AbortSignal): Promise<string[]> {
  signal.throwIfAborted();
  const entries = await readdir(directory, { withFileTypes: true }).catch((cause: unknown) => {
    throw sourceError(directory, cause);
  });
  const files: string[] = [];
  for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const path = join(directory, entry.name);
    if (entry.name.startsWith('.')) continue;
    if (entry.isDirectory()) files.push(...(await manifestFiles(path, signal)));
    else if (MANIFEST.test(entry.name) && (entry.isFile() || entry.isSymbolicLink())) files.push(path);
    if (files.length > MAX_FILES)
      throw bundleError('bundle/source', `${directory} has more than ${MAX_FILES} manifests`);
  }
  return files;
}

async function readText(path: string, signal: AbortSignal): Promise<string> {
  try {
    const found = await stat(path);
    if (!found.isFile()) throw bundleError('bundle/source', `${path} is not a file`);
    if (found.size > MAX_FILE_BYTES) {
      throw bundleError('bundle/source', `${path} has ${found.size} bytes, and ${MAX_FILE_BYTES} are allowed`);
    }
    return await readFile(path, { encoding: 'utf8', signal });
  } catch (cause) {
    signal.throwIfAborted();
    throw sourceError(path, cause);
  }
}
