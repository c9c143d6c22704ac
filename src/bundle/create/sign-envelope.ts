import { sign } from 'node:crypto';
import { stat } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { type Envelope, formatEnvelope, PAYLOAD_TYPE, preAuthenticationEncoding } from '../dsse.ts';
import { readEnvelope } from '../judge-bundle.ts';
import type { PrivateKey } from '../keys.ts';
import { isBundleTar, openBundle } from '../open-bundle.ts';
import { parsePayload } from '../schema.ts';
import { checkSpace, replaceFile, writeSynced } from './staging.ts';
import { copyTarWithEnvelope } from './write-tar.ts';

/** An envelope of bundle format 1 around a payload, without signatures. */
export function unsignedEnvelope(payload: Buffer): Envelope {
  return { payloadType: PAYLOAD_TYPE, payload, signatures: [] };
}

/** The envelope with a signature by `key` at its end; an earlier one by the same key is replaced. */
export function signEnvelope(envelope: Envelope, { keyId, algorithm, key }: PrivateKey): Envelope {
  const covered = preAuthenticationEncoding(envelope.payloadType, envelope.payload);
  const signature =
    algorithm === 'ed25519' ? sign(null, covered, key) : sign('sha256', covered, { key, dsaEncoding: 'der' });
  const others = envelope.signatures.filter((other) => other.keyId !== keyId);
  return { ...envelope, signatures: [...others, { keyId, signature }] };
}

/**
 * Adds a signature to the bundle at `path`, replacing `bundle.dsse.json` atomically. A tar file is written anew as a whole, beside the old one.
 *
 * @returns the envelope as it is now.
 * @throws AppError `bundle/absent`, `bundle/envelope`, `bundle/payload` when it is no bundle; `bundle/target`, `bundle/no-space`.
 */
export async function signBundle(path: string, key: PrivateKey, signal: AbortSignal): Promise<Envelope> {
  const envelope = await readEnvelope(openBundle(path), signal);
  const { created } = parsePayload(envelope.payload);
  const signed = signEnvelope(envelope, key);
  const bytes = formatEnvelope(signed);
  signal.throwIfAborted();
  if (isBundleTar(path)) {
    await checkSpace(dirname(resolve(path)), (await stat(path)).size);
    await replaceFile(path, (temporary) => copyTarWithEnvelope(path, temporary, { bytes, created }, signal));
  } else {
    await replaceFile(join(path, 'bundle.dsse.json'), (temporary) => writeSynced(temporary, bytes));
  }
  return signed;
}
