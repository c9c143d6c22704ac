import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';

/** What an installation may take on the disk of a node. */
const LIMIT_BYTES = 150 * 1024 * 1024;

/**
 * One line that tells what the staged files take when they are installed, and what of it is
 * Node.js.
 *
 * @throws Error when that is more than 150 MiB
 */
export async function checkSize(stage) {
  const entries = await readdir(stage, { recursive: true, withFileTypes: true });
  const sizes = await Promise.all(entries.map((entry) => sizeOf(entry)));
  const total = sizes.reduce((sum, size) => sum + size, 0);
  const node = (await lstat(join(stage, 'lib/bin/node'))).size;
  const text = `${mebibytes(total)} installed, of which Node.js takes ${mebibytes(node)}`;
  if (total > LIMIT_BYTES) throw new Error(`${text}: ${mebibytes(LIMIT_BYTES)} is the limit`);
  return text;
}

/** In whole blocks of 4 KiB, as most filesystems keep it. */
async function sizeOf(entry) {
  const { size } = await lstat(join(entry.parentPath, entry.name));
  return Math.ceil(size / 4096) * 4096;
}

function mebibytes(bytes) {
  return `${(bytes / 1024 / 1024).toFixed(1)} MiB`;
}
