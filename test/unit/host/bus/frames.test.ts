import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BusProtocolError, createFrameReader, type MessageHeader, readBody } from '../../../../src/host/bus/frames.ts';
import { callFields, FIELD, rawMessage, stringBody } from '../../../support/bus/raw-bus-client.ts';

const fields = [...callFields('/io/stickpin1', 'io.stickpin1.Manager', 'GetHistory', 'io.stickpin1', 's')];
const call = (serial: number, text = 'ocp@1') => rawMessage({ type: 1, serial, fields, body: stringBody(text) });

interface Seen {
  readonly headers: MessageHeader[];
  readonly messages: (readonly [MessageHeader, Buffer])[];
}

const bodiesOf = ({ messages }: Seen) => messages.map(([header, body]) => readBody(header, body));

/** Reads `bytes` cut at each of `cuts`, wanting only the bodies of messages with an odd serial. */
function read(bytes: Buffer, cuts: readonly number[] = []): Seen {
  const seen: Seen = { headers: [], messages: [] };
  const take = createFrameReader({
    onHeader: (header) => {
      seen.headers.push(header);
      return header.serial % 2 === 1;
    },
    onMessage: (header, body) => void seen.messages.push([header, body]),
  });
  const places = [0, ...cuts.filter((cut) => cut < bytes.length).toSorted((a, b) => a - b), bytes.length];
  for (const [at, place] of places.slice(1).entries()) take(bytes.subarray(places[at], place));
  return seen;
}

describe('createFrameReader', () => {
  it('reads the header of each message and the bodies that are wanted, wherever the stream is cut', () => {
    const stream = Buffer.concat([call(1, 'a'), call(2, 'not wanted'), rawMessage({ type: 2, serial: 3, fields: [] })]);
    fc.assert(
      fc.property(fc.array(fc.nat(stream.length)), (cuts) => {
        const seen = read(stream, cuts);
        expect(seen.headers.map(({ serial, type }) => [serial, type])).toEqual([
          [1, 1],
          [2, 1],
          [3, 2],
        ]);
        expect(bodiesOf(seen)).toEqual([['a'], []]);
      }),
    );
  });

  it('reads every field that it knows', () => {
    const all = [
      ...fields,
      [4, 's', 'org.example.No'],
      [FIELD.replySerial, 'u', 7],
      [FIELD.sender, 's', ':1.9'],
    ] as const;
    expect(read(rawMessage({ type: 3, serial: 5, fields: all, flags: 1 })).headers).toEqual([
      {
        isLittleEndian: true,
        type: 3,
        flags: 1,
        serial: 5,
        fieldsBytes: expect.any(Number),
        bodyBytes: 0,
        path: '/io/stickpin1',
        interface: 'io.stickpin1.Manager',
        member: 'GetHistory',
        errorName: 'org.example.No',
        replySerial: 7,
        sender: ':1.9',
        signature: 's',
      },
    ]);
  });

  it('reads numbers in the order of bytes that the message names', () => {
    // B, call, no flags, version 1; body of 8 bytes, serial 1, fields of 15 bytes; signature 's',
    // sender ':1'; the string 'abc'.
    const start = ['42010001', '00000008', '00000001', '00000013'];
    const array = ['0801670001730000', '0701730000000002', '3a3100', '0000000000'];
    const bytes = Buffer.from([...start, ...array, '00000003', '61626300'].join(''), 'hex');
    const seen = read(bytes);
    expect(seen.headers).toEqual([expect.objectContaining({ sender: ':1', signature: 's', bodyBytes: 8 })]);
    expect(bodiesOf(seen)).toEqual([['abc']]);
  });

  it('ignores a field that it does not know', () => {
    expect(
      read(rawMessage({ type: 1, serial: 1, fields: [[99, 's', 'new'], [98, 'u', 1], ...fields] })).headers,
    ).toEqual([expect.objectContaining({ member: 'GetHistory', signature: 's' })]);
  });

  it.each([
    ['a header that is too long', [[FIELD.path, 'o', `/${'a'.repeat(9000)}`]] as const],
    ['a header with a field of an array', [[99, 'a' as 'o', 'x']] as const],
  ])('skips a message with %s, its body too', (_what, bad) => {
    const stream = Buffer.concat([rawMessage({ type: 1, serial: 1, fields: bad, body: stringBody('x') }), call(3)]);
    expect(read(stream).headers).toEqual([expect.objectContaining({ serial: 3 })]);
  });

  it.each([
    ['is not a byte order', 0, 0x78],
    ['is not a version of the protocol', 3, 2],
    ['makes it longer than a message may be', 7, 0x7f],
  ])('throws when a byte %s', (_what, at, value) => {
    const bytes = call(1);
    bytes[at] = value;
    expect(() => read(bytes)).toThrow(BusProtocolError);
  });

  it('throws no other error, for any bytes of the header', () => {
    fc.assert(
      fc.property(fc.nat(200), fc.nat(255), fc.uint8Array(), (at, value, noise) => {
        const bytes = Buffer.concat([
          rawMessage({ type: 1, serial: 2, fields, body: Buffer.alloc(0) }),
          Buffer.from(noise),
        ]);
        if (at < bytes.length) bytes[at] = value;
        try {
          read(bytes);
        } catch (error) {
          expect(error).toBeInstanceOf(BusProtocolError);
        }
      }),
      { numRuns: 2_000 },
    );
  });
});

describe('a body that does not fit its signature', () => {
  const header = (signature: string) => ({ signature, isLittleEndian: true }) as MessageHeader;
  const lengthOf = (bytes: number) => {
    const body = Buffer.alloc(64);
    body.writeUInt32LE(bytes);
    return body;
  };
  const inVariant = (signature: string) => {
    const body = Buffer.alloc(64);
    body[0] = signature.length;
    body.write(signature, 1);
    body.writeUInt32LE(8, 4);
    return body;
  };

  it.each<[string, string, Buffer]>([
    ['an array of structs without a type', 'ar', lengthOf(8)],
    ['an array of empty structs', 'a()', lengthOf(8)],
    ['an array of empty dict entries', 'a{}', lengthOf(8)],
    ['an empty struct', '()', Buffer.alloc(0)],
    ['such an array in a variant', 'v', inVariant('ar')],
    ['an array that is longer than the body', 'a(y)', lengthOf(0xffff_ffff)],
    ['bytes that are longer than the body', 'ay', lengthOf(0xffff_ffff)],
    ['a text that is longer than the body', 's', lengthOf(0xffff_ffff)],
    ['structs whose variants begin behind the end', 'a(yv)', Buffer.from([64, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0x76, 0])],
    ['arrays within arrays', `${'a'.repeat(100)}y`, Buffer.alloc(512, 1)],
  ])('is refused: %s', (_what, signature, body) => {
    expect(() => readBody(header(signature), body)).toThrow();
  });

  it('is refused when variants are nested without an end', () => {
    const body = Buffer.concat(Array.from({ length: 10_000 }, () => Buffer.from([1, 'v'.charCodeAt(0), 0])));
    expect(() => readBody(header('v'), body)).toThrow('nested too deeply');
  });
});
