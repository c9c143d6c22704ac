import type { ValueType } from './value-types.ts';

/** One key of a section. */
export interface Setting {
  readonly type: ValueType<unknown>;
  /** As it is written in a file; undefined where a key that is not set has a meaning of its own. */
  readonly default: unknown;
  /** What it does, for the reference: whole sentences in Markdown. */
  readonly about: string;
}

/** One section of a settings file. */
export interface Section {
  /** What its keys are about, for the reference. */
  readonly about: string;
  readonly settings: Readonly<Record<string, Setting>>;
  /** There is a table of these settings for each stream: `[streams.NAME]`. Default: one table. */
  readonly isNamed?: true;
}
