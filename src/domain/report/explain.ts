import { defined } from '../../platform/defined.ts';
import { ACTIONS, type Does } from './actions.ts';
import { CODES, doesAbout } from './codes.ts';
import { EXAMPLES } from './examples.ts';

/** The facts about a code that do not depend on the node. */
export interface Explanation {
  /** The short code, such as `M-12`. */
  readonly code: string;
  /** The reason code, such as `engine/needs-copy`. */
  readonly reason: string;
  /** A sentence without full stop. */
  readonly means: string;
  readonly action: (typeof ACTIONS)[Does]['action'];
  /** The action of a person with a stick, in the first words of STATUS. */
  readonly words: string;
  /** The same action as a sentence. */
  readonly asks: string;
  /** The action of the administrator, as a clause. */
  readonly next: string;
  /** A message with this code. Absent when the message is that of an error. */
  readonly example?: string | undefined;
}

/** All codes, sorted. */
export const EXPLANATIONS: readonly Explanation[] = CODES.map(({ short, code, means, remedy }) => {
  const { action, words, asks } = ACTIONS[doesAbout(code)];
  const next = remedy?.('NAME@VERSION') ?? 'nothing: it ends automatically';
  return defined({ code: short, reason: code, means, action, words, asks, next, example: EXAMPLES[short] });
});

/** @param name `M-12`, `m12` or `engine/needs-copy` */
export function explanationOf(name: string): Explanation | undefined {
  const wanted = name.trim().toLowerCase();
  const short = wanted.replace(/^([a-z])-?(\d\d)$/, '$1-$2');
  return EXPLANATIONS.find(({ code, reason }) => code.toLowerCase() === short || reason === wanted);
}
