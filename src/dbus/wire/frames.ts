import { type MessageHeader, type MessageStart, padded, readFields, readStart, START_BYTES } from './header.ts';

/**
 * What the bus sends is not what the D-Bus specification says. The connection is of no use any
 * more.
 */
export class BusProtocolError extends Error {
  override readonly name = 'BusProtocolError';
}

/** Who is told of messages as they come in. */
export interface MessageSink {
  /**
   * Called when a header is there and before any byte of the body is kept; whether the body is
   * wanted.
   */
  onHeader(header: MessageHeader): boolean;
  /** Called with the body of a message that was wanted. */
  onMessage(header: MessageHeader, body: Buffer): void;
}

/**
 * Header fields take at most this. Names have at most 255 bytes and paths of units some hundred; a
 * longer header belongs to no message for us, and it is skipped with its message. Its sender is not
 * answered.
 */
const FIELDS_MAX_BYTES = 8 * 1024;

/** What comes next on the wire. */
interface Part {
  /** Where it is kept; undefined when it is skipped. */
  readonly bytes: Buffer | undefined;
  readonly length: number;
  filled: number;
  readonly next: (bytes: Buffer) => Part;
}

/**
 * Cuts what a bus sends into messages, and keeps no more of each than its header before somebody
 * wants its body: what is not wanted costs no memory, whatever its length.
 *
 * @returns takes the next bytes of the stream. @throws BusProtocolError when they are no D-Bus
 *   messages.
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
