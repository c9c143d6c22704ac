import type { MessageKind } from '../../platform/message-ids.ts';
import type { ActivationHold } from '../activation/gates.ts';
import type { Fault, Reason } from '../model/reason.ts';
import type { Does } from './actions.ts';
import type { Names } from './names.ts';

/**
 * A statement in sentences, mostly without full stop. A message has them in this order. A line has
 * the remedy before the details.
 */
export interface Said {
  /** The fault, and its reason where that is short. Never a command. */
  readonly what: string;
  readonly details?: readonly string[];
  /** The remedy for anybody at the node, never a command. */
  readonly next?: string | undefined;
  /** The remedy with a shell, with the files of the node or where bundles are made. */
  readonly run?: string | undefined;
  /** Alternative remedies. */
  readonly also?: readonly string[];
  /** The action of a person, if the entry does not give one for all of its data. */
  readonly does?: Does;
  /** The words of the action say the same as `next`, so a line leaves `next` out. */
  readonly isNextSaid?: boolean;
}

/** The facts about a code that do not depend on its data. */
export interface Known {
  /** `M-12`: people read it out. A number never changes, and is not used again. */
  readonly short: string;
  /** A sentence without full stop. */
  readonly means: string;
  /** Default: call support if there is a remedy, else wait. */
  readonly does?: Does;
  /** Absent when it ends automatically. */
  readonly remedy?: Remedy;
  /** Only a person or this node ends it, never another node. */
  readonly isOwn?: true;
  /** Only an administrator ends it, so nobody else is called. */
  readonly isForAdmin?: true;
  /** The journal entry. Default: that a release is held. */
  readonly event?: MessageKind | 'reported-elsewhere';
}

/** All texts of one code. */
export interface Entry<Data> extends Known {
  readonly says: (data: Data, names: Names) => Said;
  /** Set for a refusal that neither another copy of the bundle nor time changes. */
  readonly isFinal?: true;
}

/**
 * Returns the action of a person as a clause, for `explain`, `doctor` and the table in
 * docs/operate.md. `release` is its label, such as `ocp@4.13.7`.
 */
export type Remedy = (release: string) => string;

export type Conclusion = Exclude<Reason, Fault>;

export type Entries<R extends Conclusion> = {
  readonly [Code in R['code']]: Entry<Extract<R, { readonly code: Code }>['data']>;
};

type HoldCode = ActivationHold['code'];
export type HoldData<Code extends HoldCode> = Extract<ActivationHold, { readonly code: Code }>['data'];

/** The texts of a hold beside its code. `what` is a clause about a release ("it"). */
interface HoldWords<Data> {
  readonly says: (data: Data, names: Names) => Said;
  /** What `stickpin activate` does. Absent when it lifts the hold, or the hold ends in moments. */
  readonly activate?: 'refused' | 'waits';
  /** It is reported elsewhere (trust, a failure), its maker wants it, or it ends in moments. */
  readonly isQuiet?: true;
  /** Only an act of a person ends it. */
  readonly needsPerson?: true;
}

/** A code that is also a reason has the rest in the entry of the reason. */
export type HoldEntries<Code extends HoldCode> = {
  readonly [C in Code]: HoldWords<HoldData<C>> & (C extends Conclusion['code'] ? object : Known);
};

export function codesWhere<E>(
  entries: Readonly<Record<string, E>>,
  isWanted: (entry: E) => boolean | undefined,
): ReadonlySet<string> {
  return new Set(Object.entries(entries).flatMap(([code, entry]) => (isWanted(entry) ? [code] : [])));
}
