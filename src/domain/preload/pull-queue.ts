import type { Digest } from '../model/digest.ts';
import type { RunningTask } from '../state/memory.ts';
import { fittingPulls, type PullCandidate } from './pull-schedule.ts';

type PullTask = Extract<RunningTask, { kind: 'pull' }>;

/** A pull that may be started. */
export interface PlannedPull extends PullCandidate {
  readonly task: PullTask;
}

/** Pulls that run, and those that follow them until something else is decided. */
export interface PullQueue {
  /** In the order in which they are to be started, as far as they fit. */
  readonly waiting: readonly PlannedPull[];
  readonly running: readonly PullCandidate[];
  /** Layers that pulls have loaded since the runtime was observed. */
  readonly landed: ReadonlySet<Digest>;
  /** Pulls at once. */
  readonly parallel: number;
  /** As in the schedule. Default false. */
  readonly readsSharedOnce?: boolean;
}

/** Pulls to start, and what is left when they run. */
export interface PullStarts {
  readonly starts: readonly PullTask[];
  readonly pullQueue: PullQueue;
}

/**
 * What follows a pull that worked, without another look at the runtime: it has the layers now that
 * the pull was to bring.
 */
export function afterPull(pullQueue: PullQueue, reference: string): PullStarts {
  const { running, landed } = pullQueue;
  const ended = running.filter((pull) => pull.reference === reference);
  const brought = ended.flatMap(({ missingLayers }) => missingLayers.map(({ digest }) => digest));
  return fill({
    ...pullQueue,
    running: running.filter((pull) => pull.reference !== reference),
    landed: new Set([...landed, ...brought]),
  });
}

/** Starts as many as fit. */
export function fill(pullQueue: PullQueue): PullStarts {
  const starts = fittingPulls(pullQueue);
  if (starts.length === 0) return { starts: [], pullQueue };
  const started = new Set(starts);
  return {
    starts: starts.map(({ task }) => task),
    pullQueue: {
      ...pullQueue,
      waiting: pullQueue.waiting.filter((pull) => !started.has(pull)),
      running: [...pullQueue.running, ...starts],
    },
  };
}
