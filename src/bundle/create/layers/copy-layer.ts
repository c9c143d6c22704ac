import { createHash } from 'node:crypto';
import { rename } from 'node:fs/promises';
import type { Layer } from '../../../domain/model/bundle.ts';
import { digestFromHex } from '../../../domain/model/digest.ts';
import { AppError } from '../../../platform/app-error.ts';
import { fillTreeFile, keepTreeFile } from '../../../platform/files/durable-file.ts';
import type { Descriptor } from '../../format/oci-schema.ts';
import type { SourceFile } from '../images/layout-source.ts';
import { damagedFile, streamPacked } from './packed-file.ts';
import { createTarMeter, type TarMeter } from './tar-meter.ts';

/** The expected layer, and who is told of each chunk that was read. */
interface LayerOptions {
  readonly expected: Descriptor;
  readonly onBytes: (bytes: number) => void;
}

/**
 * Copies a layer blob to another file and measures it in the same pass: digest and size of
 * the blob, `diffId`, size and content of the tar inside. Gzip, zstd and plain tar. A small
 * copy is not synced to disk yet.
 *
 * @throws AppError `bundle/source` (`reject`) when the layer is absent, damaged, no tar or
 *   compressed otherwise; system errors of the target (`ENOSPC`, …) as they are.
 */
export async function copyLayer(
  from: SourceFile,
  to: string,
  options: LayerOptions,
  signal: AbortSignal,
): Promise<Layer> {
  return fillTreeFile(to, (target) => measureLayer(from, options, (chunk) => target.writeFile(chunk), signal));
}

/**
 * Like {@link copyLayer}, for a blob on the same filesystem that nobody else needs: it is measured
 * and moved.
 *
 * @throws AppError as {@link copyLayer}
 */
export async function moveLayer(
  from: SourceFile,
  to: string,
  options: LayerOptions,
  signal: AbortSignal,
): Promise<Layer> {
  const measured = await measureLayer(from, options, async () => undefined, signal);
  await keepTreeFile(from.path);
  await rename(from.path, to);
  return measured;
}

async function measureLayer(
  from: SourceFile,
  { expected, onBytes }: LayerOptions,
  onChunk: (chunk: Buffer) => Promise<void>,
  signal: AbortSignal,
): Promise<Layer> {
  const blobHash = createHash('sha256');
  const diffHash = createHash('sha256');
  const meter = createTarMeter();
  let sizeBytes = 0;
  let uncompressedBytes = 0;
  const onFile = async (chunk: Buffer) => {
    blobHash.update(chunk);
    sizeBytes += chunk.length;
    await onChunk(chunk);
    onBytes(chunk.length);
  };
  const onTar = (chunk: Uint8Array) => {
    diffHash.update(chunk);
    uncompressedBytes += chunk.length;
    meter.write(chunk);
  };
  await streamPacked(from, { sizeBytes: expected.size, onFile, onTar }, signal);
  const digest = digestFromHex(blobHash.digest('hex'));
  if (digest !== expected.digest || sizeBytes !== expected.size) {
    throw damagedFile(
      from,
      `its digest is ${digest}, ${sizeBytes} bytes; ${expected.digest} with ${expected.size} was expected`,
    );
  }
  return {
    digest,
    sizeBytes,
    diffId: digestFromHex(diffHash.digest('hex')),
    uncompressedBytes,
    ...endOf(meter, from),
  };
}

function endOf(meter: TarMeter, from: SourceFile): ReturnType<TarMeter['end']> {
  try {
    return meter.end();
  } catch (error) {
    throw error instanceof AppError ? damagedFile(from, error.message, error) : error;
  }
}
