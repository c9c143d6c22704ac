import { InvalidArgumentError } from 'commander';
import * as v from 'valibot';
import { bundleError } from '../../bundle/bundle-error.ts';
import { duration } from '../../domain/settings/value-types.ts';

/** Adds a value to those that an option was given before. */
export function collected<T>(read: (text: string) => T) {
  return (text: string, earlier: readonly T[]): T[] => [...earlier, read(text)];
}

export const collect = collected((text) => text);

/** What a value is in a file: a number, or several texts that the command line joins by commas. */
type Input = { readonly kind: 'number'; readonly least: number; readonly most: number } | { readonly kind: 'list' };

/** Adds to a parser what {@link inputOf} returns. */
export function withInput<Parser extends (text: string) => unknown>(input: Input, parser: Parser) {
  return Object.assign(parser, { input });
}

/** Returns undefined for the parser of any other text. */
export function inputOf(parser: object | undefined): Input | undefined {
  return (parser as { readonly input?: Input } | undefined)?.input;
}

/** Reads a number from `least` to `most`, written as `form`. @throws InvalidArgumentError */
export function numberOption(form: RegExp, must: string, least = 0, most = Number.MAX_SAFE_INTEGER) {
  return withInput({ kind: 'number', least, most }, (text: string): number => {
    const number = form.test(text) ? Number(text) : Number.NaN;
    if (number >= least && number <= most) return number;
    throw new InvalidArgumentError(must);
  });
}

/** @throws InvalidArgumentError */
export function textOption(isRight: (text: string) => boolean, must: string) {
  return (text: string): string => {
    if (isRight(text)) return text;
    throw new InvalidArgumentError(must);
  };
}

const UNITS: Readonly<Record<string, number>> = {
  B: 1,
  MB: 1e6,
  GB: 1e9,
  TB: 1e12,
  MiB: 1024 ** 2,
  GiB: 1024 ** 3,
  TiB: 1024 ** 4,
};

/** @throws InvalidArgumentError */
export function sizeInBytes(text: string): number {
  const [, number, unit = 'B'] = /^([0-9]{1,12}(?:\.[0-9]{1,3})?) ?(B|[MGT]i?B)?$/.exec(text) ?? [];
  if (number === undefined) throw new InvalidArgumentError('It must be a size as 15GB or 7GiB.');
  return Math.floor(Number(number) * (UNITS[unit] ?? 1));
}

/** The value of `--threshold`. */
export const threshold = numberOption(/^[1-9][0-9]{0,2}$/, 'It must be a number from 1.');

/**
 * A date becomes the time at which that day begins or ends in UTC. Anything else stays as it is;
 * the check of the payload judges it.
 */
export function timeOption(at: 'begin' | 'end') {
  const time = at === 'begin' ? '00:00:00Z' : '23:59:59Z';
  return (text: string): string => (/^\d{4}-\d{2}-\d{2}$/.test(text) ? `${text}T${time}` : text);
}

/** A timer of Node.js that is set to more ends at once. */
const LONGEST_MS = 24 * 24 * 3_600_000;

/** The value of such an option in milliseconds. @throws AppError `bundle/option` */
export function timeoutOf(text: string, option = '--timeout'): number {
  const ms = durationOf(text);
  if (ms === undefined)
    throw bundleError('bundle/option', `${option} '${text}' is no duration: write it as "30 min" or "2 h"`);
  if (ms > LONGEST_MS) throw bundleError('bundle/option', `${option} '${text}' is more than 24 days`);
  return ms;
}

/** Reads seconds, or a number with a unit, as in settings. Returns undefined for other texts. */
export function durationOf(text: string): number | undefined {
  const parsed = v.safeParse(duration.schema, /^\d+$/.test(text) ? Number(text) : text);
  return parsed.success ? parsed.output : undefined;
}

/** @throws AppError `bundle/option` */
export function releaseOf(text: string): { readonly name: string; readonly version: string } {
  const [, name, version] = /^([^@\s]+)@([^@\s]+)$/.exec(text) ?? [];
  if (name === undefined || version === undefined) {
    throw bundleError('bundle/option', `'${text}' names no release: write NAME@VERSION, as ocp@4.13.7`);
  }
  return { name, version };
}
