import { bundleError } from '../../bundle/bundle-error.ts';
import type { TarHeader } from '../../bundle/format/tar-header.ts';
import type { SourceFile } from '../images/layout-source.ts';
import { streamPacked } from './packed-file.ts';
import { TarWalker } from './tar-walker.ts';

interface FolderLimits {
  readonly fileBytes: number;
  /** All files together. */
  readonly totalBytes: number;
}

/** This whiteout hides all that lower layers have in its folder (image-spec, layer.md). */
const OPAQUE = '.wh..wh..opq';

/**
 * Reads the regular files directly in one folder of the combined filesystem of layers (image-spec,
 * layer.md): the highest layer with a file wins, whiteouts hide lower layers. Each layer is read
 * once.
 *
 * @param layers the lowest first; gzip, zstd or plain
 * @param folder relative, as `release-manifests`
 * @returns the files by their names in the folder
 * @throws AppError `bundle/source` also for a file that is too large
 */
export async function readFolderInLayers(
  layers: readonly SourceFile[],
  folder: string,
  limits: FolderLimits,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, Buffer>> {
  const reader = new FolderReader(folder, limits);
  for (const layer of [...layers].reverse()) {
    if (reader.isHidden) break;
    await reader.read(layer, signal);
  }
  return reader.files;
}

class FolderReader {
  readonly files = new Map<string, Buffer>();
  /** Lower layers have nothing in the folder that counts. */
  isHidden = false;
  private readonly hidden = new Set<string>();
  /** The folder and those above it. */
  private readonly folders: readonly string[];
  private sizeBytes = 0;

  constructor(
    private readonly folder: string,
    private readonly limits: FolderLimits,
  ) {
    const parts = folder.split('/');
    this.folders = parts.map((_, at) => parts.slice(0, at + 1).join('/'));
  }

  async read(layer: SourceFile, signal: AbortSignal): Promise<void> {
    const files = new Map<string, Buffer[]>();
    const hidden = new Set<string>();
    const visit = (header: TarHeader) => this.visit(header, layer, files, hidden);
    const walker = new TarWalker(visit);
    await streamPacked(layer, { onTar: (chunk) => walker.write(chunk) }, signal);
    for (const [name, chunks] of files) this.files.set(name, Buffer.concat(chunks));
    for (const name of [...hidden, ...files.keys()]) this.hidden.add(name);
  }

  /** @returns what takes the content of a file that counts */
  private visit(
    { name: stored, type, storedBytes }: TarHeader,
    layer: SourceFile,
    files: Map<string, Buffer[]>,
    hidden: Set<string>,
  ): ((data: Uint8Array) => void) | undefined {
    const path = stored.replace(/^(?:\.?\/)+/, '').replace(/\/+$/, '');
    const at = path.lastIndexOf('/');
    const [above, name] = [path.slice(0, Math.max(at, 0)), path.slice(at + 1)];
    if (this.hidesFolder(path, above, name, type)) this.isHidden = true;
    // A path that is not a folder has no content.
    if (this.folders.includes(path) && type !== '5') files.clear();
    if (above !== this.folder || type === '5') return undefined;
    if (name.startsWith('.wh.')) {
      hidden.add(name.slice('.wh.'.length));
      return undefined;
    }
    files.delete(name);
    if (type !== '0' && type !== '7') hidden.add(name);
    if (this.hidden.has(name) || (type !== '0' && type !== '7')) return undefined;
    this.check(path, layer, storedBytes);
    const chunks: Buffer[] = [];
    files.set(name, chunks);
    return (data) => void chunks.push(Buffer.from(data));
  }

  private hidesFolder(path: string, above: string, name: string, type: string): boolean {
    if (this.folders.includes(path)) return type !== '5';
    if (name === OPAQUE) return above === '' || this.folders.includes(above);
    return name.startsWith('.wh.') && this.folders.includes(path.replace(/\.wh\.([^/]*)$/, '$1'));
  }

  private check(path: string, layer: SourceFile, sizeBytes: number): void {
    const { fileBytes, totalBytes } = this.limits;
    this.sizeBytes += sizeBytes;
    if (sizeBytes > fileBytes) {
      const message = `${path} in ${layer.what} has ${sizeBytes} bytes, and ${fileBytes} are allowed`;
      throw bundleError('bundle/source', message);
    }
    if (this.sizeBytes <= totalBytes) return;
    throw bundleError('bundle/source', `${this.folder} in ${layer.what} has more than ${totalBytes} bytes`);
  }
}
