import { assertNever } from '../../platform/app-error.ts';
import { sentence } from '../../platform/plain-text.ts';
import type { UnlistedRuntime, UnreachableRuntime } from '../model/runtime-image.ts';

/** How it is told that nothing is known of the runtime's images. */
export interface RuntimeAway {
  /** Of the reason of each bundle that waits for it. */
  readonly code: 'runtime/unreachable' | 'runtime/unlisted';
  /** One word for conditions. */
  readonly word: string;
  /** A whole sentence: what is wrong. */
  readonly what: string;
  /** A whole sentence: what a person does. */
  readonly next: string;
}

/** The words for a runtime whose images are not known now. */
export function runtimeAway(runtime: UnlistedRuntime | UnreachableRuntime): RuntimeAway {
  switch (runtime.kind) {
    case 'unreachable':
      if (runtime.stoppingUnit !== undefined) {
        return {
          code: 'runtime/unreachable',
          word: 'RuntimeStopping',
          what: `${runtime.stoppingUnit} is being stopped, so pulls were broken off.`,
          next: 'They go on by themselves when it runs again.',
        };
      }
      return {
        code: 'runtime/unreachable',
        word: 'RuntimeUnreachable',
        what: `The container runtime does not answer: ${sentence(runtime.reason)}`,
        next: 'Start it; stickpin goes on by itself.',
      };
    case 'unlisted':
      return {
        code: 'runtime/unlisted',
        word: 'ImagesUnknown',
        what: `${runtime.name} answers, but does not list its images: ${sentence(runtime.reason)}`,
        next: "It is asked again by itself; the runtime's own journal tells more.",
      };
    default:
      return assertNever(runtime);
  }
}
