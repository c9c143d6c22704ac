import type { Medium } from '../../../src/domain/model/medium.ts';
import type { StatusReport } from '../../../src/domain/report/status-schema.ts';
import type { RuntimeAdapter } from '../../../src/runtime/runtime-adapter.ts';

/** What happens between the plug and the end of a preload, in this order. */
export const STEPS = ['seen', 'mounted', 'verified', 'first pull', 'last pull', 'pinned', 'ready'] as const;

/** One of {@link STEPS}. */
export type Step = (typeof STEPS)[number];

/** When each step was over (`first pull`: when it began), in milliseconds since 1970. */
export type StepTimes = Partial<Record<Step, number>>;

/** Notes the steps of a preload as the daemon goes through them. */
export interface StepWatch {
  readonly times: StepTimes;
  /** Call when media have changed. */
  media(media: readonly Medium[]): void;
  /** Call with each new report. */
  report(report: StatusReport): void;
  /** The same runtime, whose pulls and pins are noted. Pins count when it reports them. */
  runtime(runtime: RuntimeAdapter): RuntimeAdapter;
}

/** Creates one that has seen nothing. */
export function createStepWatch(): StepWatch {
  const times: StepTimes = {};
  /** The images of the bundle: a pull of anything else is a probe. */
  const references = new Set<string>();
  const now = () => performance.timeOrigin + performance.now();
  const first = (step: Step) => {
    times[step] ??= now();
  };
  return {
    times,
    media: (media) => {
      for (const { state, isDropFolder } of media) {
        if (isDropFolder) continue;
        first('seen');
        if (state.kind !== 'attached' && state.kind !== 'failed') first('mounted');
        if (state.kind !== 'read') continue;
        first('verified');
        for (const found of state.bundles) {
          if (found.kind === 'verified')
            for (const image of found.bundle.contents.images) references.add(image.reference);
        }
      }
    },
    report: ({ bundles }) => {
      if (bundles.some(({ readyAt }) => readyAt !== undefined)) first('ready');
    },
    runtime: (runtime) => ({
      ...runtime,
      pull: async (reference, signal) => {
        if (!references.has(reference)) return runtime.pull(reference, signal);
        first('first pull');
        await runtime.pull(reference, signal);
        times['last pull'] = now();
      },
      observe: async (signal) => {
        const seen = await runtime.observe(signal);
        const pinned = seen.kind === 'reachable' ? seen.images.filter((image) => image.pinned) : [];
        const names = new Set(pinned.flatMap(({ repoDigests }) => repoDigests));
        if (references.size > 0 && [...references].every((reference) => names.has(reference))) first('pinned');
        return seen;
      },
    }),
  };
}
