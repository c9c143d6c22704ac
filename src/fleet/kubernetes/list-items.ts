const codeOf = (character: string) => character.charCodeAt(0);
const [QUOTE, BACKSLASH] = [codeOf('"'), codeOf('\\')];
const [OPEN_OBJECT, CLOSE_OBJECT, OPEN_ARRAY, CLOSE_ARRAY] = [codeOf('{'), codeOf('}'), codeOf('['), codeOf(']')];

interface Limits {
  readonly itemBytes: number;
  /** Of all items and the rest. */
  readonly listBytes: number;
}

type Place = 'rest' | 'between' | 'item';

/**
 * Cuts a JSON document `{…,"items":[{…},{…}],…}` into its items as its bytes come: that of 5,000
 * Nodes would take 200 MiB of memory. Only `items` may be an array on the first level.
 */
export class ListItems {
  private place: Place = 'rest';
  private readonly parts = { rest: [] as Buffer[], item: [] as Buffer[] };
  private itemBytes = 0;
  private listBytes = 0;
  private depth = 0;
  private isString = false;
  private isEscaped = false;

  constructor(
    private readonly limits: Limits,
    private readonly onItem: (text: string) => void,
  ) {}

  /** @throws RangeError beyond a limit */
  push(chunk: Buffer): void {
    this.listBytes += chunk.length;
    if (this.listBytes > this.limits.listBytes) throw tooLarge('a list', this.limits.listBytes);
    let from = 0;
    for (let at = 0; at < chunk.length; at += 1) {
      const next = this.placeAfter(chunk[at]);
      if (next === this.place) continue;
      const end = this.place === 'between' ? at : at + 1;
      this.take(chunk.subarray(from, end));
      if (this.place === 'item') this.endItem();
      this.place = next;
      from = end;
    }
    this.take(chunk.subarray(from));
  }

  /** The document with an empty `items`. */
  rest(): string {
    return Buffer.concat(this.parts.rest).toString('utf8');
  }

  private take(part: Buffer): void {
    if (this.place === 'between') return;
    this.parts[this.place].push(part);
    this.itemBytes += part.length;
    if (this.itemBytes > this.limits.itemBytes) throw tooLarge('an item of a list', this.limits.itemBytes);
  }

  private endItem(): void {
    const text = Buffer.concat(this.parts.item).toString('utf8');
    this.parts.item = [];
    this.itemBytes = 0;
    this.onItem(text);
  }

  private placeAfter(byte: number | undefined): Place {
    if (this.isEscaped) this.isEscaped = false;
    else if (this.isString) {
      this.isEscaped = byte === BACKSLASH;
      this.isString = byte !== QUOTE;
    } else if (byte === QUOTE) this.isString = true;
    else if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) return this.placeWithin(byte);
    else if (byte === CLOSE_OBJECT || byte === CLOSE_ARRAY) return this.placeBehind();
    return this.place;
  }

  private placeWithin(byte: number): Place {
    this.depth += 1;
    if (this.depth === 2 && byte === OPEN_ARRAY) return 'between';
    return this.place === 'between' ? 'item' : this.place;
  }

  private placeBehind(): Place {
    this.depth -= 1;
    if (this.place === 'item' && this.depth === 2) return 'between';
    return this.place === 'between' && this.depth === 1 ? 'rest' : this.place;
  }
}

function tooLarge(what: string, bytes: number): RangeError {
  return new RangeError(`${what} has more than ${bytes} bytes`);
}
