import {
  description,
  exactOptional,
  type GenericPipeAction,
  type GenericSchema,
  type InferOutput,
  pipe,
} from 'valibot';

/** The read-only output of a schema. */
export type Parsed<S extends GenericSchema> = ReadOnly<InferOutput<S>>;

type ReadOnly<T> = T extends readonly (infer Item)[]
  ? readonly ReadOnly<Item>[]
  : T extends string | number | boolean
    ? T
    : T extends object
      ? { readonly [Key in keyof T]: ReadOnly<T[Key]> }
      : T;

/** The parts of a schema for code that follows a schema of any kind. */
export interface SchemaParts {
  readonly type: string;
  /** The members of an object. */
  readonly entries: Readonly<Record<string, GenericSchema>>;
  /** The schema of an array's elements. */
  readonly item: GenericSchema;
  /** The schema of an optional value. */
  readonly wrapped: GenericSchema;
  /** The words of a choice. */
  readonly options: readonly string[];
  /** The schema and what comes after it. */
  readonly pipe?: readonly [GenericSchema, ...GenericPipeAction[]];
}

/** A schema with what it says, in a sentence: for the JSON Schema and the documentation. */
export function is<S extends GenericSchema>(schema: S, about: string) {
  return pipe(schema, description(about));
}

/** {@link is} for a member that may be absent. */
export function maybe<S extends GenericSchema>(schema: S, about: string) {
  return exactOptional(is(schema, about));
}
