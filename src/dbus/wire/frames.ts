import { type MessageHeader, type MessageStart, padded, readFields, readStart, START_BYTES } from './header.ts';

/** The bus violated the D-Bus specification. The connection can't be used any more. */
export class BusProtocolError extends Error {
  override readonly name = 'BusProtocolError';
}

/** The receiver of incoming messages. */
export interface MessageSink {
  /**
   * Called with a complete header, before any byte of the body is stored. Returns whether to read
   * the body.
   */
  onHeader(header: MessageHeader): boolean;
  /** Called with the body, if `onHeader` returned true. */
  onMessage(header: MessageHeader, body: Buffer): void;
}

/**
 * Maximum size of header fields. Names have at most 255 bytes, and paths of units some hundred. A
 * message with a longer header is skipped without an answer.
 */
const FIELDS_MAX_BYTES = 8 * 1024;

/** The next part of the stream. */
interface Part {
  /** The buffer of the part. Undefined when it is skipped. */
  readonly bytes: Buffer | undefined;
  readonly length: number;
  filled: number;
  readonly next: (bytes: Buffer) => Part;
}

/**
 * Splits the stream of a bus into messages. Only the header is stored until the receiver wants the
 * body, so an unwanted message of any length needs no memory.
 *
 * @returns a function that takes the next bytes of the stream. @throws BusProtocolError when they
 *   are no D-Bus messages
 */
export function createFrameReader(sink: MessageSink): (chunk: Buffer) => void {
  let part = startPart(sink);
  return (chunk) => {
    for (let at = 0; at < chunk.length || part.filled === part.length; ) {
      if (part.filled === part.length) {
        part = part.next(part.bytes ?? NOTHING);
        continue;
      }
      const count = Math.min(part.length - part.filled, chunk.length - at);
      if (part.bytes !== undefined) chunk.copy(part.bytes, part.filled, at, at + count);
      part.filled += count;
      at += count;
    }
  };
}

const NOTHING = Buffer.alloc(0);

function startPart(sink: MessageSink): Part {
  return kept(START_BYTES, (bytes) => {
    const start = readStart(bytes);
    if (start === undefined) throw new BusProtocolError('what the bus sent is no D-Bus message');
    return fieldsPart(start, sink);
  });
}

function fieldsPart(start: MessageStart, sink: MessageSink): Part {
  const length = padded(start.fieldsBytes);
  if (length > FIELDS_MAX_BYTES) return skipped(length + start.bodyBytes, sink);
  return kept(length, (bytes) => {
    const header = readFields(start, bytes);
    if (header === undefined || !sink.onHeader(header)) return skipped(start.bodyBytes, sink);
    return kept(start.bodyBytes, (body) => {
      sink.onMessage(header, body);
      return startPart(sink);
    });
  });
}

function kept(length: number, next: Part['next']): Part {
  return { bytes: Buffer.allocUnsafe(length), length, filled: 0, next };
}

function skipped(length: number, sink: MessageSink): Part {
  return { bytes: undefined, length, filled: 0, next: () => startPart(sink) };
}
