import { bundleError } from '../../bundle/bundle-error.ts';
import { type Descriptor, entriesForPlatform, indexMediaTypes, parseIndex } from '../../bundle/format/oci-schema.ts';
import type { BundleReader } from '../../bundle/read/bundle-reader.ts';
import { openBundle } from '../../bundle/read/open-bundle.ts';
import { readBlob } from '../../bundle/read/open-file.ts';
import { readUntrusted } from '../../bundle/verify/judge-bundle.ts';
import { BASE_ANNOTATION, bundleName, type Contents, type Layer, type Payload } from '../../domain/model/bundle.ts';
import type { BundleId, Digest } from '../../domain/model/digest.ts';
import { AppError } from '../../platform/app-error.ts';
import { defined } from '../../platform/defined.ts';
import type { Plan, PlannedLayer } from '../images/plan-images.ts';

export interface BaseBundle {
  readonly bundleId: BundleId;
  readonly name: string;
  /**
   * Layers that every node with its images has, even if the bundle lacks them: all nodes take the
   * same manifest of these images.
   */
  readonly layers: ReadonlyMap<Digest, Layer>;
}

/**
 * Its signature is not checked: it only decides which layers are left out.
 * @throws AppError `bundle/option` without a bundle of the stream for `arch`; `media/read`,
 * `media/gone`
 */
export async function readBase(
  path: string,
  { arch, name }: Pick<Payload, 'arch' | 'name'>,
  signal: AbortSignal,
): Promise<BaseBundle> {
  const reader = openBundle(path);
  const { bundle, index } = await readUntrusted(reader, signal).catch((cause: unknown) => {
    if (!(cause instanceof AppError) || cause.code.startsWith('media/')) throw cause;
    throw bundleError('bundle/option', `base: ${path} is not a bundle to build on: ${cause.message}`, { cause });
  });
  const { payload, contents, bundleId } = bundle;
  if (payload.arch !== arch) {
    throw bundleError('bundle/option', `base: ${path} is for ${payload.arch}, and the new bundle for ${arch}`);
  }
  if (payload.name !== name) {
    throw bundleError('bundle/option', `base: ${path} is of stream ${payload.name}, and the new bundle of ${name}`);
  }
  const layers = new Map<Digest, Layer>();
  for (const image of contents.images) {
    const entry = index.manifests.find(({ digest }) => digest === image.digest);
    if (entry === undefined || !(await isSameEverywhere(reader, entry, arch, signal))) continue;
    for (const layer of image.layers.flatMap((at) => contents.layers[at] ?? [])) layers.set(layer.digest, layer);
  }
  return { bundleId, name: bundleName(payload), layers };
}

/** Returns false when its index can't be read. */
async function isSameEverywhere(
  reader: BundleReader,
  { digest, size, mediaType }: Descriptor,
  arch: string,
  signal: AbortSignal,
): Promise<boolean> {
  if (!indexMediaTypes.has(mediaType)) return true;
  const read = await readBlob(reader, { digest, sizeBytes: size }, signal);
  if (read.kind !== 'read') return false;
  const entries = entriesForPlatform(parseIndex(read.bytes, `index ${digest}`, 'bundle/option'), arch);
  return entries.length === 1 && entries.every((entry) => !indexMediaTypes.has(entry.mediaType));
}

/** The base of this plan. INVARIANT: it includes no files of artifacts. */
export function baseOf(base: BaseBundle | undefined, { layers }: Pick<Plan, 'layers'>): BaseBundle | undefined {
  if (base === undefined) return undefined;
  const kept = new Map(base.layers);
  for (const { digest, isOfArtifact } of layers) if (isOfArtifact) kept.delete(digest);
  return { ...base, layers: kept };
}

/** @throws AppError `bundle/source` (`reject`) when the base lists another unpacked digest */
export function leaveToBase({ digest, size, diffId }: PlannedLayer, known: Layer): Layer {
  if (known.diffId !== diffId || known.sizeBytes !== size) {
    const message = `layer ${digest} has ${size} bytes and unpacks to ${diffId}; the base says ${known.sizeBytes} and ${known.diffId}`;
    throw bundleError('bundle/source', message);
  }
  return { ...known, inBase: true };
}

/** Names no base when it provides no layer: the bundle is then complete. */
export function baseMembers(
  base: BaseBundle | undefined,
  { layers }: Pick<Contents, 'layers'>,
  { update, annotations }: Pick<Payload, 'update' | 'annotations'>,
): Pick<Payload, 'update' | 'annotations'> {
  if (base === undefined || !layers.some((layer) => layer.inBase)) return defined({ update, annotations });
  return {
    update: { ...update, base: base.bundleId },
    annotations: { ...annotations, [BASE_ANNOTATION]: base.name },
  };
}

export function baseWarnings(base: BaseBundle | undefined, { layers }: Pick<Contents, 'layers'>): string[] {
  if (base === undefined || layers.some((layer) => layer.inBase)) return [];
  return [`no layer can be left to the base ${base.name}: the bundle is complete without it`];
}
