import { type Assessment, allBundles } from '../../domain/assess/assess.ts';
import { allIn, type VerifiedBundle } from '../../domain/model/bundle.ts';
import type { BundleId, Digest } from '../../domain/model/digest.ts';
import { repositoryOf } from '../../domain/model/reference.ts';
import type { PastSpeaker } from '../../domain/state/past.ts';
import { approvalsIn, type StoredBundle } from '../../domain/state/state.ts';
import { isApproved } from '../../domain/trust/approval.ts';
import { defined } from '../../platform/defined.ts';
import { documentsOf } from '../blobs/complete-documents.ts';
import { decidedBundle, type EffectContext } from './effect-context.ts';

/** INVARIANT: the record goes last, so that all steps are repeated after a crash. */
export async function forgetRelease(
  context: EffectContext,
  bundleId: BundleId,
  assessment: Assessment,
  signal: AbortSignal,
): Promise<void> {
  const { store, documents, signedBundles } = context.ports;
  // A person may ask for it again at any time.
  const decided = () => decidedBundle(store, bundleId, assessment);
  const bundle = decided();
  if (bundle === undefined) return;
  for (const digest of await spareDocuments(bundle, assessment, context, signal)) {
    if (decided() === undefined) return;
    await documents.remove(digest, signal);
  }
  if (decided() === undefined) return;
  await signedBundles.remove(bundleId, signal);
  if (decided() !== undefined) store.forget(bundleId, speakerOf(bundle, context, assessment));
}

/**
 * Documents on the node's own disk that no other bundle has. Each one comes before the document
 * that names it, so that all that are left are found again after a crash.
 */
async function spareDocuments(
  bundle: StoredBundle,
  assessment: Assessment,
  context: EffectContext,
  signal: AbortSignal,
): Promise<readonly Digest[]> {
  const kept = await context.ports.documents.list(signal);
  const own = (await documentsIn(bundle, context, signal)).filter((digest) => kept.has(digest));
  if (own.length === 0) return [];
  const others = [
    ...allBundles(assessment).filter(({ bundleId }) => bundleId !== bundle.bundleId),
    ...assessment.adoptions.map(({ found }) => found.bundle),
  ];
  const needed = new Set<Digest>();
  for (const other of others) for (const digest of await documentsIn(other, context, signal)) needed.add(digest);
  return own.filter((digest) => !needed.has(digest)).reverse();
}

async function documentsIn(
  { payload, contents }: VerifiedBundle,
  { ports: { documents, alive } }: EffectContext,
  signal: AbortSignal,
): Promise<readonly Digest[]> {
  const all: Digest[] = (payload.attachments ?? []).map(({ digest }) => digest);
  for (const { digest, attached = [] } of contents.images) {
    alive();
    all.push(...(await documentsOf(digest, documents, signal)));
    for (const tag of attached) all.push(tag.digest, ...tag.blobs.map((blob) => blob.digest));
  }
  for (const { digest, config } of contents.artifacts ?? []) all.push(digest, config.digest);
  return [...new Set(all)];
}

/** A release without trust says nothing of others, unless a person may let it in again. */
function speakerOf(
  bundle: StoredBundle,
  { ports: { policy, store } }: EffectContext,
  { bundles }: Assessment,
): PastSpeaker | undefined {
  const withdrawn = bundles.find((entry) => entry.bundle.bundleId === bundle.bundleId)?.withdrawn?.code;
  if (withdrawn !== undefined && withdrawn !== 'trust/rejected') return undefined;
  const { bundleId, payload, contents, signedBy, signerKeyIds, signerRoles, readyAt, resetAt } = bundle;
  const names = allIn(contents).flatMap(({ reference, tags }) => [reference, ...tags]);
  return defined({
    ...{ bundleId, payload, signedBy, signerKeyIds, signerRoles, readyAt, resetAt },
    contents: { images: [...new Set(names.map(repositoryOf))].map((reference) => ({ reference, tags: [] })) },
    isApproved: isApproved(bundle, approvalsIn(store.load(), policy)) || undefined,
  });
}
