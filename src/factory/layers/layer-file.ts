import { createHash } from 'node:crypto';
import { rename } from 'node:fs/promises';
import type { Layer } from '../../domain/model/bundle.ts';
import { digestFromHex } from '../../domain/model/digest.ts';
import { AppError } from '../../platform/app-error.ts';
import { fillTreeFile, keepTreeFile } from '../../platform/files/durable-file.ts';
import { readSource, type SourceFile } from '../images/layout-source.ts';
import type { PlannedLayer } from '../images/plan-images.ts';
import { damagedFile, streamPacked } from './packed-file.ts';
import { TarMeter, type TarWalker } from './tar-walker.ts';

/**
 * Copies a layer (gzip, zstd, plain tar), or moves one that is ours, and measures blob and tar in
 * the same pass. A small copy is not synced yet.
 *
 * @throws AppError `bundle/source` (`reject`) when the layer is absent, damaged, or no such tar;
 *   system errors of the target as they are
 */
export async function takeLayer(
  layer: PlannedLayer,
  to: string,
  onBytes: (bytes: number) => void,
  signal: AbortSignal,
): Promise<Layer> {
  const measure = (onChunk: (chunk: Buffer) => Promise<void>) => measureLayer(layer, onBytes, onChunk, signal);
  if (!layer.isDisposable) return fillTreeFile(to, (target) => measure((chunk) => target.writeFile(chunk)));
  const measured = await measure(async () => undefined);
  await keepTreeFile(layer.path);
  await rename(layer.path, to);
  return measured;
}

async function measureLayer(
  layer: PlannedLayer,
  onBytes: (bytes: number) => void,
  onChunk: (chunk: Buffer) => Promise<void>,
  signal: AbortSignal,
): Promise<Layer> {
  if (layer.diffId === undefined) return measureFile(layer, onBytes, onChunk, signal);
  const blob = new BlobMeter(onBytes, onChunk);
  const diffHash = createHash('sha256');
  const meter = new TarMeter();
  let uncompressedBytes = 0;
  const onTar = (chunk: Uint8Array) => {
    diffHash.update(chunk);
    uncompressedBytes += chunk.length;
    meter.write(chunk);
  };
  await streamPacked(layer, { sizeBytes: layer.size, onFile: (chunk) => blob.write(chunk), onTar }, signal);
  const { digest, sizeBytes } = blob.end(layer);
  endTar(meter, layer);
  const diffId = digestFromHex(diffHash.digest('hex'));
  return { digest, sizeBytes, diffId, uncompressedBytes, diskBytes: meter.diskBytes, inodes: meter.inodes };
}

const BLOCK_BYTES = 4096;

/** A file of an artifact: nothing unpacks it. */
async function measureFile(
  layer: PlannedLayer,
  onBytes: (bytes: number) => void,
  onChunk: (chunk: Buffer) => Promise<void>,
  signal: AbortSignal,
): Promise<Layer> {
  const blob = new BlobMeter(onBytes, onChunk);
  for await (const chunk of readSource(layer, signal)) await blob.write(chunk);
  const { digest, sizeBytes } = blob.end(layer);
  const diskBytes = Math.ceil(sizeBytes / BLOCK_BYTES) * BLOCK_BYTES;
  return { digest, sizeBytes, diffId: digest, uncompressedBytes: sizeBytes, diskBytes, inodes: 1 };
}

class BlobMeter {
  private readonly hash = createHash('sha256');
  private sizeBytes = 0;

  constructor(
    private readonly onBytes: (bytes: number) => void,
    private readonly onChunk: (chunk: Buffer) => Promise<void>,
  ) {}

  async write(chunk: Buffer): Promise<void> {
    this.hash.update(chunk);
    this.sizeBytes += chunk.length;
    await this.onChunk(chunk);
    this.onBytes(chunk.length);
  }

  /** @throws AppError `bundle/source` (`reject`) when it is not what `layer` says */
  end(layer: PlannedLayer): Pick<Layer, 'digest' | 'sizeBytes'> {
    const { sizeBytes } = this;
    const digest = digestFromHex(this.hash.digest('hex'));
    if (digest === layer.digest && sizeBytes === layer.size) return { digest, sizeBytes };
    const found = `its digest is ${digest}, ${sizeBytes} bytes`;
    throw damagedFile(layer, `${found}; ${layer.digest} with ${layer.size} was expected`);
  }
}

/** @throws AppError `bundle/source` (`reject`) when it is cut off */
export function endTar(tar: TarWalker, from: SourceFile): void {
  try {
    tar.end();
  } catch (error) {
    throw error instanceof AppError ? damagedFile(from, error.message, error) : error;
  }
}
