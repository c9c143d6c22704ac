import type { Hold } from '../../../../src/domain/model/condition.ts';
import type { BundleId } from '../../../../src/domain/model/digest.ts';
import type { RuntimeImage } from '../../../../src/domain/model/image.ts';
import type { Effect } from '../../../../src/domain/state/effect.ts';
import type { RunningTask } from '../../../../src/domain/state/memory.ts';
import type { Letter, SpokenBundle } from './table.ts';

/** Puts what a node does and has into the words of the tables. */
export interface Speaker {
  /**
   * `adopt-bundle B`, `start pull etcd B`, `apply-pins A+B`, `record-rolled-back B to A`, `retire A
   * for C`.
   */
  effect(effect: Effect): string;
  /**
   * The releases all of whose images are among these references, then the images left over: `A+B,
   * api C`.
   */
  references(references: readonly string[]): string;
  letter(bundleId: string): Letter | undefined;
  /**
   * The release whose tags all name its images: by those that are the same in all releases it is
   * only one.
   */
  tagged(images: readonly RuntimeImage[]): string;
}

/** What of a report or an assessment explains a phase. */
interface PhaseNote {
  readonly phase: string;
  readonly hold?: Hold | string | undefined;
  readonly reason?: { readonly code: string } | undefined;
  readonly degraded?: { readonly code: string } | undefined;
}

/** `proven`, `held (space)`, `activated (rolled back)`, `active (degraded)`. */
export function phaseWords({ phase, hold, reason, degraded }: PhaseNote): string {
  const isRolledBack = reason?.code === 'engine/rolled-back';
  const why = hold ?? (isRolledBack ? 'rolled back' : degraded && 'degraded');
  return why === undefined ? phase : `${phase} (${why})`;
}

/**
 * Speaks of these releases. An image that several have goes by the first of them; `base`, which all
 * have, by its name alone.
 */
export function createSpeaker(releases: ReadonlyMap<Letter, SpokenBundle>): Speaker {
  const letters = new Map([...releases].map(([letter, { bundleId }]) => [bundleId, letter]));
  const letterOf = (bundleId: BundleId) => letters.get(bundleId) ?? bundleId;
  const holders = new Map<string, { component: string; letters: Letter[] }>();
  for (const [letter, { contents }] of releases) {
    for (const { reference, component = '' } of contents.images) {
      const known = holders.get(reference) ?? { component, letters: [] };
      holders.set(reference, { component, letters: [...known.letters, letter] });
    }
  }
  const image = (reference: string) => {
    const holder = holders.get(reference);
    if (holder === undefined) return reference;
    return holder.component === 'base' ? 'base' : `${holder.component} ${holder.letters[0]}`;
  };
  const listed = (words: readonly string[]) => (words.length === 0 ? 'nothing' : words.join('+'));

  // Of releases with the same images the first one speaks for all.
  const distinct = [...releases].filter(([letter, { contents }]) =>
    contents.images.some(({ reference }) => holders.get(reference)?.letters[0] === letter),
  );
  const references = (all: readonly string[]) => {
    const given = new Set(all);
    const whole = distinct.filter(([, { contents }]) => contents.images.every((one) => given.has(one.reference)));
    const told = new Set(whole.flatMap(([, { contents }]) => contents.images.map((one) => one.reference)));
    const rest = [...given].filter((reference) => !told.has(reference)).map(image);
    if (whole.length === 0 && rest.length > 0) return rest.sort().join(', ');
    return [listed(whole.map(([letter]) => letter)), ...rest.sort()].join(', ');
  };

  const task = (one: RunningTask) => {
    if (one.kind !== 'pull') return `${one.kind} ${letterOf(one.bundleId)}`;
    return `pull ${image(one.reference)}${one.online === true ? ' online' : ''}`;
  };

  return {
    references,
    letter: (bundleId) => letters.get(bundleId as BundleId),
    tagged: (images) => {
      const idOf = new Map(
        images.flatMap(({ repoTags, repoDigests, imageId }) =>
          [...repoTags, ...repoDigests].map((name) => [name, imageId] as const),
        ),
      );
      const isWhole = ({ contents }: SpokenBundle) =>
        contents.images.every(({ reference, tags }) =>
          tags.every((tag) => idOf.has(tag) && idOf.get(tag) === idOf.get(reference)),
        );
      return listed(distinct.filter(([, bundle]) => isWhole(bundle)).map(([letter]) => letter));
    },
    effect: (effect) => {
      switch (effect.kind) {
        case 'mount-medium':
        case 'read-medium':
          return effect.kind;
        case 'apply-pins':
          return `apply-pins ${references(effect.references)}${effect.force ? ' by force' : ''}`;
        case 'apply-mirrors':
          return `apply-mirrors ${effect.repositories.map((name) => name.split('/').at(-1)).join(' ') || 'nothing'}`;
        case 'start':
        case 'cancel':
          return `${effect.kind} ${task(effect.task)}`;
        case 'run-hook':
          return `run-hook ${effect.run.hook} ${letterOf(effect.run.bundleId)}`;
        case 'heal-images':
          return `heal-images ${references(effect.images.map(({ reference }) => reference))}`;
        case 'record-rolled-back':
          return `record-rolled-back ${letterOf(effect.bundleId)} to ${letterOf(effect.to)}`;
        case 'take-over':
          return `take-over ${letterOf(effect.bundleId)} from ${letterOf(effect.from)}`;
        case 'retire': {
          const early = effect.roomFor === undefined ? '' : ` for ${letterOf(effect.roomFor)}`;
          return `retire ${letterOf(effect.bundleId)}${early}${effect.removeImages ? '' : ', images stay'}`;
        }
        default:
          return `${effect.kind} ${letterOf(effect.bundleId)}`;
      }
    },
  };
}
