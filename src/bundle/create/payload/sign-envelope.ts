import { generateKeyPairSync } from 'node:crypto';
import { readdir, rm, stat } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { reasonOf, systemCodeOf } from '../../../platform/app-error.ts';
import { writeNewFile } from '../../../platform/files/durable-file.ts';
import { bundleError } from '../../bundle-error.ts';
import {
  type Envelope,
  type EnvelopeSignature,
  formatEnvelope,
  PAYLOAD_TYPE,
  preAuthenticationEncoding,
} from '../../format/dsse.ts';
import { parsePayload } from '../../format/schema.ts';
import { type PrivateKey, parsePublicKey, type SignatureAlgorithm } from '../../keys/keys.ts';
import { makeSignature, type SigningKey, signMessage } from '../../keys/signing.ts';
import { isBundleTar, openBundle } from '../../read/open-bundle.ts';
import { readEnvelope } from '../../verify/judge-bundle.ts';
import { checkSpace, replaceOutput } from '../output/staging.ts';
import { copyTarWithEnvelope } from '../output/volumes.ts';

/** An envelope of bundle format 1 around a payload, without signatures. */
export function unsignedEnvelope(payload: Buffer): Envelope {
  return { payloadType: PAYLOAD_TYPE, payload, signatures: [] };
}

/**
 * The envelope with a signature by `key` at its end; an earlier one by the same key is replaced.
 */
export function signEnvelope(envelope: Envelope, key: PrivateKey): Envelope {
  return withSignature(envelope, { keyId: key.keyId, signature: makeSignature(key, coveredBy(envelope)) });
}

/**
 * A new signature by `key` over the envelope's payload. @throws AppError `bundle/signer` (`reject`)
 */
export async function signatureOver(
  envelope: Envelope,
  key: SigningKey,
  signal: AbortSignal,
): Promise<EnvelopeSignature> {
  return { keyId: key.keyId, signature: await signMessage(key, coveredBy(envelope), signal) };
}

/** The envelope with `signature` at its end, in place of an earlier one by the same key. */
export function withSignature(envelope: Envelope, signature: EnvelopeSignature): Envelope {
  const others = envelope.signatures.filter(({ keyId }) => keyId !== signature.keyId);
  return { ...envelope, signatures: [...others, signature] };
}

function coveredBy({ payloadType, payload }: Envelope): Buffer {
  return preAuthenticationEncoding(payloadType, payload);
}

/**
 * Adds a signature to the bundle at `path`, or to every volume `path/1`, `path/2` … of one that is
 * spread. The key is used once. Volumes that got the signature before an error keep it; signing
 * them again is no harm.
 *
 * @returns the paths that were signed, and the envelope as it is now in all of them.
 * @throws AppError as {@link signBundle}; `bundle/inconsistent` (`reject`) when the volumes belong
 *   to different bundles.
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
    throw bundleError(
      'bundle/inconsistent',
      `${first} and ${other} are not volumes of one bundle: sign each bundle by itself`,
    );
  }
  const signature = await signatureOver(envelope, key, signal);
  for (const volume of others) {
    await writeSignature(volume, await readEnvelope(openBundle(volume), signal), signature, signal);
  }
  return { paths: volumes, envelope: await writeSignature(first, envelope, signature, signal) };
}

/**
 * Paths of the volumes in a folder that is not a bundle itself, by number; none when it is one, or
 * a file.
 */
async function volumesIn(path: string): Promise<string[]> {
  const names = await readdir(path).catch(() => []); // reading the bundle reports what is wrong
  if (names.some((name) => name.toLowerCase() === 'bundle.dsse.json')) return [];
  const numbers = names.filter((name) => /^[1-9][0-9]{0,3}$/.test(name)).map(Number);
  return numbers.sort((a, b) => a - b).map((number) => join(path, String(number)));
}

/**
 * Adds a signature to the bundle at `path`, replacing `bundle.dsse.json` atomically. A tar file is
 * rewritten as a whole, beside the old one.
 *
 * @returns the envelope as it is now.
 * @throws AppError `bundle/absent`, `bundle/envelope`, `bundle/payload` when it is not a bundle;
 *   `bundle/target`, `bundle/no-space`; `bundle/signer`.
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

/** The files of a new key pair. */
interface GeneratedKey {
  readonly keyId: string;
  readonly algorithm: SignatureAlgorithm;
  /** PKCS#8 PEM, mode 0600. */
  readonly privatePath: string;
  /** SPKI PEM, mode 0644. */
  readonly publicPath: string;
}

/**
 * Makes a key pair and writes `<prefix>.key` and `<prefix>.pub`, both or neither. Existing files
 * are never overwritten.
 *
 * @throws AppError `bundle/option`, `bundle/target` (`reject`)
 */
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
