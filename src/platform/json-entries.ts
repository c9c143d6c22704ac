/** An object of an answer. Only the beginning of a too large object is kept. */
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
 * The objects in a JSON array, or those that follow each other in a stream, as they arrive. The
 * kept bytes of each are limited, so that a large one does not fail the others.
 * @param maxBytes of an object; a larger one is cut to this
 * @param around takes the document `{…,"items":[{…},{…}],…}` without the objects of its array; no
 * other member may be an array
 * @throws Error when an array ends early, or the document without objects has more than `maxBytes`;
 * errors of `chunks`
 */
export async function* jsonEntries(
  chunks: AsyncIterable<Buffer>,
  maxBytes: number,
  around?: Buffer[],
): AsyncGenerator<JsonEntry> {
  let depth = 0;
  let isText = false;
  let isEscaped = false;
  /** Depth of the objects: 1 in an array, undefined beside the array of a document. */
  let base: number | undefined = around === undefined ? 0 : undefined;
  let kept: Buffer[] = [];
  let sizeBytes = 0;
  let aroundBytes = 0;
  for await (const chunk of chunks) {
    let start = base === undefined || depth > base ? 0 : -1;
    for (let at = 0; at < chunk.length; at += 1) {
      const byte = chunk[at];
      if (isText) {
        if (isEscaped) isEscaped = false;
        else if (byte === BACKSLASH) isEscaped = true;
        else if (byte === QUOTE) isText = false;
      } else if (byte === QUOTE) isText = true;
      else if (byte === OPEN_LIST && depth === (around === undefined ? 0 : 1)) {
        if (base === undefined) keepAround(chunk.subarray(start, at + 1));
        depth += 1;
        [base, start] = [depth, -1];
      } else if (byte === OPEN || byte === OPEN_LIST) {
        if (depth === base) start = at;
        depth += 1;
      } else if (byte === CLOSE || byte === CLOSE_LIST) {
        depth -= 1;
        if (depth === base) {
          keep(chunk.subarray(start, at + 1));
          yield { bytes: Buffer.concat(kept), isWhole: sizeBytes <= maxBytes };
          [kept, sizeBytes, start] = [[], 0, -1];
        } else if (base !== undefined && depth < base) {
          [base, start] = around === undefined ? [depth, -1] : [undefined, at];
        }
      }
    }
    if (start >= 0 && base === undefined) keepAround(chunk.subarray(start));
    else if (start >= 0) keep(chunk.subarray(start));
  }
  if (depth > 0) throw new Error('its answer ends early');

  function keep(part: Buffer): void {
    const room = maxBytes - sizeBytes;
    if (room > 0) kept.push(part.subarray(0, room));
    sizeBytes += part.length;
  }

  function keepAround(part: Buffer): void {
    around?.push(part);
    aroundBytes += part.length;
    if (aroundBytes > maxBytes) throw new Error(`its answer has more than ${maxBytes} bytes beside its entries`);
  }
}
