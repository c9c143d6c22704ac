import type { StatusReport } from '../../domain/report/report.ts';
import type { EventRow } from '../../ports/state.ts';
import { bindCommands, type Commands } from '../commands/commands.ts';
import { findBundle } from '../commands/find-bundle.ts';
import { resumeAll } from '../commands/preload-commands.ts';
import { createLoop } from './create-loop.ts';
import { type EngineDependencies, kick } from './loop.ts';
import { run } from './run.ts';

/** The daemon's heart: observes, decides, acts and records until it is told to stop. */
export interface Engine extends Commands {
  /** Runs until `signal` aborts; then cancels what runs and returns. To be called once. */
  run(signal: AbortSignal): Promise<void>;
  /** Asks for a round now. */
  kick(): void;
  /**
   * Monotonic milliseconds since the last effect began, an image was removed or the last round
   * ended, for the watchdog.
   */
  idleMs(): number;
  /**
   * The state of the node as of the last round, with what is under way now; undefined before the
   * first round.
   */
  report(): StatusReport | undefined;
  /**
   * The newest `limit` events of a bundle, named `name@version` or by its digest, oldest first; of
   * all when it is undefined. @throws AppError `engine/no-bundle`, `engine/ambiguous` (`reject`)
   */
  history(bundle: string | undefined, limit: number): readonly EventRow[];
  /** As `Durability.settled`: what a command has recorded outlives a power cut from then on. */
  settled(): Promise<void>;
  /** Takes back that preloads were cancelled, and asks for a round now. */
  resume(): void;
}

/** An engine that has not seen anything yet. */
export function createEngine(deps: EngineDependencies): Engine {
  const loop = createLoop(deps);
  const { clock, store } = deps;
  const wantRound = () => kick(loop);
  return {
    ...bindCommands({ ...deps, ...loop, assessment: () => loop.state.snapshot?.assessment }, wantRound),
    run: (signal) => run(loop, signal),
    kick: wantRound,
    idleMs: () => clock.monotonic() - loop.state.lastSignAt,
    report: loop.status.report,
    history: (bundle, limit) =>
      store.events(bundle === undefined ? undefined : findBundle(store.load().bundles, bundle).bundleId, limit),
    settled: store.settled,
    resume: () => {
      resumeAll(deps);
      wantRound();
    },
  };
}
