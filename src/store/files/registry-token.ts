import { randomBytes } from 'node:crypto';
import { lstat, readFile, rm } from 'node:fs/promises';
import { reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { replaceFile } from '../../platform/files/durable-file.ts';
import type { Log } from '../../platform/log.ts';

const TOKEN = /^[0-9a-f]{32}\n?$/;
/** The token and the end of its line. */
const MAX_BYTES = 33;

/**
 * The token in the path of every mirror: 32 hex digits. It stays the same over restarts and boots,
 * because mirrors outlast the daemon. A missing or wrong file is replaced; then the mirrors are
 * written again. Never throws: a token that can't be stored is logged, and holds until the next
 * start.
 */
export async function openRegistryToken(path: string, log: Log): Promise<string> {
  const stored = await readToken(path).catch((error: unknown) => {
    log.warn({ err: error }, `${path} can't be read: ${reasonOf(error)}. The mirrors get a new token`);
    return undefined;
  });
  const token = stored ?? randomBytes(16).toString('hex');
  try {
    // A folder of that name can't be replaced by a file.
    if (stored === undefined) await rm(path, { recursive: true, force: true });
    await replaceFile({ path, mode: 0o600 }, `${token}\n`);
  } catch (error) {
    const message = `The token of the mirrors can't be stored in ${path}: ${reasonOf(error)}. The mirrors are written again at the next start`;
    log.warn({ err: error }, message);
  }
  return token;
}

/** Undefined when there is no file with a token. @throws system errors */
async function readToken(path: string): Promise<string | undefined> {
  const stat = await lstat(path).catch((error: unknown) => {
    if (!['ENOENT', 'ENOTDIR'].includes(systemCodeOf(error) ?? '')) throw error;
    return undefined;
  });
  if (stat === undefined || !stat.isFile() || stat.size > MAX_BYTES) return undefined;
  const text = await readFile(path, 'utf8');
  return TOKEN.test(text) ? text.trim() : undefined;
}
