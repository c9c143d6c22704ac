import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { DoubleOptions } from '../options.ts';

/** An image as containers-storage has it. */
export interface StoredImage {
  /** Hex digest of its configuration. */
  readonly id: string;
  /**
   * Names as they were pulled, fully qualified, with a tag or a digest; a name belongs to one image
   * (docs/runtime-facts.md, fact 10).
   */
  readonly names: readonly string[];
  readonly namesHistory: readonly string[];
  /**
   * Manifest digests, the one last pulled first; of an image pulled by an index both are there
   * (docs/runtime-facts.md, fact 19).
   */
  readonly digests: readonly string[];
  /** Configuration, manifests and unpacked layers. */
  readonly sizeBytes: number;
  /** `User` of the image's configuration, empty when it has none. */
  readonly user: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

interface ImageRecord {
  readonly id: string;
  readonly digest?: string;
  readonly names?: readonly string[];
  readonly 'names-history'?: readonly string[];
  readonly layer?: string;
  readonly 'big-data-sizes'?: Readonly<Record<string, number>>;
  readonly 'big-data-digests'?: Readonly<Record<string, string>>;
}

interface Records {
  readonly records: readonly ImageRecord[];
  readonly layers: ReadonlyMap<string, LayerRecord>;
}

interface LayerRecord {
  readonly id: string;
  readonly parent?: string;
  readonly 'diff-size'?: number;
}

/**
 * Reads the images out of the storage's own files, which are replaced by renaming, so that reading
 * needs no lock.
 */
export interface ImageReader {
  /**
   * All of them but those whose configuration is not written yet.
   *
   * @throws Error `layer not known`, as CRI-O's own call then fails, when the storage has lost the
   *   record of the layer of one
   */
  images(): Promise<StoredImage[]>;
}

/**
 * What an image's own files say is kept for as long as its record stays the same, as CRI-O keeps
 * it: a look at a thousand images is not a thousand looks at the disk.
 */
export function createImageReader(options: DoubleOptions): ImageReader {
  const directory = imagesDirectory(options);
  const layerFile = join(options.root, `${options.storageDriver}-layers`, 'layers.json');
  let kept = new Map<string, StoredImage>();
  return {
    images: async () => {
      const { records, layers } = await recordsOf(join(directory, 'images.json'), layerFile);
      const next = new Map<string, StoredImage>();
      const read = async (record: ImageRecord) => {
        const key = JSON.stringify(record);
        const image = kept.get(key) ?? (await readImage(record, directory, layers));
        if (image !== undefined) next.set(key, image);
        return image;
      };
      const images = await Promise.all(records.map(read));
      kept = next;
      return images.filter((image) => image !== undefined);
    },
  };
}

/** The directory of `images.json` and its lock, for whoever has to change them. */
export function imagesDirectory(options: DoubleOptions): string {
  return join(options.root, `${options.storageDriver}-images`);
}

async function readImage(
  record: ImageRecord,
  directory: string,
  layers: ReadonlyMap<string, LayerRecord>,
): Promise<StoredImage | undefined> {
  const read = <T>(key: string) => readJson<T>(join(directory, record.id, fileNameOf(key)));
  const config = await read<{ config?: { User?: string; Labels?: Record<string, string> } }>(`sha256:${record.id}`);
  const manifest = await read<{ annotations?: Record<string, string> }>('manifest');
  if (config === undefined || manifest === undefined) return undefined;
  const digests = Object.entries(record['big-data-digests'] ?? {})
    .filter(([key]) => key.startsWith('manifest'))
    .map(([, digest]) => digest);
  const dataBytes = Object.values(record['big-data-sizes'] ?? {}).reduce((sum, size) => sum + size, 0);
  return {
    id: record.id,
    names: record.names ?? [],
    namesHistory: record['names-history'] ?? [],
    digests: [...new Set([...(record.digest === undefined ? [] : [record.digest]), ...digests])],
    sizeBytes: dataBytes + chainBytes(record.layer, layers),
    user: config.config?.User ?? '',
    labels: config.config?.Labels ?? {},
    annotations: manifest.annotations ?? {},
  };
}

function chainBytes(top: string | undefined, layers: ReadonlyMap<string, LayerRecord>): number {
  let sum = 0;
  for (let layer = layers.get(top ?? ''); layer !== undefined; layer = layers.get(layer.parent ?? '')) {
    sum += layer['diff-size'] ?? 0;
  }
  return sum;
}

/** Both files, read again when an image and its layers were removed in between. */
async function recordsOf(imageFile: string, layerFile: string, isAgain = false): Promise<Records> {
  const records = (await readJson<ImageRecord[]>(imageFile)) ?? [];
  const all = (await readJson<LayerRecord[]>(layerFile)) ?? [];
  const layers = new Map(all.map((layer) => [layer.id, layer]));
  if (records.every(({ layer }) => layer === undefined || layers.has(layer))) return { records, layers };
  if (isAgain) throw new Error('layer not known');
  return recordsOf(imageFile, layerFile, true);
}

/**
 * Storage writes data under its plain key when that is a plain word, else under `=` and the key in
 * base64.
 */
function fileNameOf(key: string): string {
  return /^[a-z0-9]+$/.test(key) ? key : `=${Buffer.from(key).toString('base64')}`;
}

async function readJson<T>(path: string): Promise<T | undefined> {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as T;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}
