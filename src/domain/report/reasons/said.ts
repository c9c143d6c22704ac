import { bundleName, bundleTitle } from '../../model/bundle.ts';
import type { BundleLabel, Fault, Reason } from '../../model/reason.ts';
import { briefName, briefNames, briefTitle } from '../fitted.ts';

/** Sentences, mostly without full stop. A message has them in this order. */
export interface Said {
  /** What is wrong, and why where that is short. */
  readonly what: string;
  readonly details?: readonly string[];
  /** What to do. In a STATUS line it comes before the details. */
  readonly next?: string | undefined;
  /** What else can be done. */
  readonly also?: readonly string[];
}

/** How the names in a text are written: whole in a message, short in a STATUS line. */
export interface Names {
  /** `ocp 4.13.7` */
  readonly title: (bundle: BundleLabel) => string;
  readonly name: (name: string) => string;
  /** @param none where the list is empty */
  readonly list: (names: readonly string[], none: string, joint?: string) => string;
}

export const WHOLE: Names = {
  title: bundleTitle,
  name: (name) => name,
  list: (names, none, joint = ', ') => names.join(joint) || none,
};

export const BRIEF: Names = { title: briefTitle, name: briefName, list: briefNames };

/** `'stickpin activate ocp@4.13.7'` */
export function activateCommand(bundle: BundleLabel): string {
  return `'stickpin activate ${bundleName(bundle)}'`;
}

/** Everything that is written of one code. `remedy`: see {@link Remedy}. */
interface Entry<Data> {
  readonly says: (data: Data, names: Names) => Said;
  readonly remedy?: Remedy;
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
