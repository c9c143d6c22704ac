/** How much structure a JSON text may have. */
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
 * Looks at a text before it is parsed, in one pass that takes no memory: parsed, a few megabytes of
 * brackets take hundreds, and `JSON.parse()` can neither be interrupted nor be held to a limit of
 * memory (a worker thread that exceeds its limit within it ends the whole process).
 *
 * @returns what is beyond the limits, as `more than 64 levels`, or undefined. Of a text that is no
 *   JSON the answer means nothing.
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

/** Where the string that begins at `at` ends: its closing quote, or the end of the text. */
function endOfString(bytes: Uint8Array, at: number): number {
  let end = at + 1;
  while (end < bytes.length && bytes[end] !== QUOTE) end += bytes[end] === BACKSLASH ? 2 : 1;
  return end;
}
