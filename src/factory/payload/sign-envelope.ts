import { generateKeyPairSync } from 'node:crypto';
import { readdir, rm, stat } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { bundleError } from '../../bundle/bundle-error.ts';
import {
  type Envelope,
  type EnvelopeSignature,
  formatEnvelope,
  PAYLOAD_TYPE,
  preAuthenticationEncoding,
} from '../../bundle/format/dsse.ts';
import { parsePayload } from '../../bundle/format/schema.ts';
import { type PrivateKey, parsePublicKey, type SignatureAlgorithm } from '../../bundle/keys/keys.ts';
import { isBundleTar, openBundle } from '../../bundle/read/open-bundle.ts';
import { readEnvelope } from '../../bundle/verify/judge-bundle.ts';
import { reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { writeNewFile } from '../../platform/files/durable-file.ts';
import { checkSpace, replaceOutput } from '../output/staging.ts';
import { copyTarWithEnvelope } from '../output/volumes.ts';
import { makeSignature, type SigningKey, signMessage } from './signer.ts';

export function unsignedEnvelope(payload: Buffer): Envelope {
  return { payloadType: PAYLOAD_TYPE, payload, signatures: [] };
}

/** The signature goes to the end; an earlier one by the same key is replaced. */
export function signEnvelope(envelope: Envelope, key: PrivateKey): Envelope {
  return withSignature(envelope, { keyId: key.keyId, signature: makeSignature(key, coveredBy(envelope)) });
}

/** @throws AppError `bundle/signer` (`reject`) */
export async function signatureOver(
  envelope: Envelope,
  key: SigningKey,
  signal: AbortSignal,
): Promise<EnvelopeSignature> {
  return { keyId: key.keyId, signature: await signMessage(key, coveredBy(envelope), signal) };
}

export function withSignature(envelope: Envelope, signature: EnvelopeSignature): Envelope {
  const others = envelope.signatures.filter(({ keyId }) => keyId !== signature.keyId);
  return { ...envelope, signatures: [...others, signature] };
}

function coveredBy({ payloadType, payload }: Envelope): Buffer {
  return preAuthenticationEncoding(payloadType, payload);
}

/**
 * Signs the bundle at `path`, or every volume `path/1`, `path/2` …, using the key once. Signing
 * again is no harm. @returns the signed paths, and their envelope
 *
 * @throws AppError as {@link signBundle}; `bundle/inconsistent` for volumes of different bundles
 */
export async function signVolumes(
  path: string,
  key: SigningKey,
  signal: AbortSignal,
): Promise<{ readonly paths: readonly string[]; readonly envelope: Envelope }> {
  const volumes = await volumesIn(path);
  const [first, ...others] = volumes;
  if (first === undefined) return { paths: [path], envelope: await signBundle(path, key, signal) };
  const envelope = await readEnvelope(openBundle(first), signal);
  for (const other of others) {
    if ((await readEnvelope(openBundle(other), signal)).payload.equals(envelope.payload)) continue;
    const message = `${first} and ${other} are not volumes of one bundle: sign each bundle by itself`;
    throw bundleError('bundle/inconsistent', message);
  }
  const signature = await signatureOver(envelope, key, signal);
  for (const volume of others) {
    await writeSignature(volume, await readEnvelope(openBundle(volume), signal), signature, signal);
  }
  return { paths: volumes, envelope: await writeSignature(first, envelope, signature, signal) };
}

/** By number; none for a bundle or a file. */
async function volumesIn(path: string): Promise<string[]> {
  const names = await readdir(path).catch(() => []); // reading the bundle reports what is wrong
  if (names.some((name) => name.toLowerCase() === 'bundle.dsse.json')) return [];
  const numbers = names.filter((name) => /^[1-9][0-9]{0,3}$/.test(name)).map(Number);
  return numbers.sort((a, b) => a - b).map((number) => join(path, String(number)));
}

/**
 * Replaces `bundle.dsse.json` atomically. A tar file is rewritten whole, beside the old one.
 *
 * @throws AppError `bundle/absent`, `bundle/envelope`, `bundle/payload` when it is not a bundle;
 *   `bundle/target`, `bundle/no-space`; `bundle/signer`
 */
export async function signBundle(path: string, key: SigningKey, signal: AbortSignal): Promise<Envelope> {
  const envelope = await readEnvelope(openBundle(path), signal);
  return writeSignature(path, envelope, await signatureOver(envelope, key, signal), signal);
}

async function writeSignature(
  path: string,
  envelope: Envelope,
  signature: EnvelopeSignature,
  signal: AbortSignal,
): Promise<Envelope> {
  const { created } = parsePayload(envelope.payload);
  const signed = withSignature(envelope, signature);
  const bytes = formatEnvelope(signed);
  signal.throwIfAborted();
  if (isBundleTar(path)) {
    await checkSpace(dirname(resolve(path)), (await stat(path)).size);
    await replaceOutput(path, (temporary) => copyTarWithEnvelope(path, temporary, { bytes, created }, signal));
  } else {
    await replaceOutput(join(path, 'bundle.dsse.json'), (temporary) => writeNewFile(temporary, bytes));
  }
  return signed;
}

interface GeneratedKey {
  readonly keyId: string;
  readonly algorithm: SignatureAlgorithm;
  /** PKCS#8 PEM, mode 0600. */
  readonly privatePath: string;
  /** SPKI PEM, mode 0644. */
  readonly publicPath: string;
}

/** Both files or neither; never overwrites. @throws AppError `bundle/option`, `bundle/target` */
export async function generateKey(prefix: string, algorithm: SignatureAlgorithm): Promise<GeneratedKey> {
  if (prefix.endsWith('/') || ['', '.', '..'].includes(basename(prefix))) {
    throw bundleError('bundle/option', `--out '${prefix}' has no file name: give a prefix as ./factory-2026`);
  }
  const { publicKey, privateKey } =
    algorithm === 'ed25519' ? generateKeyPairSync('ed25519') : generateKeyPairSync('ec', { namedCurve: 'prime256v1' });
  const publicPem = publicKey.export({ type: 'spki', format: 'pem' }).toString();
  const privatePem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
  const [privatePath, publicPath] = [`${prefix}.key`, `${prefix}.pub`];
  await writeNew(privatePath, privatePem, 0o600);
  try {
    await writeNew(publicPath, publicPem, 0o644);
  } catch (error) {
    await rm(privatePath, { force: true });
    throw error;
  }
  return { keyId: parsePublicKey(publicPem, publicPath).keyId, algorithm, privatePath, publicPath };
}

async function writeNew(path: string, text: string, mode: number): Promise<void> {
  try {
    await writeNewFile(path, text, { mode });
  } catch (cause) {
    // A file that was written in part is not a key.
    if (systemCodeOf(cause) !== 'EEXIST') await rm(path, { force: true }).catch(() => undefined);
    const why =
      systemCodeOf(cause) === 'EEXIST' ? 'it exists already, and keys are never overwritten' : reasonOf(cause);
    throw bundleError('bundle/target', `${path} can't be written: ${why}`, { cause });
  }
}
