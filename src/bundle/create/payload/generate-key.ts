import { generateKeyPairSync } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { basename } from 'node:path';
import { reasonOf, systemCodeOf } from '../../../platform/app-error.ts';
import { writeNewFile } from '../../../platform/files/durable-file.ts';
import { bundleError } from '../../bundle-error.ts';
import { parsePublicKey, type SignatureAlgorithm } from '../../keys/keys.ts';

/** The files of a new key pair. */
export interface GeneratedKey {
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
