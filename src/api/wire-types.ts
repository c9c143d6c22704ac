import * as v from 'valibot';
import { unwrapVariant, variant } from '../host/bus/message-bus.ts';
import { AppError } from '../platform/app-error.ts';
import { clip, plainLines, plainText } from '../platform/plain-text.ts';
import type { Parsed, SchemaParts } from '../platform/schema.ts';

/**
 * A type of the API: its D-Bus signature, encoder and decoder (D-Bus specification, "Type System").
 */
export interface WireType<T> {
  readonly signature: string;
  /** A sentence that says what it means; absent where that is not known. */
  readonly about?: string;
  /** The members of a dictionary of options. */
  readonly options?: Fields;
  /** A member that may be absent. An absent property is left out of every answer. */
  readonly isOptional?: true;
  /** Converts `value` for the marshaller. */
  encode(value: T): unknown;
  /**
   * Checks and converts a received value. @throws AppError `api/unreadable` (`reject`) when it is
   * not of this type
   */
  decode(value: unknown): T;
}

/** Types by the names of members. */
export type Fields = Readonly<Record<string, WireType<unknown>>>;

/** Text of one line. Control characters and line ends become blanks when it is encoded. */
export const text = textType(plainText);

export const lines = textType(plainLines);

export const flag: WireType<boolean> = basic('b', (value) => (typeof value === 'boolean' ? value : undefined));

/** The path of an object (`o`). */
export const objectPath: WireType<string> = basic('o', (value) => (typeof value === 'string' ? value : undefined));

/** A whole number of 32 bits. */
export const integer: WireType<number> = basic('i', wholeNumber);

/** A whole number from 0, of 32 bits. */
export const count: WireType<number> = basic('u', naturalNumber);

/** A whole number from 0, of 64 bits: bytes, sequences, milliseconds since the epoch. */
export const large: WireType<number> = {
  signature: 't',
  encode: (value) => BigInt(value),
  decode: (value) => naturalNumber(typeof value === 'bigint' ? Number(value) : value) ?? unreadable('t', value),
};

/** One of the given words. */
export function oneOf<const T extends string>(...words: readonly T[]): WireType<T> {
  return basic('s', (value) => words.find((word) => word === value));
}

/** A flag that is true when present. */
const set: WireType<true> = basic('b', (value) => (value === true ? value : undefined));

function optional<T>(type: WireType<T>): WireType<T> {
  return { ...type, isOptional: true };
}

export function list<T>(element: WireType<T>): WireType<readonly T[]> {
  const signature = `a${element.signature}`;
  return {
    signature,
    encode: (values) => values.map((value) => element.encode(value)),
    decode: (value) =>
      Array.isArray(value) ? value.map((each) => element.decode(each)) : unreadable(signature, value),
  };
}

/** A structure with members in the order of `fields`. None may be absent. */
function struct(fields: Fields): WireType<object> {
  const members = fieldsOf(fields);
  const signature = `(${members.map(([, type]) => type.signature).join('')})`;
  return {
    signature,
    encode: (value) => members.map(([name, type]) => type.encode(memberOf(value, name))),
    decode: (value) => {
      if (!Array.isArray(value) || value.length !== members.length) return unreadable(signature, value);
      return Object.fromEntries(members.map(([name, type], at) => [name, decodeMember(name, type, value[at])]));
    },
  };
}

/** A dictionary of named members (`a{sv}`). Unknown members are ignored. */
function dictionary(fields: Fields): WireType<object> {
  return {
    signature: 'a{sv}',
    encode: (value) => encodeFields(fieldsOf(fields), value, (name) => name),
    decode: (value) => decodeFields(fieldsOf(fields), value, (name) => name),
  };
}

type ValueOf<T> = T extends WireType<infer V> ? V : never;

/**
 * Arguments of a method that may be left out (`a{sv}`). One that the method does not have is an
 * error.
 */
export function options<F extends Fields>(fields: F): WireType<{ readonly [Key in keyof F]?: ValueOf<F[Key]> }> {
  const type = dictionary(Object.fromEntries(fieldsOf(fields).map(([name, one]) => [name, optional(one)])));
  const decode = (value: unknown) => {
    const other = Object.keys(value ?? {}).find((name) => !Object.hasOwn(fields, name));
    if (other === undefined) return type.decode(value);
    const known = Object.keys(fields).join(', ');
    const message = `there is no option ${clip(plainText(other), 80)} here, only ${known}`;
    throw new AppError({ code: 'api/unreadable', message, disposition: 'reject' });
  };
  // The cast is safe: the members are those of `fields`.
  return { ...type, decode, options: fields } as WireType<{ readonly [Key in keyof F]?: ValueOf<F[Key]> }>;
}

/**
 * The type of what a schema describes. Metadata `dbus`: see the schema of the status document. The
 * cast is safe: each kind of schema has the wire type of its values.
 */
export function wireTypeOf<S extends v.GenericSchema>(schema: S): WireType<Parsed<S>> {
  const type = untypedOf(schema);
  const about = v.getDescription(schema);
  return (about === undefined ? type : { ...type, about }) as WireType<Parsed<S>>;
}

function untypedOf(schema: v.GenericSchema): WireType<unknown> {
  const { type, entries, item, wrapped, options } = schema as v.GenericSchema & SchemaParts;
  const { dbus } = v.getMetadata(schema);
  switch (type) {
    case 'string':
      return text;
    case 'boolean':
      return flag;
    case 'literal':
      return set;
    case 'number':
      return dbus === 'i' ? integer : dbus === 't' ? large : count;
    case 'picklist':
      return dbus === 's' ? text : oneOf(...options);
    case 'array':
      return list(wireTypeOf(item));
    case 'exact_optional':
      return optional(wireTypeOf(wrapped));
    case 'object':
      return (dbus === 'struct' ? struct : dictionary)(wireTypesOf(entries));
    default:
      throw new TypeError(`no D-Bus type for a schema of type ${type}`);
  }
}

/** The types of the members of an object. */
export function wireTypesOf<E extends SchemaParts['entries']>(
  entries: E,
): { readonly [Key in keyof E]: WireType<Parsed<E[Key]>> } {
  const types = Object.entries(entries).map(([key, schema]) => [key, wireTypeOf(schema)]);
  return Object.fromEntries(types) as { readonly [Key in keyof E]: WireType<Parsed<E[Key]>> };
}

/** Members as variants by their D-Bus names. Absent ones are left out. */
export function encodeFields(
  fields: readonly (readonly [string, WireType<unknown>])[],
  value: object,
  nameOf: (field: string) => string,
): Record<string, unknown> {
  const present = fields.filter(([name]) => memberOf(value, name) !== undefined);
  return Object.fromEntries(
    present.map(([name, type]) => [nameOf(name), variant(type.signature, type.encode(memberOf(value, name)))]),
  );
}

/** The inverse of {@link encodeFields}. @throws AppError `api/unreadable` (`reject`) */
export function decodeFields<T extends object>(
  fields: readonly (readonly [string, WireType<unknown>])[],
  value: unknown,
  nameOf: (field: string) => string,
): T {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return unreadable('a{sv}', value);
  const members = new Map<string, unknown>(Object.entries(value));
  const present = fields.filter(([name, type]) => !type.isOptional || members.has(nameOf(name)));
  // The cast is safe: the fields are made of the schema of `T`.
  return Object.fromEntries(
    present.map(([name, type]) => [name, decodeMember(nameOf(name), type, unwrapVariant(members.get(nameOf(name))))]),
  ) as T;
}

export function fieldsOf(fields: object): readonly (readonly [string, WireType<unknown>])[] {
  return Object.entries(fields);
}

function textType(clean: (value: string) => string): WireType<string> {
  return basic('s', (value) => (typeof value === 'string' ? value : undefined), clean);
}

/** @param parse returns undefined when the value is not of the type */
function basic<T>(
  signature: string,
  parse: (value: unknown) => T | undefined,
  encode: (value: T) => unknown = (value) => value,
): WireType<T> {
  return { signature, encode, decode: (value) => parse(value) ?? unreadable(signature, value) };
}

function wholeNumber(value: unknown): number | undefined {
  return Number.isSafeInteger(value) ? Number(value) : undefined;
}

function naturalNumber(value: unknown): number | undefined {
  const number = wholeNumber(value);
  return number !== undefined && number >= 0 ? number : undefined;
}

function memberOf(value: object, name: string): unknown {
  return Object.hasOwn(value, name) ? Reflect.get(value, name) : undefined;
}

function decodeMember(name: string, type: WireType<unknown>, value: unknown): unknown {
  try {
    return type.decode(value);
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    throw error.reworded(`${name}: ${error.message}`);
  }
}

function unreadable(signature: string, value: unknown): never {
  const what = value === undefined ? 'nothing' : `a ${typeof value}`;
  throw new AppError({
    code: 'api/unreadable',
    message: `a value of D-Bus type ${signature} was expected, and ${what} came`,
    disposition: 'reject',
  });
}
