import { randomBytes } from 'node:crypto';
import { chmod, lstat, readFile, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { syncFolder, writeNewFile } from '../../platform/files/durable-file.ts';
import type { Log } from '../../platform/log.ts';

const TOKEN = /^[0-9a-f]{32}\n?$/;
const MODE = 0o600;
/** The token and the end of its line. */
const MAX_BYTES = 33;

/**
 * The token in the path of every mirror: 32 hex digits. It stays the same over restarts and boots,
 * because mirrors outlast the daemon. A missing or wrong file is replaced; then the mirrors are
 * written again. Never throws: a token that can't be stored is logged, and holds until the next
 * start.
 */
export async function openRegistryToken(path: string, log: Log): Promise<string> {
  try {
    const stored = await readToken(path);
    if (stored !== undefined) return stored;
  } catch (error) {
    log.warn({ err: error }, `${path} can't be read: ${reasonOf(error)}. The mirrors get a new token`);
  }
  const token = randomBytes(16).toString('hex');
  try {
    await store(path, token);
  } catch (error) {
    const message = `The token of the mirrors can't be stored in ${path}: ${reasonOf(error)}. The mirrors are written again at the next start`;
    log.warn({ err: error }, message);
  }
  return token;
}

async function readToken(path: string): Promise<string | undefined> {
  const stat = await lstat(path).catch((error: unknown) => {
    if (systemCodeOf(error) !== 'ENOENT') throw error;
    return undefined;
  });
  if (stat === undefined || !stat.isFile() || stat.size > MAX_BYTES) return undefined;
  const text = await readFile(path, 'utf8');
  if (!TOKEN.test(text)) return undefined;
  if ((stat.mode & 0o7777) !== MODE) await chmod(path, MODE);
  return text.trim();
}

async function store(path: string, token: string): Promise<void> {
  const staged = `${path}.stickpin-new`;
  await rm(staged, { recursive: true, force: true });
  await writeNewFile(staged, `${token}\n`, { mode: MODE });
  // A folder of that name can't be replaced by a file.
  if ((await lstat(path).catch(() => undefined))?.isDirectory()) await rm(path, { recursive: true });
  await rename(staged, path);
  await syncFolder(dirname(path));
}
