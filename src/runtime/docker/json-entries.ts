/** An object of an answer. One that is too large has its beginning only. */
export interface JsonEntry {
  readonly bytes: Buffer;
  readonly isWhole: boolean;
}

const [QUOTE, BACKSLASH, OPEN_LIST, CLOSE_LIST, OPEN, CLOSE] = [...Buffer.from('"\\[]{}')];

/** Passes an answer on. @throws Error at its end, unless it begins as an array or is `null` */
export async function* listOnly(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let head = '';
  for await (const chunk of chunks) {
    if (head.length < 4) head = (head + chunk.subarray(0, 4_096).toString('latin1')).trimStart().slice(0, 4);
    yield chunk;
  }
  if (!head.startsWith('[') && head !== 'null') throw new Error('its answer is no list');
}

/**
 * The objects in a JSON array, or those that follow each other in a stream, as they arrive. What is
 * kept of one is limited, so that a large one does not take the others with it.
 *
 * @param maxBytes of an object; of a larger one so many bytes are kept
 * @throws Error when an array ends early; errors of `chunks`
 */
export async function* jsonEntries(chunks: AsyncIterable<Buffer>, maxBytes: number): AsyncGenerator<JsonEntry> {
  let depth = 0;
  let isText = false;
  let isEscaped = false;
  /** Depth of the objects: 1 in an array. */
  let base = 0;
  let kept: Buffer[] = [];
  let sizeBytes = 0;
  for await (const chunk of chunks) {
    let start = depth > base ? 0 : -1;
    for (let at = 0; at < chunk.length; at += 1) {
      const byte = chunk[at];
      if (isText) {
        if (isEscaped) isEscaped = false;
        else if (byte === BACKSLASH) isEscaped = true;
        else if (byte === QUOTE) isText = false;
      } else if (byte === QUOTE) isText = true;
      else if (byte === OPEN_LIST && depth === 0) depth = base = 1;
      else if (byte === OPEN || byte === OPEN_LIST) {
        if (depth === base) start = at;
        depth += 1;
      } else if (byte === CLOSE || byte === CLOSE_LIST) {
        depth -= 1;
        if (depth === base) {
          keep(chunk.subarray(start, at + 1));
          yield { bytes: Buffer.concat(kept), isWhole: sizeBytes <= maxBytes };
          [kept, sizeBytes, start] = [[], 0, -1];
        } else if (depth < base) base = depth;
      }
    }
    if (start >= 0) keep(chunk.subarray(start));
  }
  if (depth > 0) throw new Error('its answer ends early');

  function keep(part: Buffer): void {
    const room = maxBytes - sizeBytes;
    if (room > 0) kept.push(part.subarray(0, room));
    sizeBytes += part.length;
  }
}
