import { readFileSync, writeFileSync } from 'node:fs';

/**
 * Gives one byte of a file another value, the middle one by default; `at` below 0 counts from the
 * end.
 */
export function flipByte(file: string, at?: number): void {
  const bytes = readFileSync(file);
  const index = at === undefined ? bytes.length >> 1 : (bytes.length + at) % bytes.length;
  bytes.writeUInt8(bytes.readUInt8(index) ^ 1, index);
  writeFileSync(file, bytes);
}
