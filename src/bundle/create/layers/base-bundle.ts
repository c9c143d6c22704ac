import { BASE_ANNOTATION, bundleName, type Contents, type Layer, type Payload } from '../../../domain/model/bundle.ts';
import type { BundleId, Digest } from '../../../domain/model/digest.ts';
import { AppError } from '../../../platform/app-error.ts';
import { bundleError } from '../../bundle-error.ts';
import { type Descriptor, entriesForPlatform, indexMediaTypes, parseIndex } from '../../format/oci-schema.ts';
import type { BundleReader } from '../../read/bundle-reader.ts';
import { openBundle } from '../../read/open-bundle.ts';
import { readBlob } from '../../read/open-file.ts';
import { readUntrusted } from '../../verify/judge-bundle.ts';
import type { PlannedLayer } from '../images/plan-images.ts';

/** What a delta needs to know of the bundle that it builds on. */
export interface BaseBundle {
  readonly bundleId: BundleId;
  /** `ocp@4.13.6`. */
  readonly name: string;
  /**
   * The layers that every node with its images has, even if the bundle does not hold them (a
   * volume, or a delta itself): those of images of which all nodes take the same manifest.
   */
  readonly layers: ReadonlyMap<Digest, Layer>;
}

/**
 * Reads the base of a new delta. Its signature is not checked: the base only determines which
 * layers can be left out.
 *
 * @throws AppError `bundle/option` (`reject`) when there is no bundle of the same stream for
 *   `arch` at `path`;
 *   `media/read`, `media/gone`.
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

/** Whether all nodes take the same manifest of an image; false when its index can't be read. */
async function isSameEverywhere(
  reader: BundleReader,
  { digest, size, mediaType }: Descriptor,
  arch: string,
  signal: AbortSignal,
): Promise<boolean> {
  if (!indexMediaTypes.has(mediaType)) return true;
  const read = await readBlob(reader, { digest, sizeBytes: size }, signal);
  if (read.kind !== 'read') return false;
  return entriesForPlatform(parseIndex(read.bytes, `index ${digest}`, 'bundle/option'), arch).length === 1;
}

/**
 * The layer as `contents.json` lists it when the base provides it.
 *
 * @throws AppError `bundle/source` (`reject`) when the base lists another unpacked digest for it.
 */
export function leaveToBase({ digest, size, diffId }: PlannedLayer, known: Layer): Layer {
  if (known.diffId !== diffId || known.sizeBytes !== size) {
    throw bundleError(
      'bundle/source',
      `layer ${digest} has ${size} bytes and unpacks to ${diffId}; the base says ${known.sizeBytes} and ${known.diffId}`,
    );
  }
  return { ...known, inBase: true };
}

/**
 * The base as the payload names it; undefined when the base provides no layer, since the bundle is
 * then complete.
 */
export function baseMembers(
  base: BaseBundle | undefined,
  { layers }: Pick<Contents, 'layers'>,
  { update, annotations }: Pick<Payload, 'update' | 'annotations'>,
): Pick<Payload, 'update' | 'annotations'> {
  const isNeeded = base !== undefined && layers.some((layer) => layer.inBase);
  return {
    ...(update !== undefined && { update }),
    ...(annotations !== undefined && { annotations }),
    ...(isNeeded && {
      update: { ...update, base: base.bundleId },
      annotations: { ...annotations, [BASE_ANNOTATION]: base.name },
    }),
  };
}

/** Warnings about a base that provides nothing. */
export function baseWarnings(base: BaseBundle | undefined, { layers }: Pick<Contents, 'layers'>): string[] {
  if (base === undefined || layers.some((layer) => layer.inBase)) return [];
  return [`no layer can be left to the base ${base.name}: the bundle is complete without it`];
}
