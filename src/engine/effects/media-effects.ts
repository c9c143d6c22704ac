import type { Adoption } from '../../domain/adoption/unknown-bundles.ts';
import type { Assessment } from '../../domain/assess/assess.ts';
import type { Attachment } from '../../domain/model/bundle.ts';
import type { BundleId, Digest } from '../../domain/model/digest.ts';
import type { MediumId } from '../../domain/model/medium.ts';
import { isRetired } from '../../domain/release/recorded-phase.ts';
import { isKept, type Kept } from '../../domain/state/memory.ts';
import { NO_ROTATION } from '../../domain/trust/approval.ts';
import { AppError } from '../../platform/app-error.ts';
import { inOrder } from '../../platform/async/concurrency.ts';
import type { EngineContext } from '../context.ts';
import { rotationOf } from '../keepers/rebuild-keeper.ts';
import { adoptedEvent, rotationEvents, warningEvents } from '../reporting/events.ts';
import type { EffectContext, EffectOf } from './effect-context.ts';

/** Mounts or reads a medium, beside the rounds. */
export function openMedium(
  context: EffectContext,
  effect: EffectOf<'mount-medium' | 'read-medium'>,
  assessment: Assessment,
): void {
  const { media, recorder } = context.ports;
  const { mediumId } = effect;
  const work = async (signal: AbortSignal) => {
    if (effect.kind === 'mount-medium') return media.mount(mediumId, signal);
    await media.read(mediumId, signal);
    await keepDocumentsOn(context, mediumId, signal);
  };
  context.mediaJobs.start(mediumId, work, (error) => recorder.recordFailure(effect, assessment, error));
}

/** Keeps what was on another volume at the adoption, or was lost later. @throws AppError */
async function keepDocumentsOn(context: EffectContext, mediumId: MediumId, signal: AbortSignal): Promise<void> {
  const { media, store } = context.ports;
  const state = media.list().find((medium) => medium.mediumId === mediumId)?.state;
  for (const found of state?.kind === 'read' ? state.bundles : []) {
    if (found.kind !== 'verified') continue;
    const known = store.load().bundles.find((bundle) => bundle.bundleId === found.bundle.bundleId);
    if (known === undefined) continue;
    await keepDocuments(isRetired(known) ? withoutAttachments(found) : found, context.ports, signal);
  }
}

/** How long a medium keeps documents without a round, which judges its bundles again. */
const KEEP_MS = 1_000;

/**
 * Keeps documents of many bundles in one job, since each round costs as much as there are bundles.
 */
export function keepForAdoptions(
  context: EffectContext,
  effect: EffectOf<'keep-documents'>,
  assessment: Assessment,
): void {
  const { recorder, clock } = context.ports;
  const { mediumId } = effect;
  const ofMedium = assessment.adoptions.filter((adoption) => adoption.mediumId === mediumId);
  let { bundleId } = effect;
  const work = async (signal: AbortSignal) => {
    const startedAt = clock.monotonic();
    for (const { found } of ofMedium.slice(ofMedium.findIndex((one) => one.found.bundle.bundleId === bundleId))) {
      bundleId = found.bundle.bundleId;
      if (!isKept(context.keeping.get(bundleId))) await keepForAdoption(context, found, signal);
      if (clock.monotonic() - startedAt >= KEEP_MS) return;
    }
  };
  context.mediaJobs.start(mediumId, work, (error) =>
    recorder.recordFailure({ ...effect, bundleId }, assessment, error),
  );
}

async function keepForAdoption(context: EffectContext, found: Adoption['found'], signal: AbortSignal): Promise<void> {
  const { bundleId } = found.bundle;
  try {
    await context.ports.signedBundles.keep(bundleId, signal);
    await keepDocuments(found, context.ports, signal, (kept) => void context.keeping.set(bundleId, kept));
  } catch (error) {
    context.keeping.delete(bundleId);
    throw error;
  }
}

/**
 * Adopts a bundle, in one transaction with the keys that it adds or revokes. INVARIANT: `decide()`
 * puts `keep-documents` first. So each bundle in the database has its documents on the node's own
 * disk, as far as a medium had them, and what proves its signature.
 */
export function adopt(context: EffectContext, bundleId: BundleId, { adoptions }: Assessment): void {
  const { policy, trust, store, recorder } = context.ports;
  const adoption = adoptions.find((one) => one.found.bundle.bundleId === bundleId);
  if (adoption === undefined) return;
  const { bundle } = adoption.found;
  const { threshold } = policy.trust;
  const rules = { threshold, roles: trust.roles(), revocations: trust.revocations() };
  const { rotation: before, past = [] } = store.load();
  // The keys of a forgotten release stayed, or a person took them away since.
  const isBack = past.some((one) => one.bundleId === bundleId);
  const rotation = isBack ? NO_ROTATION : rotationOf(bundle, rules, before);
  const event = adoptedEvent(adoption, rotation);
  store.adopt(bundle, recorder.row(event), rotation, adoption.isClaim);
  context.keeping.delete(bundleId);
  recorder.log(event);
  for (const event of [...warningEvents(bundle), ...rotationEvents(bundle, rotation)]) recorder.record(event);
}

/** Each write syncs the disk and holds one of libuv's four threads; one stays free. */
const DOCUMENTS_AT_ONCE = 3;

/**
 * Copies documents and attachments to the store, as far as the medium has them and the store has
 * not.
 * @param onKept called at the start and after each document
 * @throws AppError of the medium or the store; whatever aborted `signal`
 */
async function keepDocuments(
  { bundle, documents, missing }: Adoption['found'],
  ports: EngineContext,
  signal: AbortSignal,
  onKept: (kept: Kept) => void = () => undefined,
): Promise<void> {
  const lacking = new Set(missing.map((blob) => blob.digest));
  const ofBundle = documents.filter((digest) => !lacking.has(digest));
  const attachments = (bundle.payload.attachments ?? []).filter(({ digest }) => !lacking.has(digest));
  const total = ofBundle.length + attachments.length;
  onKept({ done: 0, total });
  let done = 0;
  const count = () => onKept({ done: ++done, total });
  for await (const _kept of inOrder(ofBundle, DOCUMENTS_AT_ONCE, (digest) => keepDocument(digest, ports, signal)))
    count();
  for (const attachment of attachments) await keepAttachment(attachment, ports, signal).then(count);
}

/** Attachments of a retired release are not kept. */
function withoutAttachments(found: Adoption['found']): Adoption['found'] {
  const { attachments: _gone, ...payload } = found.bundle.payload;
  return { ...found, bundle: { ...found.bundle, payload } };
}

/** Ignores a wrong digest, which is reported when the files are installed. */
async function keepAttachment(
  { digest, size }: Attachment,
  { documents, source }: EngineContext,
  signal: AbortSignal,
): Promise<void> {
  try {
    if ((await documents.sizeOf(digest, signal)) !== undefined) return;
    await documents.putStream(
      { digest, sizeBytes: size },
      (startByte) => source.read(digest, startByte, signal),
      signal,
    );
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== 'store/blob') throw error;
  }
}

async function keepDocument(digest: Digest, { documents, source }: EngineContext, signal: AbortSignal): Promise<void> {
  if ((await documents.sizeOf(digest, signal)) !== undefined) return;
  const chunks: Buffer[] = [];
  for await (const chunk of source.read(digest, 0, signal)) chunks.push(chunk);
  await documents.put(digest, Buffer.concat(chunks), signal);
}
