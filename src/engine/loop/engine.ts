import { assess } from '../../domain/assess/assess.ts';
import { trustedReleases } from '../../domain/assess/assess-order.ts';
import type { Event } from '../../domain/model/condition.ts';
import type { BundleId } from '../../domain/model/digest.ts';
import { documentCheckOf } from '../../domain/release/damaged-images.ts';
import { checkedImages, imageStates } from '../../domain/report/parts/part-reports.ts';
import type { CheckedImage, ImageState, StatusReport } from '../../domain/report/status-schema.ts';
import { Wake } from '../../platform/async/wake.ts';
import { defined } from '../../platform/defined.ts';
import type { EventRow } from '../../ports/state.ts';
import { bundleCalled, findBundle } from '../commands/command-context.ts';
import { Commands } from '../commands/commands.ts';
import type { EngineDependencies } from '../context.ts';
import { Effects } from '../effects/effects.ts';
import { checkArtifacts } from '../keepers/content-checker.ts';
import { EventRecorder } from '../reporting/event-recorder.ts';
import { Jobs } from '../tasks/jobs.ts';

import { readContainers } from './observe.ts';
import { Observer } from './observer.ts';
import { RunningQueue } from './pace.ts';
import { createParts, type Parts } from './parts.ts';
import { Rounds } from './rounds.ts';
import { StatusPublisher } from './status-publisher.ts';

export class Engine {
  /** Commands without an author of their events. */
  readonly commands: Commands;
  /** Requests a round now. */
  readonly kick: () => void;
  private readonly parts: Parts;
  private readonly observer: Observer;
  private readonly rounds: Rounds;
  private readonly status: StatusPublisher;
  /** When there was progress last, in monotonic milliseconds. */
  private aliveAt: number;

  constructor(private readonly ports: EngineDependencies) {
    const { clock, log, store } = ports;
    this.aliveAt = clock.monotonic();
    const wake = new Wake(clock);
    const queue = new RunningQueue();
    this.kick = () => {
      queue.stop();
      wake.kick();
    };
    const context = {
      ...ports,
      recorder: new EventRecorder({ clock, log, store, releaseOf: (bundleId) => this.releaseOf(bundleId) }),
      jobs: new Jobs(clock, this.kick),
      wantRound: this.kick,
      alive: () => {
        this.aliveAt = clock.monotonic();
      },
    };
    this.parts = createParts(
      context,
      () => this.observer.snapshot,
      (task, end) => this.rounds.taskEnded(task, end),
    );
    const effects = new Effects(this.parts);
    this.observer = new Observer(this.parts, effects.tags);
    this.status = new StatusPublisher(this.parts, this.observer);
    this.rounds = new Rounds(this.parts, effects, this.observer, this.status, wake, queue);
    this.commands = this.commandsBy(undefined);
  }

  /** @param by the author, for the history (`EventRow.by`) */
  commandsBy(by: string | undefined): Commands {
    const { parts, observer } = this;
    const { ports, tasks, pinKeeper, hookKeeper, running } = parts;
    return new Commands({
      ports,
      recorder: by === undefined ? ports.recorder : ports.recorder.withAuthor(by),
      by,
      tasks,
      pinKeeper,
      hookKeeper,
      running,
      assessment: () => observer.snapshot?.assessment,
      judge: (stored) => observer.judge(stored),
    });
  }

  /** Runs until `signal` aborts, then cancels all tasks. Call it once. */
  run(signal: AbortSignal): Promise<void> {
    return this.rounds.run(signal);
  }

  /** Monotonic milliseconds since the last progress, for the watchdog. */
  idleMs(): number {
    return this.ports.clock.monotonic() - this.aliveAt;
  }

  /** The report of the last round, with the current tasks. */
  report(): StatusReport | undefined {
    return this.status.report();
  }

  /**
   * Oldest first; undefined for all bundles. @throws AppError `engine/no-bundle`,
   * `engine/ambiguous`
   */
  history(bundle: string | undefined, limit: number): readonly EventRow[] {
    return this.ports.store.events(bundle === undefined ? undefined : this.find(bundle).bundleId, limit);
  }

  /** See `StateStore.newestEvent`. */
  newestEvent(): number {
    return this.ports.store.newestEvent();
  }

  /** Images that are present and pinned as of the last round. @throws as {@link imagesOf} */
  imageStates(bundle: string): readonly ImageState[] {
    const found = this.find(bundle);
    const all = this.observer.snapshot?.assessment.bundles;
    return imageStates(
      found.contents,
      all?.find((entry) => entry.bundle.bundleId === found.bundleId),
    );
  }

  /** References by digest. @throws AppError `engine/no-bundle`, `engine/ambiguous` (`reject`) */
  imagesOf(bundle: string): readonly string[] {
    return this.find(bundle).contents.images.map(({ reference }) => reference);
  }

  /** Logs and records an event. Never throws. */
  note(event: Event, bundle: string | undefined): void {
    const found = bundle === undefined ? undefined : bundleCalled(this.ports.store.load().bundles, bundle);
    this.parts.ports.recorder.record({ ...event, ...defined({ bundleId: found?.bundleId }) });
  }

  /** See `StateStore.settled`. */
  settled(signal: AbortSignal): Promise<void> {
    return this.ports.store.settled(signal);
  }

  /**
   * Also looks again who needs which images. Takes some seconds at most; the next report has the
   * results. @throws AppError of the runtime
   */
  async checkPulls(signal: AbortSignal): Promise<void> {
    this.observer.imageUses.forget();
    await this.parts.pullChecker.checkNow(signal);
    await this.rounds.next(signal);
  }

  /**
   * Checks the content of one release (`name@version` or digest), or of all kept images when
   * `bundle` is empty. Takes as long as reading them.
   * @returns also what becomes of each image, and artifacts
   * @throws AppError `engine/no-bundle`, `engine/ambiguous` (`reject`), `runtime/unreachable`
   */
  async verifyImages(bundle: string, signal: AbortSignal): Promise<readonly CheckedImage[]> {
    const { ports, contentChecker, documentKeeper } = this.parts;
    const only = bundle === '' ? undefined : this.find(bundle).bundleId;
    await contentChecker.checkNow(only, signal);
    const { snapshot } = this.observer;
    // Our own documents of these images may be lost, too.
    if (snapshot !== undefined) {
      const { observed, assessment } = snapshot;
      await documentKeeper.checkNow(documentCheckOf(trustedReleases(assessment), observed), signal);
    }
    const seen = await readContainers(ports, signal);
    const artifacts = await checkArtifacts(ports.store, [ports.documents, ports.layers], only, signal);
    const { results } = contentChecker.checks();
    this.kick();
    const { bundles } = ports.store.load();
    return checkedImages(bundles, new Map([...results, ...artifacts]), this.damagedNow(seen?.containers), only);
  }

  /** See `FloorKeeper.reset`. */
  resetFloors(stream: string, record: () => void): Promise<void> {
    return this.parts.floorKeeper.reset(stream, record);
  }

  /** No I/O. */
  hasFloor(stream: string): boolean {
    return this.parts.floorKeeper.floors().sequences.has(stream);
  }

  private find(bundle: string) {
    return findBundle(this.ports.store.load().bundles, bundle);
  }

  /** Judges the last observation with the containers as they are now. */
  private damagedNow(containers: Awaited<ReturnType<EngineDependencies['containers']['containers']>> | undefined) {
    const { snapshot } = this.observer;
    if (snapshot === undefined) return [];
    const { store, policy } = this.ports;
    const memory = { ...snapshot.memory, contentChecks: this.parts.contentChecker.checks() };
    return assess({ ...snapshot.observed, containers }, memory, store.load(), policy).damaged;
  }

  private releaseOf(bundleId: BundleId) {
    const all = this.observer.snapshot?.assessment.bundles;
    const entry = all?.find(({ bundle }) => bundle.bundleId === bundleId);
    return entry && { version: entry.bundle.payload.version, phase: entry.phase };
  }
}
