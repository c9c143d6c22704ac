import { assess } from '../../domain/assess/assess.ts';
import { trustedReleases } from '../../domain/assess/assess-order.ts';
import type { Event } from '../../domain/model/condition.ts';
import { documentCheckOf } from '../../domain/release/damaged-images.ts';
import { checkedImages, imageStates } from '../../domain/report/parts/part-reports.ts';
import type { CheckedImage, ImageState, StatusReport } from '../../domain/report/status-schema.ts';
import type { Stored } from '../../domain/state/state.ts';
import type { EventRow } from '../../ports/state.ts';
import { checkArtifacts } from '../blobs/check-artifacts.ts';
import { bundleCalled, type CommandContext, findBundle } from '../commands/command-context.ts';
import { pauseCommands } from '../commands/pause-commands.ts';
import { activationCommands, preloadCommands, proofCommands, resumeAll } from '../commands/release-commands.ts';
import { unpinCommands } from '../commands/unpin-commands.ts';
import { verdictCommands } from '../commands/verdict-commands.ts';
import type { EngineDependencies } from '../context.ts';
import { createLoop, type Loop } from './loop.ts';
import { readContainers } from './observe.ts';
import { followTask } from './round.ts';
import { nextRound, run } from './run.ts';

export interface Engine extends Commands {
  /** The same commands, with an author of their events (`EventRow.by`). */
  commandsBy(by: string): Commands;
  /** Runs until `signal` aborts, then cancels all tasks. Call it once. */
  run(signal: AbortSignal): Promise<void>;
  /** Requests a round now. */
  kick(): void;
  /** Monotonic milliseconds since the last progress, for the watchdog. */
  idleMs(): number;
  /** As of the last round, with the current tasks. */
  report(): StatusReport | undefined;
  /**
   * Oldest first; undefined for all bundles. @throws AppError `engine/no-bundle`,
   * `engine/ambiguous`
   */
  history(bundle: string | undefined, limit: number): readonly EventRow[];
  /** See `StateStore.newestEvent`. */
  newestEvent(): number;
  /** Images that are present and pinned as of the last round. @throws as {@link imagesOf} */
  imageStates(bundle: string): readonly ImageState[];
  /** References by digest. @throws AppError `engine/no-bundle`, `engine/ambiguous` (`reject`) */
  imagesOf(bundle: string): readonly string[];
  /** Logs and records an event. Never throws. */
  note(event: Event, bundle: string | undefined): void;
  /** See `StateStore.settled`. */
  settled(signal: AbortSignal): Promise<void>;
  /**
   * Also looks again who needs which images. Takes some seconds at most; the next report has the
   * results. @throws AppError of the runtime
   */
  checkPulls(signal: AbortSignal): Promise<void>;
  /**
   * Checks the content of one release (`name@version` or digest), or of all kept images when
   * `bundle` is empty. Takes as long as reading them.
   * @throws AppError `engine/no-bundle`, `engine/ambiguous` (`reject`), `runtime/unreachable`
   */
  verifyImages(bundle: string, signal: AbortSignal): Promise<readonly CheckedImage[]>;
  resume(): void;
  /** See `FloorKeeper.reset`. */
  resetFloors(stream: string, record: () => void): Promise<void>;
  /** No I/O. */
  hasFloor(stream: string): boolean;
}

export function createEngine(deps: EngineDependencies): Engine {
  const loop: Loop = createLoop(deps, (task, end) => followTask(loop, task, end));
  const { clock, store } = deps;
  const { wantRound, recorder } = loop.context;
  const context = {
    ...loop.context,
    ...loop,
    assessment: () => loop.state.snapshot?.assessment,
    judge: (stored: Stored) => {
      const { snapshot } = loop.state;
      return snapshot && assess(snapshot.observed, snapshot.memory, stored, deps.policy);
    },
  };
  return {
    ...bindCommands(context, wantRound),
    commandsBy: (by) => bindCommands(context, wantRound, by),
    run: (signal) => run(loop, signal),
    kick: wantRound,
    idleMs: () => clock.monotonic() - loop.state.lastSignAt,
    report: () => loop.status.report(),
    imagesOf: (bundle) => findBundle(store.load().bundles, bundle).contents.images.map(({ reference }) => reference),
    imageStates: (bundle) => {
      const found = findBundle(store.load().bundles, bundle);
      const seen = loop.state.snapshot?.assessment.bundles.find((entry) => entry.bundle.bundleId === found.bundleId);
      return imageStates(found.contents, seen);
    },
    newestEvent: () => store.newestEvent(),
    history: (bundle, limit) =>
      store.events(bundle === undefined ? undefined : findBundle(store.load().bundles, bundle).bundleId, limit),
    note: (event, bundle) => recorder.record({ ...event, ...bundleNamed(bundle, store) }),
    settled: store.settled,
    checkPulls: async (signal) => {
      loop.imageUses.forget();
      await loop.pullChecker.checkNow(signal);
      await nextRound(loop, signal);
    },
    verifyImages: (bundle, signal) => verifyImages(loop, bundle, signal),
    resetFloors: (stream, record) => loop.floorKeeper.reset(stream, record),
    hasFloor: (stream) => loop.floorKeeper.floors().sequences.has(stream),
    resume: () => {
      resumeAll(deps);
      wantRound();
    },
  };
}

function bundleNamed(
  name: string | undefined,
  store: Pick<EngineDependencies['store'], 'load'>,
): Pick<Event, 'bundleId'> {
  const found = name === undefined ? undefined : bundleCalled(store.load().bundles, name);
  return found === undefined ? {} : { bundleId: found.bundleId };
}

/** With what becomes of each image, and of artifacts. @throws as `Engine.verifyImages` */
async function verifyImages(loop: Loop, bundle: string, signal: AbortSignal): Promise<readonly CheckedImage[]> {
  const { context, contentChecker } = loop;
  const only = bundle === '' ? undefined : findBundle(context.store.load().bundles, bundle).bundleId;
  await contentChecker.checkNow(only, signal);
  await checkDocuments(loop, signal);
  const seen = await readContainers(context, signal);
  const artifacts = await checkArtifacts(context, only, signal);
  const { results } = contentChecker.checks();
  loop.context.wantRound();
  const { bundles } = context.store.load();
  return checkedImages(bundles, new Map([...results, ...artifacts]), damagedNow(loop, seen?.containers), only);
}

/** Our own documents of these images may be lost, too. */
async function checkDocuments({ documentKeeper, state }: Loop, signal: AbortSignal): Promise<void> {
  if (state.snapshot === undefined) return;
  const { observed, assessment } = state.snapshot;
  await documentKeeper.checkNow(documentCheckOf(trustedReleases(assessment), observed), signal);
}

/** By the last observation, with the containers as they are now. */
function damagedNow(
  { context, state, contentChecker }: Loop,
  containers: Awaited<ReturnType<Loop['context']['containers']['containers']>> | undefined,
) {
  const { snapshot } = state;
  if (snapshot === undefined) return [];
  const memory = { ...snapshot.memory, contentChecks: contentChecker.checks() };
  return assess({ ...snapshot.observed, containers }, memory, context.store.load(), context.policy).damaged;
}

const COMMANDS = {
  ...pauseCommands,
  ...activationCommands,
  ...unpinCommands,
  ...preloadCommands,
  ...verdictCommands,
  ...proofCommands,
};

/** Commands only record; the next round acts. A refusal is an AppError `engine/…` (`reject`). */
export type Commands = {
  readonly [Name in CommandName]: (typeof COMMANDS)[Name] extends (context: never, ...rest: infer Rest) => infer Result
    ? (...rest: Rest) => Result
    : never;
};

export type CommandName = keyof typeof COMMANDS;

export const COMMAND_NAMES = Object.keys(COMMANDS) as readonly CommandName[];

/** `onDone` is called after each command, also a failed one. `by`: the author, for the history. */
function bindCommands(given: CommandContext, onDone: () => void, by?: string): Commands {
  const context = by === undefined ? given : { ...given, by, recorder: given.recorder.withAuthor(by) };
  const bound = COMMAND_NAMES.map((name) => {
    const command = COMMANDS[name] as (context: CommandContext, ...rest: readonly unknown[]) => unknown;
    return [name, (...rest: readonly unknown[]) => followed(() => command(context, ...rest), onDone)];
  });
  return Object.fromEntries(bound) as Commands;
}

/** Calls `onDone` at once when `work` is synchronous. */
function followed(work: () => unknown, onDone: () => void): unknown {
  let done: unknown;
  try {
    done = work();
  } catch (error) {
    onDone();
    throw error;
  }
  if (done instanceof Promise) return done.finally(onDone);
  onDone();
  return done;
}
