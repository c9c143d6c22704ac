import { assertNever } from '../../../platform/app-error.ts';
import { sentence } from '../../../platform/plain-text.ts';
import type { RuntimeSupport } from '../../assess/derive-phase.ts';
import type { UnlistedRuntime, UnreachableRuntime } from '../../model/image.ts';

export interface RuntimeAway {
  /** One word for conditions. */
  readonly word: string;
  /** A whole sentence: what is wrong. */
  readonly what: string;
  /** A whole sentence: what a person does. */
  readonly next: string;
}

export function runtimeAway(runtime: UnlistedRuntime | UnreachableRuntime): RuntimeAway {
  switch (runtime.kind) {
    case 'unreachable':
      if (runtime.stoppingUnit !== undefined) {
        return {
          word: 'RuntimeStopping',
          what: `${runtime.stoppingUnit} is being stopped, so pulls were interrupted.`,
          next: 'They continue automatically when it runs again.',
        };
      }
      if (runtime.isAbsent === true) {
        return {
          word: 'RuntimeUnreachable',
          what: `There is no container runtime: ${sentence(runtime.reason)}`,
          next: 'Install or start one; stickpin continues automatically.',
        };
      }
      return {
        word: 'RuntimeUnreachable',
        what: `The container runtime does not answer: ${sentence(runtime.reason)}`,
        next: 'Start it; stickpin continues automatically.',
      };
    case 'unlisted':
      if (runtime.isStorageDamaged === true) {
        return {
          word: 'StorageDamaged',
          what: `${runtime.name} can't list its images: its storage is damaged.`,
          next: "Drain the node, then run 'systemctl stop crio', 'crio check --quick --repair --force' and 'systemctl start crio'.",
        };
      }
      return {
        word: 'ImagesUnknown',
        what: `${runtime.name} answers, but does not list its images: ${sentence(runtime.reason)}`,
        next: "It is asked again automatically; the runtime's own journal tells more.",
      };
    default:
      return assertNever(runtime);
  }
}

/** Why nobody knows whether stickpin works with a runtime, for `doctor`: a clause. */
export function supportText(support: Extract<RuntimeSupport, { readonly kind: 'untried' | 'unreadable' }>): string {
  switch (support.kind) {
    case 'untried':
      return `stickpin was not tried with ${support.runtime}`;
    case 'unreadable':
      return `the version of ${support.runtime} can't be read; stickpin needs ${support.needed} or newer`;
    default:
      return assertNever(support);
  }
}
