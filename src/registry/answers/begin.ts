import type { ImageDocument } from '../../bundle/format/oci-schema.ts';
import { type Client, type Extent, manifestAnswer } from '../../domain/decide/decision.ts';
import type { Digest } from '../../domain/model/digest.ts';
import { AppError, assertNever } from '../../platform/app-error.ts';
import { withDeadline } from '../../platform/async/abort.ts';
import type { BlobSource } from '../../ports/blobs.ts';
import { readManifest } from '../manifest.ts';
import type { Offer } from '../offer.ts';
import type { PullApi } from './exchange.ts';

/** A manifest that was asked for, and by whom. */
export interface AskedManifest {
  readonly digest: Digest;
  /** Undefined when its bytes are damaged. */
  readonly document: ImageDocument | undefined;
  readonly offer: Offer;
  readonly client: Client;
}

/**
 * How long the runtime may take to say whether it has an image. After a start of the daemon the
 * runtime is asked before the daemon has reached it, and it is asked again until then.
 */
const HELD_MS = 15_000;
const ASK_AGAIN_MS = 250;

/**
 * Whether the client may begin a pull with this manifest, see `manifestAnswer`. The runtime is
 * asked only where the answer depends on it, and each time: an image may have been removed just
 * now.
 *
 * @throws AppError as {@link BlobSource.read} does; whatever aborted `signal`
 */
export async function mayBegin(api: PullApi, asked: AskedManifest, signal: AbortSignal): Promise<boolean> {
  const { digest, document, offer, client } = asked;
  const { images } = offer;
  if (images === undefined) return true;
  const root = (await rootOf(api, digest, images.references, signal)) ?? digest;
  const isArriving = images.arriving.has(root);
  const extent = document === undefined ? 'partial' : await extentOf(document, api.source, signal);
  const answer = manifestAnswer({ client, isArriving, extent });
  switch (answer) {
    case 'send':
      return true;
    case 'withhold':
      return false;
    case 'send-if-held': {
      const reference = images.references.get(root);
      return reference !== undefined && (await isHeld(api, reference, signal));
    }
    default:
      return assertNever(answer);
  }
}

/**
 * A runtime that does not say in time that it has the image counts as one that has not. So does one
 * that answers with an error, at once: it answers the same again, as CRI-O does that lost a layer.
 */
async function isHeld(api: PullApi, reference: string, signal: AbortSignal): Promise<boolean> {
  const { isHeld: ask } = api;
  if (ask === undefined) return false;
  const askUntilAnswered = async (inner: AbortSignal): Promise<boolean> => {
    for (;;) {
      try {
        return await ask(reference, inner);
      } catch (error) {
        inner.throwIfAborted();
        if (!(error instanceof AppError) || error.code !== 'runtime/unreachable') return false;
        await api.clock.sleep(ASK_AGAIN_MS, inner);
      }
    }
  };
  try {
    return await withDeadline('the container runtime', HELD_MS, signal, askUntilAnswered);
  } catch {
    signal.throwIfAborted();
    return false;
  }
}

/** The image that a manifest belongs to: itself, or the index that names it. */
async function rootOf(
  api: PullApi,
  digest: Digest,
  references: ReadonlyMap<Digest, string>,
  signal: AbortSignal,
): Promise<Digest | undefined> {
  if (references.has(digest)) return digest;
  for (const root of references.keys()) {
    if ((await manifestsOf(api, root, signal)).has(digest)) return root;
  }
  return undefined;
}

/** The manifests that an index names. None for an image without one. */
async function manifestsOf(api: PullApi, root: Digest, signal: AbortSignal): Promise<ReadonlySet<Digest>> {
  const known = api.indexes.get(root);
  if (known !== undefined) return known;
  const document = (await readManifest(api.source, root, signal))?.document;
  if (document === undefined) return new Set();
  const named = new Set(document.kind === 'index' ? document.manifests.map(({ digest }) => digest) : []);
  api.indexes.set(root, named);
  return named;
}

/** How much of an image the sources have. Of an index only the manifests count that are here. */
async function extentOf(document: ImageDocument, source: BlobSource, signal: AbortSignal): Promise<Extent> {
  if (document.kind === 'manifest') {
    const has = async (digest: Digest) => (await source.sizeOf(digest, signal)) !== undefined;
    if (!(await has(document.config.digest))) return 'partial';
    for (const { digest } of document.layers) if (!(await has(digest))) return 'documents';
    return 'whole';
  }
  const extents: Extent[] = [];
  for (const { digest } of document.manifests) {
    const below = (await readManifest(source, digest, signal))?.document;
    if (below !== undefined) extents.push(await extentOf(below, source, signal));
  }
  if (extents.length === 0 || extents.includes('partial')) return 'partial';
  return extents.includes('documents') ? 'documents' : 'whole';
}
