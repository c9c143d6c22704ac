import { createHash, createPrivateKey, createPublicKey, sign, verify } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';

/** Writes `SHA256SUMS` of the files, as sha256sum(1) checks it, and returns its path. */
export async function writeSums(dist, files) {
  const lines = await Promise.all(files.map(async (file) => `${await sha256Of(file)}  ${basename(file)}\n`));
  const path = join(dist, 'SHA256SUMS');
  // By name.
  await writeFile(path, lines.sort((a, b) => (a.slice(66) < b.slice(66) ? -1 : 1)).join(''));
  return path;
}

export async function sha256Of(file) {
  return createHash('sha256')
    .update(await readFile(file))
    .digest('hex');
}

/**
 * Signs a file with an Ed25519 key (PEM, PKCS #8), as `openssl pkeyutl -sign -rawin` does: the
 * signature is beside it, with `.sig`.
 *
 * @throws Error when there is no such key, or it is of another kind
 */
export async function signFile(path, keyPath) {
  const key = createPrivateKey(await readFile(keyPath));
  if (key.asymmetricKeyType !== 'ed25519') {
    throw new Error(
      `${keyPath} is a key for ${key.asymmetricKeyType}: take one of 'openssl genpkey -algorithm ed25519'`,
    );
  }
  const bytes = await readFile(path);
  const signature = sign(null, bytes, key);
  if (!verify(null, bytes, createPublicKey(key), signature))
    throw new Error(`${keyPath}: the signature can't be verified`);
  await writeFile(`${path}.sig`, signature);
  return `${path}.sig`;
}
