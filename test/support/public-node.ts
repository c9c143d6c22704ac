import { chmodSync, copyFileSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

/** A Node.js that every user of this machine may run. */
export interface PublicNode {
  readonly path: string;
  [Symbol.dispose](): void;
}

/**
 * The Node.js that runs the tests, or a copy of it where that one lies in a folder that others may
 * not enter.
 */
export function createPublicNode(): PublicNode {
  if (isPublic(process.execPath)) return { path: process.execPath, [Symbol.dispose]: () => undefined };
  const directory = mkdtempSync(join(tmpdir(), 'stickpin-node-'));
  const path = join(directory, 'node');
  copyFileSync(process.execPath, path);
  chmodSync(path, 0o755);
  chmodSync(directory, 0o755);
  return { path, [Symbol.dispose]: () => rmSync(directory, { recursive: true }) };
}

const OTHERS_MAY_ENTER = 0o001;

function isPublic(path: string): boolean {
  if ((statSync(path).mode & OTHERS_MAY_ENTER) === 0) return false;
  return path === '/' || isPublic(dirname(path));
}
