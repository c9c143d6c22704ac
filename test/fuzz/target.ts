import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { AppError } from '../../src/platform/app-error.ts';

/** Reads bytes of somebody else. Each error that it throws is a finding. */
export type Target = (data: Buffer) => void | Promise<void>;

/** What is thrown is shown on a terminal and written into the journal. */
const LONGEST_MESSAGE = 20_000;

/** Returns undefined where the product refuses, which it does with an AppError. */
export function read<T>(parse: () => T): T | undefined {
  try {
    return parse();
  } catch (error) {
    return refused(error);
  }
}

/** {@link read} for what reads files or waits. */
export async function readLater<T>(parse: () => Promise<T>): Promise<T | undefined> {
  try {
    return await parse();
  } catch (error) {
    return refused(error);
  }
}

function refused(error: unknown): undefined {
  if (!(error instanceof AppError)) throw error;
  assert(error.message.length < LONGEST_MESSAGE, `the message has ${error.message.length} characters`);
  return undefined;
}

/** Fails where what `parse` accepts does not read back from what `write` makes of it. */
export function readsBack<T>(data: Buffer, parse: (bytes: Buffer) => T, write: (value: T) => string | Buffer): void {
  const first = read(() => parse(data));
  if (first !== undefined) assert.deepEqual(parse(Buffer.from(write(first))), first);
}

/** Returns undefined for what is no JSON. */
export function json(data: Buffer | string): unknown {
  try {
    return JSON.parse(String(data));
  } catch {
    return undefined;
  }
}

/** The texts between the separators, at least `count`; missing ones are empty. */
export function parts(data: Buffer, count: number, separator = '\n'): string[] {
  const found = data.toString().split(separator);
  return [...found, ...Array.from({ length: Math.max(0, count - found.length) }, () => '')];
}

/** The bytes in chunks of this size. */
export function* cut(bytes: Buffer, size: number): Generator<Buffer> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

/** All texts in a JSON value, names included. */
export function textsIn(value: unknown): readonly string[] {
  if (typeof value === 'string') return [value];
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, child]) => [name, ...textsIn(child)]);
}

/** Calls `use` with a file of these bytes, and a path beside it. Nothing else may be left there. */
export async function withFile(data: Buffer, use: (file: string, beside: string) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'stickpin-fuzz-'));
  try {
    writeFileSync(join(folder, 'file'), data);
    await use(join(folder, 'file'), join(folder, 'beside'));
    assert.deepEqual(
      readdirSync(folder).filter((name) => name !== 'beside'),
      ['file'],
    );
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
