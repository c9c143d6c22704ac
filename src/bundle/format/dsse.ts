import * as v from 'valibot';
import { clip, quoted } from '../../platform/plain-text.ts';
import { bundleError } from '../bundle-error.ts';
import { limits } from '../limits.ts';
import { parseJson } from './json.ts';

export const PAYLOAD_TYPE = 'application/vnd.stickpin.bundle.v1+json';

/** `keyId` is a hint and may be empty. */
export interface EnvelopeSignature {
  readonly keyId: string;
  readonly signature: Buffer;
}

/** INVARIANT: nothing in it is trusted. */
export interface Envelope {
  readonly payloadType: string;
  readonly payload: Buffer;
  readonly signatures: readonly EnvelopeSignature[];
}

// DSSE (envelope.md) requires readers to ignore unknown members. Only the payload is signed.
const text = v.pipe(v.string(), v.maxLength(limits.envelopeBytes));
export const envelopeSchema = v.looseObject({
  payloadType: text,
  payload: text,
  signatures: v.pipe(
    v.array(v.looseObject({ keyid: v.nullish(text, ''), sig: text })),
    v.maxLength(limits.signatures, `must have at most ${limits.signatures} entries`),
  ),
});

/** DSSE v1 pre-authentication encoding (protocol.md): `DSSEv1 LEN type LEN payload`. */
export function preAuthenticationEncoding(payloadType: string, payload: Uint8Array): Buffer {
  const head = `DSSEv1 ${Buffer.byteLength(payloadType)} ${payloadType} ${payload.length} `;
  return Buffer.concat([Buffer.from(head), payload]);
}

/**
 * The size comes first, then JSON, base64 and type.
 *
 * @throws AppError `bundle/envelope`; `bundle/schema-version` for another format version
 */
export function parseEnvelope(bytes: Uint8Array): Envelope {
  if (bytes.length > limits.envelopeBytes) throw malformed(`larger than ${limits.envelopeBytes} bytes`);
  const parsed = parseJson(bytes, envelopeSchema, 'bundle.dsse.json', 'bundle/envelope');
  checkPayloadType(parsed.payloadType);
  const payload = decodeBase64(parsed.payload, 'payload');
  if (payload.length > limits.payloadBytes) throw malformed(`payload is larger than ${limits.payloadBytes} bytes`);
  return {
    payloadType: parsed.payloadType,
    payload,
    signatures: parsed.signatures.map(({ keyid, sig }, at) => ({
      keyId: keyid,
      signature: decodeBase64(sig, `signatures.${at}.sig`),
    })),
  };
}

/** Standard base64, members in the order of the specification. */
export function formatEnvelope(of: Envelope): Buffer {
  const text = JSON.stringify({
    payloadType: of.payloadType,
    payload: of.payload.toString('base64'),
    signatures: of.signatures.map(({ keyId, signature }) => ({ keyid: keyId, sig: signature.toString('base64') })),
  });
  return Buffer.from(`${text}\n`);
}

function checkPayloadType(found: string): void {
  if (found === PAYLOAD_TYPE) return;
  const shown = quoted(clip(found, 100));
  if (/^application\/vnd\.stickpin\.bundle\.v\d+\+json$/.test(found)) {
    const message = `bundle.dsse.json: payloadType ${shown} is a newer format: update stickpin`;
    throw bundleError('bundle/schema-version', message);
  }
  throw malformed(`payloadType ${shown} is not ${PAYLOAD_TYPE}`);
}

/** Accepts both alphabets of RFC 4648, as DSSE requires, with or without padding, but not mixed. */
function decodeBase64(text: string, member: string): Buffer {
  const digits = text.replace(/={1,2}$/, '');
  const isPadded = digits.length !== text.length;
  const isComplete = isPadded ? text.length % 4 === 0 : digits.length % 4 !== 1;
  if (!isComplete || !(/^[A-Za-z0-9+/]*$/.test(digits) || /^[A-Za-z0-9_-]*$/.test(digits))) {
    throw malformed(`${member} is not base64`);
  }
  return Buffer.from(digits, 'base64');
}

function malformed(why: string) {
  return bundleError('bundle/envelope', `bundle.dsse.json: ${why}`);
}
