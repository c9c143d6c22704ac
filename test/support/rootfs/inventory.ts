import { createHash } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { execute } from './execute.ts';

const fileName = '.inventory';

/**
 * Notes what lies in a directory that is complete. Everything is on the disk when this returns, so
 * that a host which loses power keeps either all of it or no note.
 */
export async function writeInventory(directory: string): Promise<void> {
  await execute(['sync', '--file-system', directory]);
  await writeFile(join(directory, fileName), await inventoryOf(directory));
}

/** Whether the directory holds what was noted: the same names, types, sizes, modes and times. */
export async function fitsInventory(directory: string): Promise<boolean> {
  try {
    return (await readFile(join(directory, fileName), 'utf8')) === (await inventoryOf(directory));
  } catch {
    return false;
  }
}

async function inventoryOf(directory: string): Promise<string> {
  const argv = ['find', directory, '-mindepth', '1', '!', '-path', join(directory, fileName)];
  const entries = await execute([...argv, '-printf', '%P\\t%y\\t%s\\t%m\\t%T@\\t%l\\0']);
  return createHash('sha256').update(entries.split('\0').sort().join('\0')).digest('hex');
}
