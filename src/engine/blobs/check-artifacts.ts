import type { Artifact } from '../../domain/model/bundle.ts';
import type { BundleId, Digest } from '../../domain/model/digest.ts';
import type { ImageContent } from '../../domain/model/image.ts';
import type { ContentFault } from '../../domain/model/reason.ts';
import { keptBundles } from '../../domain/release/recorded-phase.ts';
import type { StoredBundle } from '../../domain/state/state.ts';
import { AppError } from '../../platform/app-error.ts';
import { oneBuffer } from '../../platform/files/file-access.ts';
import type { EngineContext } from '../context.ts';

type Context = Pick<EngineContext, 'documents' | 'layers' | 'store'>;

/**
 * Reads the artifacts of kept releases that were complete, or of `only`, by reference. The store
 * removes what has changed, so that the next round has it copied again.
 *
 * @throws whatever aborted `signal`
 */
export async function checkArtifacts(
  context: Context,
  only: BundleId | undefined,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, { readonly content: ImageContent }>> {
  const found = new Map<string, { readonly content: ImageContent }>();
  const kept = keptBundles(context.store.load().bundles).filter(({ readyAt }) => readyAt !== undefined);
  for (const bundle of kept.filter(({ bundleId }) => only === undefined || bundleId === only)) {
    for (const artifact of bundle.contents.artifacts ?? []) {
      if (found.has(artifact.reference)) continue;
      const faults = await faultsOf(artifact, bundle, context, signal);
      const content: ImageContent = faults.length === 0 ? { kind: 'whole', by: 'bytes' } : { kind: 'broken', faults };
      found.set(artifact.reference, { content });
    }
  }
  return found;
}

async function faultsOf(
  { digest, config, layers }: Artifact,
  { contents }: StoredBundle,
  context: Context,
  signal: AbortSignal,
): Promise<readonly ContentFault[]> {
  const faults: ContentFault[] = [];
  for (const document of [digest, config.digest]) {
    const why = await faultOf(document, context, signal);
    if (why !== undefined) faults.push(why ?? { kind: 'document-absent', digest: document });
  }
  for (const layer of new Set(layers.flatMap((at) => contents.layers[at]?.digest ?? []))) {
    const why = await faultOf(layer, context, signal);
    if (why !== undefined) faults.push(why ?? { kind: 'layer-absent', digest: layer });
  }
  return faults;
}

/** Null when it is absent. An attachment may be a file of an artifact, and a file its config. */
async function faultOf(
  digest: Digest,
  { documents, layers }: Context,
  signal: AbortSignal,
): Promise<ContentFault | null | undefined> {
  for (const source of [documents, layers]) {
    try {
      if ((await source.sizeOf(digest, signal)) === undefined) continue;
      for await (const _chunk of source.read(digest, 0, signal, oneBuffer())) signal.throwIfAborted();
      return undefined;
    } catch (error) {
      signal.throwIfAborted();
      const isAltered = error instanceof AppError && error.disposition === 'reject';
      return { kind: 'blob', digest, why: isAltered ? 'altered' : 'unreadable' };
    }
  }
  return null;
}
