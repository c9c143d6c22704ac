import type { Fault, Reason } from '../model/reason.ts';
import type { Does } from './actions.ts';
import type { Names } from './names.ts';

/**
 * What is said of something, as sentences, mostly without full stop. A message has them in this
 * order; a line has what to do before the details.
 */
export interface Said {
  /** What is wrong, and why where that is short. Never a command. */
  readonly what: string;
  readonly details?: readonly string[];
  /** What to do, for anybody at the node: never a command. */
  readonly next?: string | undefined;
  /** What to do with a shell, with the files of the node or where bundles are made. */
  readonly run?: string | undefined;
  /** What else can be done. */
  readonly also?: readonly string[];
  /** What a person does, where the entry does not say it for all of its data. */
  readonly does?: Does;
  /** The words of the action say all that `next` says: a line leaves it out. */
  readonly isNextSaid?: boolean;
}

/** Everything that is written of one code. `remedy`: see {@link Remedy}. */
interface Entry<Data> {
  readonly says: (data: Data, names: Names) => Said;
  /** Default: calls support where there is a remedy, else waits. */
  readonly does?: Does;
  readonly remedy?: Remedy;
  /** A person or this node ends it; no other node can. */
  readonly isOwn?: true;
  /** An administrator ends it, as planned: nobody else is called. */
  readonly isForAdmin?: true;
  /** Of a refusal: no other copy of the bundle changes it, and no time. */
  readonly isFinal?: true;
}

/**
 * What a person does, as a clause; absent where it ends automatically. `doctor` and the table in
 * docs/operate.md have it. `release`: as `ocp@4.13.7`.
 */
export type Remedy = (release: string) => string;

export type Conclusion = Exclude<Reason, Fault>;

export type Entries<R extends Conclusion> = {
  readonly [Code in R['code']]: Entry<Extract<R, { readonly code: Code }>['data']>;
};

export function codesWhere<E>(
  entries: Readonly<Record<string, E>>,
  holds: (entry: E) => boolean | undefined,
): ReadonlySet<string> {
  return new Set(Object.entries(entries).flatMap(([code, entry]) => (holds(entry) ? [code] : [])));
}
