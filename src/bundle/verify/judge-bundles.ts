import type { FoundBundle } from '../../domain/model/medium.ts';
import type { Fault } from '../../domain/model/reason.ts';
import { AppError } from '../../platform/app-error.ts';
import type { Documents } from '../documents/documents.ts';
import type { Trust } from '../keys/trust.ts';
import type { BundleReader } from '../read/bundle-reader.ts';
import { judgeBundle, readEnvelope } from './judge-bundle.ts';
import { bundleIdOf } from './verify-envelope.ts';
import { findMissing } from './walk-images.ts';

/**
 * A candidate on a medium: a bundle with its reader, or something that looks like a bundle and
 * can't be read.
 */
export type BundleToJudge =
  | { readonly kind: 'bundle'; readonly path: string; readonly reader: BundleReader }
  | { readonly kind: 'unreadable'; readonly path: string; readonly reason: Fault };

/**
 * Judges the bundles of a medium, one after the other. A bundle that may not be trusted, is
 * malformed or can't be read is `rejected` with its reason and does not hide the others. Where an
 * approval is enough, a bundle that no trusted key signed is `unapproved`.
 *
 * @returns one result for each bundle, in their order
 * @throws AppError `media/gone` (`wait`) when the medium went away meanwhile
 */
export async function judgeBundles(
  bundles: readonly BundleToJudge[],
  options: {
    readonly trust: Trust;
    /** Parses what is large; default `documentsHere`. */
    readonly documents?: Documents;
    /**
     * What the same keys found at the same paths a moment ago, where a path names the digest of its
     * bundle. A bundle that was verified and had all its documents is not verified again: only its
     * blobs are looked for. Default: each bundle is judged anew.
     */
    readonly known?: readonly FoundBundle[];
  },
  signal: AbortSignal,
): Promise<FoundBundle[]> {
  const { known = [], ...trusted } = options;
  const judged: FoundBundle[] = [];
  for (const one of bundles) {
    const { path } = one;
    if (one.kind === 'unreadable') {
      judged.push({ kind: 'rejected', path, reason: one.reason });
      continue;
    }
    const before = known.find((found) => found.path === path);
    judged.push(
      before !== undefined && hasAllDocuments(before)
        ? { ...before, missing: await findMissing(one.reader, before.bundle, signal) }
        : await judgeOne(one.reader, path, trusted, signal),
    );
  }
  return judged;
}

function hasAllDocuments(found: FoundBundle): found is Extract<FoundBundle, { kind: 'verified' }> {
  if (found.kind !== 'verified') return false;
  const documents = new Set(found.documents);
  return !found.missing.some(({ digest }) => documents.has(digest));
}

/**
 * An approval can replace missing signatures. A signature that does not match means a damaged or
 * altered bundle.
 */
const MAY_BE_APPROVED: ReadonlySet<string> = new Set([
  'bundle/no-key',
  'bundle/revocations-unreadable',
  'bundle/unsigned',
  'bundle/unknown-key',
  'bundle/revoked-key',
  'bundle/threshold',
  'bundle/outside-role',
  'bundle/rotation',
]);

async function judgeOne(
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
