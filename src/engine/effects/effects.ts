import type { Assessment } from '../../domain/assess/assess.ts';
import { bundleTitle } from '../../domain/model/bundle.ts';
import type { BundleId } from '../../domain/model/digest.ts';
import type { Event } from '../../domain/model/event.ts';
import { repositoryOf } from '../../domain/model/reference.ts';
import { pullFailureKind } from '../../domain/report/pull-events.ts';
import type { Effect } from '../../domain/state/effect.ts';
import type { Kept, PinsRequested, RunningTask, TagGiven, TaskFailure } from '../../domain/state/memory.ts';
import type { Policy, StoredBundle } from '../../domain/state/state.ts';
import { AppError, assertNever, reasonOf } from '../../platform/app-error.ts';
import type { Clock } from '../../platform/clock.ts';
import { formatCount } from '../../platform/sizes.ts';
import type { BlobUnion, DocumentStore, LayerStore } from '../../ports/blobs.ts';
import type { MediaPort } from '../../ports/media.ts';
import type { ContainersPort, RuntimePort } from '../../ports/runtime.ts';
import type { StateStore } from '../../ports/state.ts';
import type { TransferMeter } from '../../ports/transfers.ts';
import type { FloorKeeper } from '../keepers/floor-keeper.ts';
import type { EventRecorder, EventRecorderDependencies } from '../reporting/event-recorder.ts';
import { createStallWatch } from '../reporting/stall-watch.ts';
import { type FailureLedger, isSettlingTold, retryOf } from '../tasks/failures.ts';
import type { MediaJobs } from '../tasks/media-jobs.ts';
import type { TaskEnd, Tasks } from '../tasks/tasks.ts';
import { createAdoptEffects } from './adopt-effects.ts';
import { createLifeEffects } from './life-effects.ts';
import { createMirrorGate } from './mirror-gate.ts';
import { resumePreloads } from './preload-control.ts';
import { type PullFault, pullImage } from './pull-task.ts';
import { createTagEffects } from './tag-effects.ts';

/** What the executors act on. */
export interface EffectDependencies extends EventRecorderDependencies {
  readonly clock: Clock;
  readonly media: MediaPort;
  readonly runtime: RuntimePort;
  readonly containers: ContainersPort;
  readonly store: StateStore;
  /** Where manifests and configs of adopted bundles are kept. */
  readonly documents: DocumentStore;
  /** Where layers are kept. */
  readonly layers: LayerStore;
  /** Where blobs are found: media and local store together. */
  readonly source: BlobUnion;
  readonly meter: TransferMeter;
  /** How long nothing may move of a pull before it is broken off: `preload.stall`. */
  readonly stallMs: number;
  readonly tasks: Tasks;
  readonly mediaJobs: MediaJobs;
  readonly policy: Policy;
  readonly recorder: EventRecorder;
  readonly floorKeeper: FloorKeeper;
  /** Called whenever it is seen that an effect goes on, for the watchdog. */
  readonly alive: () => void;
}

/** Performs effects. Each is idempotent. */
export interface Effects {
  /** @throws AppError of the adapter that did it */
  execute(effect: Effect, assessment: Assessment, signal: AbortSignal): Promise<void>;
  /** How far the documents of bundles are kept that are to be adopted. */
  keeping(): ReadonlyMap<BundleId, Kept>;
  /** What was last asked of the runtime in terms of pins. */
  pinsRequested(): PinsRequested | undefined;
  /** References whose pins were asked for in vain and that were not pulled since. */
  unenforcedPins(): readonly string[];
  /** When which tags were given to their images again. */
  tagsGiven(): readonly TagGiven[];
  /** Tells of tags that are left alone from now on, and forgets of {@link Effects.tagsGiven} what does not matter any more. */
  tagsSeen(assessment: Assessment): void;
  /** All pins hold: what is lost from now on is asked for anew, without the pauses of before. */
  pinsHeld(): void;
}

/** The first of several failures that are the same. That they do not end is told of the bundle. */
function isWorthTelling(
  { reason, retry }: PullFault,
  { attempts }: Pick<TaskFailure, 'attempts'>,
  before: TaskFailure | undefined,
): boolean {
  // Told all together, see refusals.ts.
  if (reason.code === 'runtime/policy') return false;
  if (retry === 'settling') return isSettlingTold(attempts);
  return before?.reason.message !== reason.message;
}

/** The catalog entry of a damaged blob names every field, and journalctl prints the bare name of one that is lacking. */
const NOT_KNOWN = 'not known';

/** What is told of a pull that failed: of the blob, where one is to blame, with its file; else of the image. */
function failureEvents(
  { reason, blob }: PullFault,
  again: string,
  about: Pick<Event, 'bundleId' | 'digest' | 'medium' | 'image'>,
): Event {
  const where = [
    ...(blob?.file === undefined ? [] : [`File on ${blob.medium}: ${blob.file}.`]),
    ...(blob === undefined ? [] : [`Image: ${about.image}.`]),
  ];
  return {
    ...about,
    kind: pullFailureKind(reason.code),
    level: 'warn',
    message: [`${reason.message}${again}`, ...where].join(' '),
    ...(blob !== undefined && { digest: blob.digest, file: blob.file ?? NOT_KNOWN }),
    ...(blob?.medium !== undefined && { medium: blob.medium }),
  };
}

function plainlyPulled(reference: string): Pick<Event, 'level' | 'message'> {
  return { level: 'info', message: `Pulled ${reference}` };
}

/** How often pins are asked for before it counts as in vain. */
const ATTEMPTS_IN_VAIN = 2;

/** Executors over the given adapters. */
export function createEffects(deps: EffectDependencies & { readonly failures: FailureLedger }): Effects {
  const { clock, media, runtime, store, recorder, failures, tasks } = deps;
  const stalls = createStallWatch(deps);
  const adoption = createAdoptEffects(deps);
  const life = createLifeEffects(deps);
  const tags = createTagEffects(deps);
  const gate = createMirrorGate(deps);
  let pinsRequested: PinsRequested | undefined;
  /** `true` once it was pulled: that is tried once. */
  const inVain = new Map<string, boolean>();
  /** Bundles of which it was told that an image came from elsewhere. */
  const toldElsewhere = new Set<BundleId>();

  async function execute(effect: Effect, assessment: Assessment, signal: AbortSignal): Promise<void> {
    switch (effect.kind) {
      case 'mount-medium':
        return beside(effect, assessment, (inner) => media.mount(effect.mediumId, inner));
      case 'read-medium':
        return beside(effect, assessment, async (inner) => {
          await media.read(effect.mediumId, inner);
          await adoption.keepDocumentsOn(effect.mediumId, inner);
        });
      case 'keep-documents':
        return beside(effect, assessment, (inner) => adoption.keepDocuments(effect.bundleId, assessment, inner));
      case 'adopt-bundle':
        return adoption.adopt(effect.bundleId, assessment);
      case 'apply-pins':
        return applyPins(effect, signal);
      case 'apply-mirrors':
        gate.written(effect.repositories);
        return runtime.applyMirrors(
          effect.repositories.map((repository) => ({ repository })),
          signal,
        );
      case 'record-signers':
        return recordSigners(effect);
      case 'record-bad-blobs':
        return store.setBadBlobs(effect.bundleId, effect.badBlobs);
      case 'record-ready':
        return recordReady(effect.bundleId);
      case 'resume-preload':
        return resumePreloads([effect.bundleId], store, clock.now());
      case 'cancel':
        return tasks.cancel(effect.task);
      case 'start':
        return start(effect.task, assessment);
      case 'record-soak':
      case 'record-active':
      case 'record-proven':
      case 'record-rolled-back':
      case 'request-activation':
      case 'take-over':
      case 'retire':
      case 'remove-images':
        return life.execute(effect, signal);
      default:
        return assertNever(effect);
    }
  }

  function beside(
    effect: Extract<Effect, { kind: 'mount-medium' | 'read-medium' | 'keep-documents' }>,
    assessment: Assessment,
    work: (signal: AbortSignal) => Promise<void>,
  ): void {
    deps.mediaJobs.start(effect.mediumId, work, (error) => recorder.tellFailure(effect, assessment, error));
  }

  async function applyPins(effect: Extract<Effect, { kind: 'apply-pins' }>, signal: AbortSignal): Promise<void> {
    const { references, unpinned, force } = effect;
    await runtime.applyPins(references, { force }, signal);
    const isSame = pinsRequested?.unpinned === unpinned && unpinned !== '';
    const attempts = isSame ? (pinsRequested?.attempts ?? 0) + 1 : 1;
    pinsRequested = { references, unpinned, attempts, at: clock.now() };
    if (attempts < ATTEMPTS_IN_VAIN) return;
    for (const reference of unpinned.split('\n')) if (!inVain.has(reference)) inVain.set(reference, false);
  }

  function recordSigners(effect: Extract<Effect, { kind: 'record-signers' }>): void {
    const bundle = bundleOf(effect.bundleId);
    if (bundle === undefined) return;
    const { bundleId, signedBy } = effect;
    const message = `${bundleTitle(bundle.payload)} is signed by ${signedBy.join(', ')}`;
    const event = { kind: 'bundleVerified', level: 'info', bundleId, message } as const;
    store.setSigners(bundleId, effect, recorder.row(event));
    recorder.log(event);
  }

  function recordReady(bundleId: BundleId): void {
    const bundle = bundleOf(bundleId);
    if (bundle === undefined || bundle.readyAt !== undefined) return;
    const event = {
      kind: 'bundleReady',
      level: 'info',
      bundleId,
      message: `${bundleTitle(bundle.payload)} is ready: ${formatCount(bundle.contents.images.length, 'image')} present and pinned`,
    } as const;
    store.mark(bundleId, 'readyAt', recorder.row(event));
    recorder.log(event);
  }

  function start(task: RunningTask, assessment: Assessment): void {
    const bundle = bundleOf(task.bundleId);
    // A round that waited for the disk has decided before it was cancelled.
    if (bundle === undefined || (task.kind === 'pull' && bundle.cancelled !== undefined)) return;
    const work = task.kind === 'pull' ? pull(task, bundle, assessment) : moveTags(task, bundle, assessment);
    tasks.start(task, async (signal) => {
      try {
        await store.settled();
        signal.throwIfAborted();
        return await work(signal);
      } catch (error) {
        if (signal.aborted) return 'ended';
        const code = error instanceof AppError ? error.code : 'engine/task';
        const reason = { code, message: reasonOf(error) };
        failures.note(task, reason, retryOf(reason), clock.now());
        deps.log.error({ err: error, bundleId: task.bundleId }, `A ${task.kind} failed: ${reasonOf(error)}`);
        return 'ended';
      }
    });
  }

  function moveTags(task: Exclude<RunningTask, { kind: 'pull' }>, bundle: StoredBundle, assessment: Assessment) {
    const work = tags.workOf(task, bundle, assessment);
    return (signal: AbortSignal): Promise<TaskEnd> => work(signal).then(() => 'ended');
  }

  function pull(task: Extract<RunningTask, { kind: 'pull' }>, bundle: StoredBundle, assessment: Assessment) {
    return async (signal: AbortSignal): Promise<TaskEnd> => {
      const image = bundle.contents.images.find((candidate) => candidate.reference === task.reference);
      if (image === undefined) return 'ended';
      const medium = assessment.bundles.find((entry) => entry.bundle.bundleId === bundle.bundleId)?.media[0];
      const about = { bundleId: bundle.bundleId, digest: image.digest, ...(medium !== undefined && { medium }) };
      if (task.online !== true) await passGate(image.reference, assessment, about, signal);
      if (!assessment.life.foreign.has(image.digest)) {
        noteBrought(image.reference, true);
        await store.settled();
      }
      const end = await pullImage(image, bundle, { ...deps, stalls, online: task.online === true }, signal);
      if (end.kind === 'interrupted') return 'ended';
      const before = failures.last(task);
      if (end.kind === 'pulled') {
        if (inVain.has(image.reference)) inVain.set(image.reference, true);
        // Done means that the runtime lists it; then this is forgotten. Otherwise it would be pulled again and again without a pause.
        const message = `${image.reference} was pulled, but the runtime does not list it`;
        failures.note(task, { code: 'engine/not-listed', message }, 'backoff', clock.now());
        if (before?.reason.code === 'engine/not-listed') return 'ended';
        const event = end.isElsewhere ? pulledElsewhere(image.reference, bundle) : plainlyPulled(image.reference);
        recorder.tell({ kind: 'imagePulled', ...event, ...about });
        return 'pulled';
      }
      noteBrought(image.reference, false);
      const failure = failures.note(task, end.reason, end.retry, clock.now(), end.blob);
      if (!isWorthTelling(end, failure, before)) return 'ended';
      const again =
        end.retry === 'backoff' || end.retry === 'settling' ? ` (try ${failure.attempts}, tried again by itself)` : '';
      recorder.tell(failureEvents(end, again, { ...about, image: image.reference }));
      return 'ended';
    };
  }

  /** A pull that came before the runtime has its mirrors would pass the stick by wherever another registry answers. */
  async function passGate(
    reference: string,
    { mirrors }: Assessment,
    about: Pick<Event, 'bundleId'>,
    signal: AbortSignal,
  ): Promise<void> {
    if ((await gate.pass(repositoryOf(reference), mirrors, signal)) === 'open') return;
    const message =
      "The runtime has not come to stickpin's registry although its mirrors are written; it is pulled from all the same, and other registries may answer. Look for a reload that failed in the runtime's own journal";
    recorder.tell({ kind: pullFailureKind('engine/mirror-unused'), level: 'warn', message, ...about });
  }

  /** Nothing is wrong with the image, but the stick was passed by. A warning once for each bundle: whatever the cause, it is the same for all. */
  function pulledElsewhere(reference: string, { bundleId }: StoredBundle): Pick<Event, 'level' | 'message'> {
    const level = toldElsewhere.has(bundleId) ? 'info' : 'warn';
    toldElsewhere.add(bundleId);
    return {
      level,
      message: `Pulled ${reference}, though not from stickpin's registry: the runtime had not taken up its mirror configuration yet, or something in it goes before, and it took the image from another source. It is the right one, since it goes by its digest`,
    };
  }

  /** What can't be noted counts as not brought, and is never removed: that costs space, and nothing else. */
  function noteBrought(reference: string, isPulledByUs: boolean): void {
    try {
      store.setPulledByUs(reference, isPulledByUs);
    } catch (error) {
      deps.log.warn({ err: error }, `That ${reference} is ours to remove could not be noted: ${reasonOf(error)}`);
    }
  }

  function bundleOf(bundleId: BundleId): StoredBundle | undefined {
    return store.load().bundles.find((bundle) => bundle.bundleId === bundleId);
  }

  return {
    execute,
    keeping: adoption.keeping,
    pinsRequested: () => pinsRequested,
    unenforcedPins: () => [...inVain].flatMap(([reference, wasPulled]) => (wasPulled ? [] : [reference])),
    tagsGiven: tags.given,
    tagsSeen: tags.seen,
    pinsHeld: () => {
      if (pinsRequested !== undefined) pinsRequested = { ...pinsRequested, unpinned: '', attempts: 0 };
    },
  };
}
