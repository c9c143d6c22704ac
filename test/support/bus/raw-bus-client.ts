import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

/** Type codes of header fields (D-Bus specification, "Header Fields"). */
export const FIELD = {
  path: 1,
  interface: 2,
  member: 3,
  replySerial: 5,
  destination: 6,
  sender: 7,
  signature: 8,
} as const;

/**
 * A message as bytes of the wire. `fields` are values of type string, object path or signature by
 * their code.
 */
export interface RawMessage {
  readonly type: 1 | 2 | 3 | 4;
  readonly serial: number;
  readonly fields: readonly (readonly [code: number, type: 'o' | 's' | 'g' | 'u', value: string | number])[];
  readonly body?: Buffer;
  readonly flags?: number;
}

/** The little-endian bytes of a message, checked by nothing. */
export function rawMessage({ type, serial, fields, body = Buffer.alloc(0), flags = 0 }: RawMessage): Buffer {
  let array: Buffer = Buffer.alloc(0);
  for (const [code, kind, value] of fields) {
    const field: Buffer[] = [Buffer.from([code, 1]), Buffer.from(`${kind}\0`)];
    if (kind === 'u') field.push(u32(Number(value)));
    else if (kind === 'g') field.push(Buffer.from([String(value).length]), Buffer.from(`${value}\0`));
    else field.push(u32(Buffer.byteLength(String(value))), Buffer.from(`${value}\0`));
    array = Buffer.concat([array, padding(array.length), ...field]);
  }
  const start = Buffer.concat([Buffer.from([0x6c, type, flags, 1]), u32(body.length), u32(serial), u32(array.length)]);
  return Buffer.concat([start, array, padding(array.length), body]);
}

/** The fields of a method call. */
export function callFields(path: string, iface: string, member: string, destination: string, signature?: string) {
  return [
    [FIELD.path, 'o', path],
    [FIELD.interface, 's', iface],
    [FIELD.member, 's', member],
    [FIELD.destination, 's', destination],
    ...(signature === undefined ? [] : [[FIELD.signature, 'g', signature] as const]),
  ] as const;
}

/**
 * The body of one array that takes about `sizeBytes`.
 *
 * @param element is repeated, so that its length must keep the alignment of the next one
 * @param paddingBytes at its end, which the last element has not
 */
export function arrayBody(element: Buffer, sizeBytes: number, paddingBytes = 0): Buffer {
  const array = Buffer.alloc(Math.floor(sizeBytes / element.length) * element.length - paddingBytes, element);
  return Buffer.concat([u32(array.length), array]);
}

/** The body of one string. */
export function stringBody(text: string): Buffer {
  return Buffer.concat([u32(Buffer.byteLength(text)), Buffer.from(`${text}\0`)]);
}

/**
 * A connection to a bus that has said Hello (with serial 1) and sends whatever bytes it is given.
 */
export interface RawBusClient {
  send(message: RawMessage): Promise<void>;
  /**
   * Resolves to the type and error name of the answer to `serial`: `return`, or as
   * `org.freedesktop.DBus.Error.LimitsExceeded`.
   */
  answerTo(serial: number): Promise<string>;
  close(): void;
}

const BUS = 'org.freedesktop.DBus';

/** Connects to `unix:path=…` as the user of this process. */
export async function connectRawClient(address: string): Promise<RawBusClient> {
  const socket = connect(address.replace('unix:path=', ''));
  await once(socket, 'connect');
  const uid = Buffer.from(String(process.getuid?.() ?? 0)).toString('hex');
  socket.write(`\0AUTH EXTERNAL ${uid}\r\n`);
  await once(socket, 'data');
  socket.write('BEGIN\r\n');
  const answers = collectAnswers(socket);
  const send = async (message: RawMessage): Promise<void> => {
    await new Promise<void>((resolve, reject) => {
      socket.write(rawMessage(message), (error) => (error ? reject(error) : resolve()));
    });
  };
  await send({ type: 1, serial: 1, fields: callFields('/org/freedesktop/DBus', BUS, 'Hello', BUS) });
  await answers(1);
  return { send, answerTo: answers, close: () => socket.destroy() };
}

function collectAnswers(socket: Socket): (serial: number) => Promise<string> {
  let received: Buffer = Buffer.alloc(0);
  const known = new Map<number, string>();
  const waiting = new Map<number, (answer: string) => void>();
  socket.on('error', () => undefined);
  socket.on('data', (chunk: Buffer) => {
    received = Buffer.concat([received, chunk]);
    for (;;) {
      const total = received.length < 16 ? Number.POSITIVE_INFINITY : lengthOf(received);
      if (received.length < total) return;
      const message = received.subarray(0, total);
      received = received.subarray(total);
      const serial = replySerialOf(message);
      if (serial === undefined) continue;
      const answer = message[1] === 2 ? 'return' : errorNameOf(message);
      known.set(serial, answer);
      waiting.get(serial)?.(answer);
    }
  });
  return (serial) =>
    new Promise((resolve) => {
      const answer = known.get(serial);
      if (answer === undefined) waiting.set(serial, resolve);
      else resolve(answer);
    });
}

function lengthOf(message: Buffer): number {
  const fields = message.readUInt32LE(12);
  return 16 + fields + padding(fields).length + message.readUInt32LE(4);
}

/** The value of header field 5; its variant has signature `u`. */
function replySerialOf(message: Buffer): number | undefined {
  const at = message.indexOf(Buffer.from([FIELD.replySerial, 1, 0x75, 0]));
  return at < 0 || message[1] === 4 ? undefined : message.readUInt32LE(at + 4);
}

function errorNameOf(message: Buffer): string {
  const at = message.indexOf(Buffer.from([4, 1, 0x73, 0]));
  return message.toString('latin1', at + 8, at + 8 + message.readUInt32LE(at + 4));
}

function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

function padding(length: number): Buffer {
  return Buffer.alloc((8 - (length % 8)) % 8);
}
