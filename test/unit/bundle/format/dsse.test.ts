import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  formatEnvelope,
  PAYLOAD_TYPE,
  parseEnvelope,
  preAuthenticationEncoding,
} from '../../../../src/bundle/format/dsse.ts';
import { limits } from '../../../../src/bundle/limits.ts';
import { AppError } from '../../../../src/platform/app-error.ts';

function envelope(members: object): Buffer {
  return Buffer.from(JSON.stringify({ payloadType: PAYLOAD_TYPE, payload: 'e30=', signatures: [], ...members }));
}

describe('preAuthenticationEncoding', () => {
  it("is the specification's own example", () => {
    const encoded = preAuthenticationEncoding('http://example.com/HelloWorld', Buffer.from('hello world'));
    expect(encoded.toString()).toBe('DSSEv1 29 http://example.com/HelloWorld 11 hello world');
  });

  it('counts bytes, not characters', () => {
    expect(preAuthenticationEncoding('ü', Buffer.from('ü')).toString()).toBe('DSSEv1 2 ü 2 ü');
  });
});

describe('parseEnvelope', () => {
  it.each(['++//', '--__', '++//YQ==', '++//YQ', '--__YQ==', '--__YQ'])(
    'reads base64 in either alphabet: %s',
    (sig) => {
      const { signatures } = parseEnvelope(envelope({ signatures: [{ keyid: 'k', sig }] }));
      expect(signatures[0]?.signature.toString('hex')).toMatch(/^fbefff(61)?$/);
    },
  );

  it.each(['+-/_', 'a', 'ab=', 'abc==', 'a b=', 'YQ===', '=', 'YQ=\n'])('refuses what is not base64: %j', (sig) => {
    expect(() => parseEnvelope(envelope({ signatures: [{ sig }] }))).toThrow(/signatures\.0\.sig is not base64/);
  });

  it('ignores members that it does not know, as DSSE demands, and reads an absent keyid as empty', () => {
    const parsed = parseEnvelope(envelope({ extra: 1, signatures: [{ sig: 'YQ==', cert: 'x' }] }));
    expect(parsed.signatures).toEqual([{ keyId: '', signature: Buffer.from('a') }]);
  });

  it.each([
    [Buffer.alloc(limits.envelopeBytes + 1, 0x20), 'bundle/envelope', 'larger than 1048576'],
    [Buffer.from('{'), 'bundle/envelope', 'not JSON'],
    [Buffer.from([0xef, 0xbb, 0xbf, 0x7b, 0x7d]), 'bundle/envelope', 'not JSON'],
    [Buffer.from([0x22, 0xff, 0x22]), 'bundle/envelope', 'not JSON in UTF-8'],
    [Buffer.from('[]'), 'bundle/envelope', 'bundle.dsse.json'],
    [envelope({ payload: 7 }), 'bundle/envelope', 'payload'],
    [envelope({ signatures: [{}] }), 'bundle/envelope', 'signatures.0.sig'],
    [envelope({ signatures: Array(65).fill({ sig: '' }) }), 'bundle/envelope', 'at most 64'],
    [envelope({ payloadType: 'application/json' }), 'bundle/envelope', 'payloadType "application/json"'],
    [envelope({ payloadType: 'application/vnd.stickpin.bundle.v2+json' }), 'bundle/schema-version', 'newer format'],
    [envelope({ payload: 'A'.repeat(4 * 87382) }), 'bundle/envelope', 'payload is larger than 262144'],
  ])('refuses a malformed envelope (%#)', (bytes, code, message) => {
    expect(() => parseEnvelope(bytes)).toThrow(
      expect.objectContaining({ code, message: expect.stringContaining(message) }),
    );
  });

  it('takes a payload of exactly the limit', () => {
    const payload = Buffer.alloc(limits.payloadBytes);
    expect(parseEnvelope(envelope({ payload: payload.toString('base64') })).payload).toEqual(payload);
  });

  it('reads back what formatEnvelope writes', () => {
    fc.assert(
      fc.property(
        fc.uint8Array(),
        fc.array(fc.record({ keyId: fc.string(), signature: fc.uint8Array() }), { maxLength: 5 }),
        (payload, raw) => {
          const signatures = raw.map(({ keyId, signature }) => ({ keyId, signature: Buffer.from(signature) }));
          const before = { payloadType: PAYLOAD_TYPE, payload: Buffer.from(payload), signatures };
          expect(parseEnvelope(formatEnvelope(before))).toEqual(before);
        },
      ),
    );
  });

  it('throws only AppError, for any bytes', () => {
    const wild = fc.oneof(
      fc.uint8Array().map((bytes) => Buffer.from(bytes)),
      fc.json().map((text) => Buffer.from(text)),
      fc
        .record({ payload: fc.jsonValue(), signatures: fc.jsonValue(), payloadType: fc.constant(PAYLOAD_TYPE) })
        .map(envelope),
    );
    fc.assert(
      fc.property(wild, (bytes) => {
        try {
          parseEnvelope(bytes);
        } catch (error) {
          expect(error).toBeInstanceOf(AppError);
        }
      }),
    );
  });
});
