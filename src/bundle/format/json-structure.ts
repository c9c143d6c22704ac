/** Limits for the structure of a JSON text. */
export interface JsonLimits {
  /**
   * Most members and elements of all objects and arrays together, about; each object and array
   * counts as one more.
   */
  readonly items: number;
  /** Most objects and arrays within each other. */
  readonly depth: number;
}

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_ARRAY = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_ARRAY = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

/**
 * Checks a text before it is parsed, in one pass without memory. A few megabytes of brackets would
 * need hundreds of megabytes when parsed. `JSON.parse()` can neither be interrupted nor limited: a
 * worker thread that exceeds its heap limit in it ends the whole process.
 *
 * @returns the limit that is exceeded, such as `more than 64 levels`, or undefined. For a text that
 *   is not JSON the result has no meaning.
 */
export function jsonExcess(bytes: Uint8Array, { items, depth }: JsonLimits): string | undefined {
  let found = 0;
  let level = 0;
  for (let at = 0; at < bytes.length; at += 1) {
    switch (bytes[at]) {
      case QUOTE:
        at = endOfString(bytes, at);
        break;
      case OPEN_ARRAY:
      case OPEN_OBJECT:
        level += 1;
        found += 1;
        if (level > depth) return `more than ${depth} levels of objects and arrays`;
        break;
      case CLOSE_ARRAY:
      case CLOSE_OBJECT:
        level -= 1;
        break;
      case COMMA:
      case COLON:
        found += 1;
        break;
    }
    if (found > items) return `more than ${items} items`;
  }
  return undefined;
}

/** The end of the string that begins at `at`: its closing quote, or the end of the text. */
function endOfString(bytes: Uint8Array, at: number): number {
  let end = at + 1;
  while (end < bytes.length && bytes[end] !== QUOTE) end += bytes[end] === BACKSLASH ? 2 : 1;
  return end;
}
