import { defined } from '../../platform/defined.ts';
import { ACTIONS, type Does } from './actions.ts';
import { CODES, doesAbout } from './codes.ts';
import { EXAMPLES } from './examples.ts';

/** What is known of a code without the node on which it came up. */
export interface Explanation {
  /** `M-12` */
  readonly code: string;
  /** `engine/needs-copy` */
  readonly reason: string;
  /** A sentence without full stop. */
  readonly means: string;
  readonly action: (typeof ACTIONS)[Does]['action'];
  /** What a person with a stick does, as STATUS begins. */
  readonly words: string;
  /** The same as a sentence. */
  readonly asks: string;
  /** What the administrator does: a clause. */
  readonly next: string;
  /** A message with this code; absent where the message is that of an error. */
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
