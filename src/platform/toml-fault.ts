import { reasonOf } from './app-error.ts';

/** Where the parser of TOML stopped, and why. */
export interface TomlFault {
  /** From 1. Undefined when the parser does not tell it. */
  readonly line: number | undefined;
  /**
   * A phrase without the text of the file, which may be secret: `line 2 can't be read from column 6
   * on`, `line 3: the file ends too early`.
   */
  readonly reason: string;
}

/** The two forms in which the parser tells where it is. */
interface Located {
  readonly location?: { readonly start?: Place };
  readonly line?: number;
  readonly column?: number;
}

interface Place {
  readonly line?: number;
  readonly column?: number;
}

/** What {@link https://www.npmjs.com/package/toml | toml} threw, in words. */
export function tomlFault(error: unknown): TomlFault {
  const told = reasonOf(error).replace(/\.$/, '');
  const { line, column } = placeOf(error);
  const at = line === undefined ? 'it' : `line ${line}`;
  // What the parser expected is a list of characters of its grammar.
  const found = /^Expected .* but (.+) found$/s.exec(told)?.[1];
  if (found === undefined) return { line, reason: line === undefined ? told : `${at}: ${told}` };
  if (found === 'end of input') return { line, reason: `${at}: the file ends too early` };
  if (found === '"\\n"' || found === '"\\r"') return { line, reason: `${at} ends too early` };
  return { line, reason: `${at} can't be read from column ${column ?? 1} on` };
}

function placeOf(error: unknown): Place {
  if (typeof error !== 'object' || error === null) return {};
  const { location, line, column } = error as Located;
  return location?.start ?? { ...(line !== undefined && { line }), ...(column !== undefined && { column }) };
}
