import type { CheckDue } from '../../domain/decide/release-effects.ts';
import type { Artifact } from '../../domain/model/bundle.ts';
import type { BundleId, Digest } from '../../domain/model/digest.ts';
import { type ImageContent, usableImages } from '../../domain/model/image.ts';
import type { ContentFault } from '../../domain/model/reason.ts';
import { type ImageToCheck, imagesToCheck } from '../../domain/release/damaged-images.ts';
import { keptBundles } from '../../domain/release/recorded-phase.ts';
import { checkedEvent, uncheckableEvent } from '../../domain/report/events/release-events.ts';
import {
  type CheckCause,
  type ContentChecks,
  type ContentResult,
  type RunningCheck,
  UNCHECKABLE_AFTER,
} from '../../domain/state/checks.ts';
import { latestStamp, type Observed, type StoredBundle } from '../../domain/state/state.ts';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import type { Clock } from '../../platform/clock.ts';
import { oneBuffer } from '../../platform/files/file-access.ts';
import type { Log } from '../../platform/log.ts';
import type { BlobSource, DocumentStore } from '../../ports/blobs.ts';
import type { BootMark, ContentCheck, ContentPort } from '../../ports/runtime.ts';
import type { StateStore } from '../../ports/state.ts';
import type { Part } from '../context.ts';
import type { EventRecorder } from '../reporting/event-recorder.ts';
import type { Jobs } from '../tasks/jobs.ts';
import type { Tasks } from '../tasks/tasks.ts';
import { manifestsOf } from './document-keeper.ts';

const JOB = 'content';

/** After so many failed checks in a row an activation waits no longer. */
const AWAITED_FAILURES = 3;
/** How long a check that an activation waits for gives way to pulls. */
const OVERDUE_MS = 10 * 60_000;
/** Pause before a check is repeated for which the runtime did not answer. */
const AGAIN_MS = 60_000;
/** How often a check that nobody requested tests whether the node is at rest. */
const REST_MS = 1_000;
/** The runtime does not answer. */
const AWAY: ReadonlySet<string> = new Set(['runtime/unreachable', 'runtime/cancelled', 'runtime/stopping']);

interface Order {
  readonly cause: CheckCause;
  readonly images: readonly ImageToCheck[];
}

/**
 * Checks the content of images beside the rounds. It reads and changes nothing. INVARIANTS: one
 * check at a time, one image at a time. A check that nobody requested waits while something is
 * pulled or activated, unless a person waits for its end or an activation has waited for {@link
 * OVERDUE_MS}.
 */
export class ContentChecker implements Part {
  private readonly results = new Map<string, ContentResult>();
  private readonly healed = new Set<string>();
  private readonly healings = new Map<string, number>();
  private running: RunningCheck | undefined;
  /** It is undefined until it is read. */
  private isAwaited: boolean | undefined;
  /** Since when an activation may wait for a check. Monotonic milliseconds. */
  private neededSince: number | undefined;
  /** Failures of due checks in a row. */
  private failures = 0;
  /** Monotonic milliseconds. */
  private failedAt = Number.NEGATIVE_INFINITY;
  private endedAt: number | undefined;
  /** Callers that wait for the end of a check. */
  private waiting = 0;

  constructor(
    private readonly tasks: Tasks,
    private readonly jobs: Jobs,
    private readonly clock: Clock,
    private readonly log: Log,
    private readonly store: StateStore,
    private readonly recorder: EventRecorder,
    private readonly content: ContentPort,
    private readonly documents: DocumentStore,
    private readonly bootMark: BootMark,
  ) {}

  checks(): ContentChecks {
    this.isAwaited ??= this.bootMark.isCheckDue();
    return {
      running: this.running,
      isDue: this.bootMark.isCheckDue(),
      isAwaited: this.isAwaited,
      isOverdue: this.isOverdue(),
      endedAt: this.endedAt,
      results: new Map(this.results),
      healed: [...this.healed],
      healings: new Map(this.healings),
    };
  }

  start({ cause, references }: CheckDue): void {
    const { clock, store, log, jobs } = this;
    if (jobs.isRunning(JOB) || clock.monotonic() - this.failedAt < AGAIN_MS) return;
    const all = imagesToCheck(store.load().bundles);
    const images = references === undefined ? all : all.filter(({ reference }) => references.includes(reference));
    // Images of released pins are not checked again.
    const kept = new Set(all.map(({ reference }) => reference));
    for (const reference of this.healed) if (!kept.has(reference)) this.healed.delete(reference);
    const work = (signal: AbortSignal) => this.check({ cause, images }, signal);
    jobs.start(JOB, work).catch((error: unknown) => {
      if (jobs.areStopped) return;
      this.failures += 1;
      if (this.failures >= AWAITED_FAILURES) {
        // A check stays due over a restart of the daemon.
        this.isAwaited = false;
        this.healed.clear();
      }
      this.failedAt = clock.monotonic();
      log.warn({ err: error }, `The content of images could not be checked: ${reasonOf(error)}; it is tried again`);
    });
  }

  /** Waits for a running check. @throws AppError of the runtime; an abort (the check goes on) */
  async checkNow(only: BundleId | undefined, signal: AbortSignal): Promise<void> {
    this.waiting += 1;
    const work = (ending: AbortSignal) => {
      const images = imagesToCheck(this.store.load().bundles, only);
      for (const { reference } of images) this.healings.delete(reference);
      return this.check({ cause: 'request', images }, ending);
    };
    await this.jobs.startNext(JOB, work, signal).finally(() => {
      this.waiting -= 1;
    });
  }

  healing(reference: string): void {
    this.healings.set(reference, (this.healings.get(reference) ?? 0) + 1);
  }

  /** The image is checked again once it is back. */
  removed(reference: string): void {
    this.results.delete(reference);
    this.healed.add(reference);
  }

  /** Call after a pull. An image that was damaged is checked again. */
  changed(reference: string): void {
    this.results.delete(reference);
    if (this.healings.has(reference)) this.healed.add(reference);
  }

  /** An image that is not listed any more may come back from others. */
  observe({ runtime }: Observed): void {
    if (runtime.kind !== 'reachable') return;
    const listed = new Set(usableImages(runtime.images).flatMap(({ repoDigests }) => repoDigests));
    for (const [reference, { content }] of this.results) {
      if (content.kind === 'broken' && !listed.has(reference)) this.results.delete(reference);
    }
  }

  private isOverdue(): boolean {
    const now = this.clock.monotonic();
    const isNeeded = this.isAwaited === true || this.healed.size > 0;
    this.neededSince = isNeeded ? (this.neededSince ?? now) : undefined;
    return this.neededSince !== undefined && now - this.neededSince >= OVERDUE_MS;
  }

  private async check(order: Order, signal: AbortSignal): Promise<void> {
    this.running = { cause: order.cause, done: 0, total: order.images.length, readBytes: 0 };
    try {
      await this.checkAll(order, signal);
    } finally {
      this.running = undefined;
    }
  }

  private async checkAll({ cause, images }: Order, signal: AbortSignal): Promise<void> {
    const { content, clock, store, recorder } = this;
    const check = content.openContentCheck();
    // What is adopted during a check is pulled after the boot.
    const coversAll = images.length === imagesToCheck(store.load().bundles).length;
    const found: ContentResult[] = [];
    for (const image of images) {
      if (cause !== 'request') await this.untilAtRest(signal);
      const seen = await this.readContent(image, check, signal);
      const result = { at: clock.now(), content: seen, ...this.sinceWhen(image.reference, seen) };
      found.push(result);
      this.results.set(image.reference, result);
      this.healed.delete(image.reference);
      if (seen.kind === 'whole') this.healings.delete(image.reference);
      this.advance({ images: 1 });
    }
    this.failures = 0;
    if (cause === 'unclean-boot') this.endedAt = clock.now();
    if (cause !== 'again' && coversAll) this.isAwaited = false;
    if (isNews(cause, found)) recorder.record(checkedEvent(cause, found));
    const stuck = images.filter((_image, at) => found[at]?.unknownChecks === UNCHECKABLE_AFTER);
    if (stuck.length > 0 && this.bootMark.isCheckDue()) {
      recorder.record(uncheckableEvent(stuck.map(({ reference }) => reference)));
    }
    await this.bootMark.setCheckDue(this.staysDue(found), signal);
  }

  /**
   * Documents that are not kept are not expected. One manifest of an index must be whole: the
   * runtime has chosen it. An image that can't be read is `unknown`.
   * @throws AppError when the runtime does not answer, unless some checks in a row failed so;
   *   whatever aborted `signal`
   */
  private async readContent(
    { reference, digest, layers }: ImageToCheck,
    check: ContentCheck,
    signal: AbortSignal,
  ): Promise<ImageContent> {
    try {
      const manifests = await manifestsOf(digest, this.documents, signal);
      // Documents of other images may be manifests of the same index.
      const all = new Set(layers.map((layer) => layer.digest));
      const isOwn = ({ layers: ownLayers }: (typeof manifests)[number]) =>
        ownLayers === undefined ||
        (ownLayers.size > 0 === layers.length > 0 && [...ownLayers].every((layer) => all.has(layer)));
      const seen: ImageContent[] = [];
      for (const { documents, layers: ownLayers } of manifests.length > 1 ? manifests.filter(isOwn) : manifests) {
        const expected = {
          reference,
          documents,
          layers: layers.filter((layer) => ownLayers?.has(layer.digest) ?? true),
        };
        const content = await check.check(expected, (bytes) => this.advance({ bytes }), signal);
        if (content.kind !== 'broken') return content;
        seen.push(content);
      }
      const faults = (content: ImageContent) => ('faults' in content ? content.faults.length : 0);
      const [least] = seen.sort((a, b) => faults(a) - faults(b));
      return least ?? { kind: 'unknown', reason: { code: 'bundle/inconsistent', message: 'it has no manifest' } };
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof AppError)) throw error;
      // One image that the runtime never answers for must not end each check before the others.
      if (AWAY.has(error.code) && this.failures < AWAITED_FAILURES) throw error;
      return { kind: 'unknown', reason: { code: error.code, message: error.message } };
    }
  }

  /** What earlier checks of an image add. */
  private sinceWhen(reference: string, { kind }: ImageContent): Pick<ContentResult, 'unknownChecks' | 'brokenSince'> {
    const { unknownChecks = 0, brokenSince } = this.results.get(reference) ?? {};
    if (kind === 'unknown') return { unknownChecks: unknownChecks + 1 };
    return kind === 'broken' ? { brokenSince: brokenSince ?? latestStamp(this.store.load().bundles) } : {};
  }

  /** A restart of the daemon must find damage again. */
  private staysDue(found: readonly ContentResult[]): boolean {
    if (found.some(({ content }) => isDamaged(content))) return true;
    if (!this.bootMark.isCheckDue()) return false;
    return imagesToCheck(this.store.load().bundles).some(({ reference }) => {
      const content = this.results.get(reference)?.content;
      return content === undefined || content.kind === 'unknown' || isDamaged(content);
    });
  }

  private async untilAtRest(signal: AbortSignal): Promise<void> {
    while (this.tasks.running().length > 0 && this.waiting === 0 && !this.isOverdue())
      await this.clock.sleep(REST_MS, signal);
  }

  private advance({ bytes = 0, images = 0 }: { bytes?: number; images?: number }): void {
    if (this.running === undefined) return;
    const { done, readBytes } = this.running;
    this.running = { ...this.running, done: done + images, readBytes: readBytes + bytes };
  }
}

/** Unknown images were already reported. */
function isNews(cause: CheckCause, found: readonly ContentResult[]): boolean {
  return cause === 'again' ? found.some(({ content }) => content.kind !== 'unknown') : found.length > 0;
}

function isDamaged(content: ImageContent): boolean {
  return content.kind === 'broken' || (content.kind === 'absent' && content.faults.length > 0);
}

/**
 * Reads the artifacts of kept releases that were complete, or of `only`, by reference. The store
 * removes what has changed, so that the next round has it copied again.
 *
 * @param sources the documents, then the layers on the node's own disk
 * @throws whatever aborted `signal`
 */
export async function checkArtifacts(
  store: StateStore,
  sources: readonly BlobSource[],
  only: BundleId | undefined,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, { readonly content: ImageContent }>> {
  const found = new Map<string, { readonly content: ImageContent }>();
  const kept = keptBundles(store.load().bundles).filter(({ readyAt }) => readyAt !== undefined);
  for (const bundle of kept.filter(({ bundleId }) => only === undefined || bundleId === only)) {
    for (const artifact of bundle.contents.artifacts ?? []) {
      if (found.has(artifact.reference)) continue;
      const faults = await faultsOf(artifact, bundle, sources, signal);
      const content: ImageContent = faults.length === 0 ? { kind: 'whole', by: 'bytes' } : { kind: 'broken', faults };
      found.set(artifact.reference, { content });
    }
  }
  return found;
}

async function faultsOf(
  { digest, config, layers }: Artifact,
  { contents }: StoredBundle,
  sources: readonly BlobSource[],
  signal: AbortSignal,
): Promise<readonly ContentFault[]> {
  const faults: ContentFault[] = [];
  for (const document of [digest, config.digest]) {
    const why = await faultOf(document, sources, signal);
    if (why !== undefined) faults.push(why ?? { kind: 'document-absent', digest: document });
  }
  for (const layer of new Set(layers.flatMap((at) => contents.layers[at]?.digest ?? []))) {
    const why = await faultOf(layer, sources, signal);
    if (why !== undefined) faults.push(why ?? { kind: 'layer-absent', digest: layer });
  }
  return faults;
}

/** Null when it is absent. An attachment may be a file of an artifact, and a file its config. */
async function faultOf(
  digest: Digest,
  sources: readonly BlobSource[],
  signal: AbortSignal,
): Promise<ContentFault | null | undefined> {
  for (const source of sources) {
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
