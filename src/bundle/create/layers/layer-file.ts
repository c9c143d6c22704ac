import { bundleError } from '../../bundle-error.ts';
import type { TarHeader } from '../../format/tar-header.ts';
import type { SourceFile } from '../images/layout-source.ts';
import { streamPacked } from './packed-file.ts';
import { createTarWalker } from './tar-walker.ts';

/**
 * What one layer does to a path: it adds a file, removes the file of lower layers, or leaves it
 * alone.
 */
type LayerEffect =
  | { readonly kind: 'file'; readonly bytes: Buffer }
  | { readonly kind: 'hidden' }
  | { readonly kind: 'untouched' };

/**
 * The content of a regular file in the combined filesystem of layers (image-spec, layer.md). The
 * last layer that has the file wins; whiteouts and opaque whiteouts hide lower layers. Layers are
 * gzip, zstd or plain. They are read from the last one down, as far as needed.
 *
 * @param layers the blobs, the lowest layer first.
 * @param path relative, as `release-manifests/image-references`.
 * @returns undefined when there is no such file.
 * @throws AppError `bundle/source` (`reject`) when a layer can't be read, or the file is larger
 *   than `maxBytes` or no regular one.
 */
export async function readFileInLayers(
  layers: readonly SourceFile[],
  path: string,
  maxBytes: number,
  signal: AbortSignal,
): Promise<Buffer | undefined> {
  for (const layer of [...layers].reverse()) {
    const effect = await effectOf(layer, path, maxBytes, signal);
    if (effect.kind === 'file') return effect.bytes;
    if (effect.kind === 'hidden') return undefined;
  }
  return undefined;
}

async function effectOf(layer: SourceFile, path: string, maxBytes: number, signal: AbortSignal): Promise<LayerEffect> {
  const folders = foldersAbove(path);
  const whiteouts = new Set([
    ...[...folders, path].map((name) => name.replace(/[^/]*$/, '.wh.$&')),
    ...['', ...folders].map((folder) => `${folder === '' ? '' : `${folder}/`}.wh..wh..opq`),
  ]);
  let isHidden = false;
  let file: { readonly type: string; readonly chunks: Buffer[] } | undefined;
  const visit = ({ name: stored, type, storedBytes }: TarHeader) => {
    const name = stored.replace(/^(?:\.?\/)+/, '').replace(/\/+$/, '');
    if (whiteouts.has(name)) isHidden = true;
    if (folders.includes(name) && type !== '5') {
      // A path that is not a folder has no content, whatever lower layers hold.
      isHidden = true;
      file = undefined;
    }
    if (name !== path) return undefined;
    if (storedBytes > maxBytes) {
      throw bundleError(
        'bundle/source',
        `${path} in ${layer.what} has ${storedBytes} bytes, and ${maxBytes} are allowed`,
      );
    }
    const chunks: Buffer[] = [];
    file = { type, chunks };
    return (data: Uint8Array) => void chunks.push(Buffer.from(data));
  };
  const walker = createTarWalker(visit);
  await streamPacked(layer, { onTar: walker.write }, signal);
  if (file === undefined) return { kind: isHidden ? 'hidden' : 'untouched' };
  if (file.type !== '0' && file.type !== '7') {
    throw bundleError('bundle/source', `${path} in ${layer.what} is not a regular file`);
  }
  return { kind: 'file', bytes: Buffer.concat(file.chunks) };
}

function foldersAbove(path: string): string[] {
  const parts = path.split('/');
  return parts.slice(1).map((_, at) => parts.slice(0, at + 1).join('/'));
}
