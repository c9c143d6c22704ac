import type { MessageKind } from '../../platform/message-ids.ts';
import type { ActivationHold } from '../activation/gates.ts';
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

/** What is known of a code without its data. */
export interface Known {
  /** `M-12`: people read it out. A number never changes, and is not used again. */
  readonly short: string;
  /** A sentence without full stop. */
  readonly means: string;
  /** Default: calls support where there is a remedy, else waits. */
  readonly does?: Does;
  /** Absent where it ends automatically. */
  readonly remedy?: Remedy;
  /** A person or this node ends it; no other node can. */
  readonly isOwn?: true;
  /** Only an administrator ends it: nobody else is called. */
  readonly isForAdmin?: true;
  /** The entry of the journal. Default: that a release is held. */
  readonly event?: MessageKind | 'reported-elsewhere';
}

/** Everything that is written of one code. */
export interface Entry<Data> extends Known {
  readonly says: (data: Data, names: Names) => Said;
  /** Of a refusal: no other copy of the bundle changes it, and no time. */
  readonly isFinal?: true;
}

/**
 * What a person does, as a clause, for `explain`, `doctor` and the table in docs/operate.md.
 * `release`: as `ocp@4.13.7`.
 */
export type Remedy = (release: string) => string;

export type Conclusion = Exclude<Reason, Fault>;

export type Entries<R extends Conclusion> = {
  readonly [Code in R['code']]: Entry<Extract<R, { readonly code: Code }>['data']>;
};

type HoldCode = ActivationHold['code'];
export type HoldData<Code extends HoldCode> = Extract<ActivationHold, { readonly code: Code }>['data'];

/** What is written of a hold beside its code. `what` is a clause about a release ("it"). */
interface HoldWords<Data> {
  readonly says: (data: Data, names: Names) => Said;
  /** What `stickpin activate` does; absent: it lifts the hold, or the hold is over in moments. */
  readonly activate?: 'refused' | 'waits';
  /** Reported elsewhere (trust, a failure), wanted by the maker, or over in moments. */
  readonly isQuiet?: true;
  /** The event that ends it is something that a person does. */
  readonly needsPerson?: true;
}

/** A code that is a reason too has the rest in the entry of the reason. */
export type HoldEntries<Code extends HoldCode> = {
  readonly [C in Code]: HoldWords<HoldData<C>> & (C extends Conclusion['code'] ? object : Known);
};

export function codesWhere<E>(
  entries: Readonly<Record<string, E>>,
  isWanted: (entry: E) => boolean | undefined,
): ReadonlySet<string> {
  return new Set(Object.entries(entries).flatMap(([code, entry]) => (isWanted(entry) ? [code] : [])));
}
