import DBusBuffer from 'dbus-next/lib/dbus-buffer.js';
import { marshallMessage, messageToJsFmt } from 'dbus-next/lib/marshall-compat.js';
import { Message } from 'dbus-next/lib/message-type.js';

/** The connection can't be used any more. */
export class BusProtocolError extends Error {
  override readonly name = 'BusProtocolError';
}

export interface MessageSink {
  /**
   * Called with a complete header, before any byte of the body is stored.
   * @returns whether to read the body
   */
  onHeader(header: MessageHeader): boolean;
  /** It is called if `onHeader` returned true. */
  onMessage(header: MessageHeader, body: Buffer): void;
}

/**
 * Names have at most 255 bytes, paths of units some hundred. A longer header is skipped without an
 * answer.
 */
const FIELDS_MAX_BYTES = 8 * 1024;

/** A part of the stream. */
interface Part {
  /** It is undefined when the part is skipped. */
  readonly bytes: Buffer | undefined;
  readonly length: number;
  filled: number;
  readonly next: (bytes: Buffer) => Part;
}

/**
 * Splits the stream of a bus. Only the header is stored until the receiver wants the body, so an
 * unwanted message of any length needs no memory.
 *
 * @returns a function that takes the next bytes. @throws BusProtocolError when they are no D-Bus
 *   messages
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

/**
 * Needs up to thirty times the length in memory: check length, sender and signature first.
 *
 * @throws Error when the bytes do not fit the signature
 */
export function readBody({ signature, isLittleEndian }: MessageHeader, bytes: Buffer): readonly unknown[] {
  if (signature === '') return [];
  const endian = (isLittleEndian ? 'l' : 'B').charCodeAt(0);
  return messageToJsFmt({ signature, body: new CheckedBuffer(bytes, 0, endian, undefined, {}).read(signature) }).body;
}

/** The limit for arrays, structs and here variants (D-Bus specification, "Valid Signatures"). */
const DEPTH_MAX = 64;

/**
 * dbus-next trusts the lengths and signatures of other programs: it reads values behind the end,
 * and reads values of no length, as those of `ar`, for ever.
 */
class CheckedBuffer extends DBusBuffer {
  private depth = 0;

  protected override readTree(tree: object): unknown {
    const before = this.pos;
    this.depth += 1;
    if (this.depth > DEPTH_MAX) throw new Error('The body of a message is nested too deeply');
    const value = super.readTree(tree);
    this.depth -= 1;
    // Behind the end the position is NaN, and the next alignment would begin anew at 0.
    if (!(this.pos > before && this.pos <= this.buffer.length)) {
      throw new Error('The body of a message does not fit its signature');
    }
    return value;
  }
}

/** May be sent any number of times. @throws Error when it does not fit `signature` */
export function writeBody(signature: string, body: readonly unknown[]): Buffer {
  const message = new Message({ path: '/', member: 'Body', signature, body: [...body] });
  message.serial = 1;
  const [bytes] = marshallMessage(message);
  return bytes.subarray(bytes.length - bytes.readUInt32LE(4));
}

/** D-Bus specification, "Message Types". */
export const MESSAGE_TYPE = { call: 1, return: 2, error: 3, signal: 4 } as const;

/** The bytes before the array of header fields. */
const START_BYTES = 16;

/** D-Bus specification, "Message Format". */
interface MessageStart {
  readonly isLittleEndian: boolean;
  readonly type: number;
  readonly flags: number;
  readonly serial: number;
  /** The padding after the fields is not counted. */
  readonly fieldsBytes: number;
  readonly bodyBytes: number;
}

/** A missing text is empty. */
export interface MessageHeader extends MessageStart {
  readonly path: string;
  readonly interface: string;
  readonly member: string;
  readonly errorName: string;
  /** It is 0 when there is none. */
  readonly replySerial: number;
  /** The bus writes it. */
  readonly sender: string;
  readonly signature: string;
}

/** The limit with the header (D-Bus specification, "Message Format"). */
const MESSAGE_MAX_BYTES = 128 * 1024 * 1024;

/** Undefined means invalid; then the start of the next message is unknown too. */
function readStart(bytes: Buffer): MessageStart | undefined {
  const isLittleEndian = bytes[0] === 'l'.charCodeAt(0);
  if ((!isLittleEndian && bytes[0] !== 'B'.charCodeAt(0)) || bytes[3] !== 1) return undefined;
  const number = (at: number) => (isLittleEndian ? bytes.readUInt32LE(at) : bytes.readUInt32BE(at));
  const start = { type: bytes[1] ?? 0, flags: bytes[2] ?? 0, bodyBytes: number(4), serial: number(8) };
  const fieldsBytes = number(12);
  if (START_BYTES + padded(fieldsBytes) + start.bodyBytes > MESSAGE_MAX_BYTES) return undefined;
  return { ...start, isLittleEndian, fieldsBytes };
}

/** Rounds up to a multiple of eight, where the body begins. */
function padded(length: number): number {
  return Math.ceil(length / 8) * 8;
}

/** D-Bus specification, "Header Fields". */
const TEXT_FIELDS = {
  '1:o': 'path',
  '2:s': 'interface',
  '3:s': 'member',
  '4:s': 'errorName',
  '7:s': 'sender',
  '8:g': 'signature',
} as const;

/** Bytes, and alignment, of types of fixed size (D-Bus specification, "Basic types"). */
const SIZES: Readonly<Record<string, number>> = { y: 1, b: 4, n: 2, q: 2, i: 4, u: 4, x: 8, t: 8, d: 8, h: 4 };

type Texts = { -readonly [K in (typeof TEXT_FIELDS)[keyof typeof TEXT_FIELDS]]: string };

/**
 * Unknown fields of a basic type are ignored, as the specification demands. Returns undefined for
 * other types, and when the array is invalid.
 */
function readFields(start: MessageStart, bytes: Buffer): MessageHeader | undefined {
  const texts: Texts = { path: '', interface: '', member: '', errorName: '', sender: '', signature: '' };
  let replySerial = 0;
  const end = start.fieldsBytes;
  if (bytes.length < end) return undefined;
  for (let at = 0; at < end; ) {
    const field = readField(start, bytes, padded(at), end);
    if (field === undefined) return undefined;
    const { key, value } = field;
    if (key === '5:u') replySerial = Number(value);
    else if (isTextField(key)) texts[TEXT_FIELDS[key]] = String(value);
    at = field.end;
  }
  return { ...start, ...texts, replySerial };
}

interface Field {
  /** Code and type, for example `1:o`. */
  readonly key: string;
  readonly value: string | number | undefined;
  /** Offset of its end. */
  readonly end: number;
}

/** One `(yv)` with a value of a basic type. */
function readField({ isLittleEndian }: MessageStart, bytes: Buffer, at: number, limit: number): Field | undefined {
  if (at + 4 > limit || bytes[at + 1] !== 1 || bytes[at + 3] !== 0) return undefined;
  const type = String.fromCharCode(bytes[at + 2] ?? 0);
  const key = `${bytes[at]}:${type}`;
  const number = (from: number) => (isLittleEndian ? bytes.readUInt32LE(from) : bytes.readUInt32BE(from));
  const from = at + 4;
  if (type === 's' || type === 'o' || type === 'g') {
    const lengthBytes = type === 'g' ? 1 : 4;
    if (from + lengthBytes > limit) return undefined;
    const length = type === 'g' ? (bytes[from] ?? 0) : number(from);
    const end = from + lengthBytes + length;
    if (end + 1 > limit || bytes[end] !== 0) return undefined;
    return { key, value: bytes.toString('utf8', from + lengthBytes, end), end: end + 1 };
  }
  const size = SIZES[type];
  if (size === undefined) return undefined;
  const begin = Math.ceil(from / size) * size;
  if (begin + size > limit) return undefined;
  return { key, value: type === 'u' ? number(begin) : undefined, end: begin + size };
}

function isTextField(key: string): key is keyof typeof TEXT_FIELDS {
  return Object.hasOwn(TEXT_FIELDS, key);
}
