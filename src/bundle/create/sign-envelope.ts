import { sign } from 'node:crypto';
import { join } from 'node:path';
import { openBundleDirectory } from '../bundle-directory.ts';
import { bundleError } from '../bundle-error.ts';
import { type Envelope, formatEnvelope, PAYLOAD_TYPE, preAuthenticationEncoding } from '../dsse.ts';
import { readEnvelope } from '../judge-bundle.ts';
import type { PrivateKey } from '../keys.ts';
import { isBundleTar } from '../open-bundle.ts';
import { parsePayload } from '../schema.ts';
import { replaceFile } from './staging.ts';

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
 * Adds a signature to the bundle at `path`, replacing `bundle.dsse.json` atomically.
 *
 * @returns the envelope as it is now.
 * @throws AppError `bundle/absent`, `bundle/envelope`, `bundle/payload` when it is no bundle; `bundle/target`, `bundle/no-space`.
 */
export async function signBundle(path: string, key: PrivateKey, signal: AbortSignal): Promise<Envelope> {
  if (isBundleTar(path)) {
    throw bundleError(
      'bundle/option',
      `${path} is a tar file, which can't be signed: sign the directory, then make the tar`,
    );
  }
  const envelope = await readEnvelope(openBundleDirectory(path), signal);
  parsePayload(envelope.payload);
  const signed = signEnvelope(envelope, key);
  signal.throwIfAborted();
  await replaceFile(join(path, 'bundle.dsse.json'), formatEnvelope(signed));
  return signed;
}
