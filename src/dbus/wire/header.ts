/** Types of messages (D-Bus specification, "Message Types"). */
export const MESSAGE_TYPE = { call: 1, return: 2, error: 3, signal: 4 } as const;

/** Bytes of a message before its array of header fields, which {@link readStart} reads. */
export const START_BYTES = 16;

/** The fixed start of a message (D-Bus specification, "Message Format"). */
export interface MessageStart {
  readonly isLittleEndian: boolean;
  readonly type: number;
  readonly flags: number;
  readonly serial: number;
  /** Bytes of the array of header fields, without the padding after it. */
  readonly fieldsBytes: number;
  readonly bodyBytes: number;
}

/** A message without its body. A text is empty when the message has no such field. */
export interface MessageHeader extends MessageStart {
  readonly path: string;
  readonly interface: string;
  readonly member: string;
  readonly errorName: string;
  /** 0 when there is none. */
  readonly replySerial: number;
  /** Unique name of the sender; the bus itself writes it. */
  readonly sender: string;
  readonly signature: string;
}

/** Maximum size of a message including its header (D-Bus specification, "Message Format"). */
const MESSAGE_MAX_BYTES = 128 * 1024 * 1024;

/**
 * Reads the first {@link START_BYTES} of a message. Undefined when they are not valid; then the
 * start of the next message is unknown too.
 */
export function readStart(bytes: Buffer): MessageStart | undefined {
  const isLittleEndian = bytes[0] === 'l'.charCodeAt(0);
  if ((!isLittleEndian && bytes[0] !== 'B'.charCodeAt(0)) || bytes[3] !== 1) return undefined;
  const number = (at: number) => (isLittleEndian ? bytes.readUInt32LE(at) : bytes.readUInt32BE(at));
  const start = { type: bytes[1] ?? 0, flags: bytes[2] ?? 0, bodyBytes: number(4), serial: number(8) };
  const fieldsBytes = number(12);
  if (START_BYTES + padded(fieldsBytes) + start.bodyBytes > MESSAGE_MAX_BYTES) return undefined;
  return { ...start, isLittleEndian, fieldsBytes };
}

/** A length rounded up to a multiple of eight, where the body begins. */
export function padded(length: number): number {
  return Math.ceil(length / 8) * 8;
}

/** Codes and types of the fields that are read (D-Bus specification, "Header Fields"). */
const TEXT_FIELDS = {
  '1:o': 'path',
  '2:s': 'interface',
  '3:s': 'member',
  '4:s': 'errorName',
  '7:s': 'sender',
  '8:g': 'signature',
} as const;

/**
 * Bytes of the types of a fixed size, which are their alignment too (D-Bus specification, "Basic
 * types").
 */
const SIZES: Readonly<Record<string, number>> = { y: 1, b: 4, n: 2, q: 2, i: 4, u: 4, x: 8, t: 8, d: 8, h: 4 };

type Texts = { -readonly [K in (typeof TEXT_FIELDS)[keyof typeof TEXT_FIELDS]]: string };

/**
 * Reads the array of header fields at the start of `bytes`. Unknown fields with a value of a basic
 * type are ignored, as the specification demands. Undefined for other types, and when the array is
 * not valid.
 */
export function readFields(start: MessageStart, bytes: Buffer): MessageHeader | undefined {
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

/** Reads one `(yv)` whose value is of a basic type. */
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
