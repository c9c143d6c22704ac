import type { Adoption } from '../../domain/adoption/unknown-bundles.ts';
import type { Assessment } from '../../domain/assess/assess.ts';
import { type Attachment, bundleTitle, trustedBy } from '../../domain/model/bundle.ts';
import { type BundleId, type Digest, shortDigest } from '../../domain/model/digest.ts';
import type { MediumId } from '../../domain/model/medium.ts';
import { isRetired } from '../../domain/release/recorded-phase.ts';
import type { Kept } from '../../domain/state/memory.ts';
import type { Policy } from '../../domain/state/state.ts';
import type { KeyRotation } from '../../domain/trust/key-rotation.ts';
import { isRelease, noticeEffect, noticeTakings, noticeTitle } from '../../domain/trust/notice.ts';
import { AppError } from '../../platform/app-error.ts';
import { inOrder } from '../../platform/async/in-order.ts';
import { formatBytes, formatCount } from '../../platform/sizes.ts';
import type { BlobUnion, DocumentStore } from '../../ports/blobs.ts';
import type { MediaPort } from '../../ports/media.ts';
import type { StateStore } from '../../ports/state.ts';
import type { EventRecorder } from '../reporting/event-recorder.ts';
import { rotationEvents, rotationOf } from './rotation.ts';

/** So many are written side by side, since each has to be on the disk for good. One of libuv's four threads is left meanwhile. */
const DOCUMENTS_AT_ONCE = 3;

/** What {@link createAdoptEffects} acts on; as in `EffectDependencies`. */
interface AdoptDependencies {
  readonly media: Pick<MediaPort, 'list'>;
  readonly store: Pick<StateStore, 'adopt' | 'load'>;
  readonly documents: DocumentStore;
  readonly source: BlobUnion;
  readonly policy: Policy;
  readonly recorder: EventRecorder;
}

/** The effects of taking up a bundle. Each is idempotent. */
interface AdoptEffects {
  /** Keeps manifests, configs and attachments of a bundle that is to be adopted. @throws AppError of the medium or the store */
  keepDocuments(bundleId: BundleId, assessment: Assessment, signal: AbortSignal): Promise<void>;
  /** Keeps those of adopted bundles that a medium has and the store lacks. @throws AppError of the medium or the store */
  keepDocumentsOn(mediumId: MediumId, signal: AbortSignal): Promise<void>;
  /** Records the bundle, with the keys that it brings. */
  adopt(bundleId: BundleId, assessment: Assessment): void;
  /** How far the documents of bundles are kept that are to be adopted. */
  keeping(): ReadonlyMap<BundleId, Kept>;
}

/** Executors over the given adapters. */
export function createAdoptEffects(deps: AdoptDependencies): AdoptEffects {
  const { media, store, recorder } = deps;
  const keeping = new Map<BundleId, Kept>();

  async function keepDocuments(bundleId: BundleId, { adoptions }: Assessment, signal: AbortSignal): Promise<void> {
    const found = adoptions.find((entry) => entry.found.bundle.bundleId === bundleId)?.found;
    if (found === undefined) return;
    try {
      await keepFound(found, signal, (kept) => void keeping.set(bundleId, kept));
    } catch (error) {
      keeping.delete(bundleId);
      throw error;
    }
  }

  function adopt(bundleId: BundleId, assessment: Assessment): void {
    const adoption = assessment.adoptions.find((entry) => entry.found.bundle.bundleId === bundleId);
    if (adoption === undefined) return;
    const { bundle } = adoption.found;
    const rotation = rotationOf(bundle, deps.policy.trust.threshold);
    const event = {
      kind: 'bundleVerified',
      level: 'info',
      bundleId,
      medium: adoption.label,
      message: `${adoptionMessage(adoption, rotation)}, bundle ${shortDigest(bundleId)}`,
    } as const;
    store.adopt(bundle, recorder.row(event), rotation, adoption.isClaim);
    keeping.delete(bundleId);
    recorder.log(event);
    for (const event of rotationEvents(bundle, rotation)) recorder.tell(event);
  }

  /** What was not there when a bundle was adopted (it lay on another volume), or was lost since, is kept when its medium is read. */
  async function keepDocumentsOn(mediumId: MediumId, signal: AbortSignal): Promise<void> {
    const state = media.list().find((medium) => medium.mediumId === mediumId)?.state;
    for (const found of state?.kind === 'read' ? state.bundles : []) {
      if (found.kind !== 'verified') continue;
      const known = store.load().bundles.find((bundle) => bundle.bundleId === found.bundle.bundleId);
      if (known !== undefined) await keepFound(isRetired(known) ? withoutAttachments(found) : found, signal);
    }
  }

  async function keepFound(
    { bundle, documents, missing }: Adoption['found'],
    signal: AbortSignal,
    onKept: (kept: Kept) => void = () => undefined,
  ): Promise<void> {
    const lacking = new Set(missing.map((blob) => blob.digest));
    const own = documents.filter((digest) => !lacking.has(digest));
    const attachments = (bundle.payload.attachments ?? []).filter(({ digest }) => !lacking.has(digest));
    const total = own.length + attachments.length;
    onKept({ done: 0, total });
    let done = 0;
    const count = () => onKept({ done: ++done, total });
    for await (const _kept of inOrder(own, DOCUMENTS_AT_ONCE, (digest) => keepDocument(digest, signal))) count();
    for (const attachment of attachments) await keepAttachment(attachment, signal).then(count);
  }

  /** Of an attachment only the size was looked at so far. A damaged one keeps nothing else from going on; it is told where it is to be laid. */
  async function keepAttachment({ digest }: Attachment, signal: AbortSignal): Promise<void> {
    try {
      await keepDocument(digest, signal);
    } catch (error) {
      if (!(error instanceof AppError) || error.code !== 'store/blob') throw error;
    }
  }

  async function keepDocument(digest: Digest, signal: AbortSignal): Promise<void> {
    if ((await deps.documents.sizeOf(digest, signal)) !== undefined) return;
    const chunks: Buffer[] = [];
    for await (const chunk of deps.source.read(digest, 0, signal)) chunks.push(chunk);
    await deps.documents.put(digest, Buffer.concat(chunks), signal);
  }

  return {
    keepDocuments,
    keepDocumentsOn,
    adopt,
    keeping: () => new Map(keeping),
  };
}

/** Of a retired release the attachments are not kept. */
function withoutAttachments(found: Adoption['found']): Adoption['found'] {
  const { attachments: _gone, ...payload } = found.bundle.payload;
  return { ...found, bundle: { ...found.bundle, payload } };
}

/** What came with a verified bundle. */
function adoptionMessage({ label, found: { bundle, missing } }: Adoption, rotation: KeyRotation): string {
  const { payload } = bundle;
  if (!isRelease(bundle)) {
    const effect = noticeEffect(noticeTakings(bundle, rotation));
    return `${noticeTitle(payload)} on ${label} verified: ${trustedBy(bundle)}, ${effect}`;
  }
  const { blobs, images, sizeBytes } = payload.totals;
  const found = `${blobs - missing.length} of ${blobs} blobs found`;
  return `${bundleTitle(payload)} on ${label} verified: ${trustedBy(bundle)}, ${found}, ${formatCount(images, 'image')}, ${formatBytes(sizeBytes)}`;
}
