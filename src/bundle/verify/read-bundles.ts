import { join } from 'node:path';
import type { FoundBundle } from '../../domain/model/medium.ts';
import { AppError } from '../../platform/app-error.ts';
import type { Documents } from '../documents/documents.ts';
import type { Trust } from '../keys/trust.ts';
import type { BundleReader } from '../read/bundle-reader.ts';
import { type BundleLayout, findBundles } from '../read/find-bundles.ts';
import { openBundle } from '../read/open-bundle.ts';
import { judgeBundle, readEnvelope } from './judge-bundle.ts';
import { bundleIdOf } from './verify-envelope.ts';

/**
 * Finds and judges every bundle below `root`: the root of a mounted medium, or the drop folder. A bundle that may not be trusted, is malformed
 * or can't be read is `rejected` with its reason and hides no other one; where approval is enough, one that nobody trusted signed is `unapproved`.
 *
 * @throws AppError `media/gone` (`wait`) when the medium went away meanwhile; `media/read` (`retry`) when its folders can't be listed.
 */
export async function readBundles(
  root: string,
  options: {
    readonly trust: Trust;
    readonly layout: BundleLayout;
    /** Default `openBundle()`. */
    readonly open?: (path: string, root: string) => BundleReader;
    /** Parses what is large; default `documentsHere`. */
    readonly documents?: Documents;
  },
  signal: AbortSignal,
): Promise<FoundBundle[]> {
  const found: FoundBundle[] = [];
  for (const candidate of await findBundles(root, options.layout, signal)) {
    const { path } = candidate;
    found.push(
      candidate.kind === 'bundle'
        ? await judgeAt((options.open ?? openBundle)(join(root, path), root), path, options, signal)
        : { kind: 'rejected', path, reason: candidate.reason },
    );
  }
  return found;
}

/** Signatures that are lacking may be made up for by an approval. One that does not match means a damaged or altered bundle. */
const MAY_BE_APPROVED: ReadonlySet<string> = new Set([
  'bundle/no-key',
  'bundle/revocations-unreadable',
  'bundle/unsigned',
  'bundle/unknown-key',
  'bundle/revoked-key',
  'bundle/threshold',
]);

async function judgeAt(
  reader: BundleReader,
  path: string,
  { trust, documents: parsers }: { readonly trust: Trust; readonly documents?: Documents },
  signal: AbortSignal,
): Promise<FoundBundle> {
  try {
    const { bundle, documents, missing, isEnvelope } = await reader.hold(() =>
      judgeBundle(reader, trust, signal, parsers),
    );
    return { kind: 'verified', path, bundle, documents, missing, ...(isEnvelope && { isEnvelope }) };
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof AppError) || error.code === 'media/gone') throw error;
    if (trust.isApprovalEnough === true && MAY_BE_APPROVED.has(error.code)) {
      const { payload } = await readEnvelope(reader, signal);
      return { kind: 'unapproved', path, bundleId: bundleIdOf(payload) };
    }
    return { kind: 'rejected', path, reason: { code: error.code, message: error.message } };
  }
}
