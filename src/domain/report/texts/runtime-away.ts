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
  const away = (word: string, what: string, next: string): RuntimeAway => ({ word, what: sentence(what), next });
  const { reason } = runtime;
  if (runtime.kind === 'unlisted') {
    return runtime.isStorageDamaged === true
      ? away(
          'StorageDamaged',
          `${runtime.name} can't list its images: its storage is damaged`,
          "Drain the node, then run 'systemctl stop crio', 'crio check --quick --repair --force' and 'systemctl start crio'.",
        )
      : away(
          'ImagesUnknown',
          `${runtime.name} answers, but does not list its images: ${reason}`,
          "They are read again automatically; see the runtime's own journal.",
        );
  }
  if (runtime.stoppingUnit !== undefined) {
    const what = `${runtime.stoppingUnit} is being stopped, so pulls were interrupted`;
    return away('RuntimeStopping', what, 'They continue automatically when it runs again.');
  }
  return runtime.isAbsent === true
    ? away(
        'RuntimeUnreachable',
        `There is no container runtime: ${reason}`,
        'Install or start one; stickpin continues automatically.',
      )
    : away(
        'RuntimeUnreachable',
        `The container runtime does not answer: ${reason}`,
        'Start it; stickpin continues automatically.',
      );
}

/** Why nobody knows whether stickpin works with a runtime, for `doctor`: a clause. */
export function supportText(support: Extract<RuntimeSupport, { readonly kind: 'untried' | 'unreadable' }>): string {
  return support.kind === 'untried'
    ? `stickpin was not tried with ${support.runtime}`
    : `the version of ${support.runtime} can't be read; stickpin needs ${support.needed} or newer`;
}
