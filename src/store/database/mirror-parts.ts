import { lstatSync, readdirSync, readFileSync, renameSync } from 'node:fs';
import { readdir, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Database } from 'better-sqlite3';
import * as v from 'valibot';
import { hexOf } from '../../domain/model/digest.ts';
import { reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { digestOf } from '../../platform/digest.ts';
import { makeFolder, readIfPresent, syncFolder, writeNewFile } from '../../platform/files/durable-file.ts';
import { damagedName } from '../files/write-error.ts';
import { sumOfRow } from './row-sums.ts';

/**
 * Tables whose rows never change, and of which each release has many or large ones. The mirror
 * names the files that have them, so that a milestone of one release writes nothing of the others.
 */
export const PARTED = ['bundle_content', 'brought_image'] as const;

export const rowsSchema = v.array(v.record(v.string(), v.union([v.number(), v.string(), v.null()])));
type Rows = v.InferOutput<typeof rowsSchema>;

/** Ends a part after about 64 small rows: a row that comes or goes changes no other part. */
const LAST_OF_PART = /[0-3]0$/;
const NAME = /[0-9a-f]{64}/g;

/** The names of the parts of a table, and the content of those that are not `present`. */
export function partsOf(database: Database, table: (typeof PARTED)[number], present: ReadonlySet<string>) {
  const all = database
    .prepare<[], { id: number; sum: string }>(`SELECT rowid AS id, sum FROM ${table} ORDER BY rowid`)
    .all();
  const select = database.prepare(`SELECT * FROM ${table} WHERE rowid BETWEEN ? AND ? ORDER BY rowid`);
  const names: string[] = [];
  const files = new Map<string, string>();
  let part: (typeof all)[number][] = [];
  for (const [index, row] of all.entries()) {
    part.push(row);
    if (table === 'brought_image' && !LAST_OF_PART.test(row.sum) && index < all.length - 1) continue;
    const name = nameOf(part);
    names.push(name);
    if (!present.has(name)) files.set(name, JSON.stringify(select.all(part[0]?.id, row.id)));
    part = [];
  }
  return { names, files };
}

function nameOf(rows: readonly { readonly sum?: unknown }[]): string {
  return hexOf(digestOf(rows.map(({ sum }) => sum).join()));
}

/** The folder `state.parts`. The name of a file is a checksum of its rows: none is ever changed. */
export class MirrorParts {
  /** Why files that a generation names could not be used, by path. */
  private readonly bad = new Map<string, string>();
  /** Whether the names of all files are on the disk, as far as this process has seen to it. */
  private isSynced = false;
  /**
   * Names that a failed sync may have left out: Linux does not sync the same change twice
   * (fsync(2), "EIO").
   */
  private readonly unsynced = new Set<string>();

  constructor(
    private readonly folder: string,
    private readonly now: number,
  ) {}

  /** Undefined when the file is damaged or gone. */
  read(name: string): Rows | undefined {
    const path = join(this.folder, name);
    try {
      if (!lstatSync(path).isFile()) throw new Error('it is not a file');
      const rows = v.safeParse(rowsSchema, JSON.parse(readFileSync(path, 'utf8')));
      if (rows.success && nameOf(rows.output) === name && rows.output.every((row) => row.sum === sumOfRow(row)))
        return rows.output;
      this.bad.set(path, 'its checksum is wrong');
    } catch (error) {
      this.bad.set(path, systemCodeOf(error) === 'ENOENT' ? 'it is gone' : reasonOf(error));
    }
    return undefined;
  }

  /** One sentence, or undefined when all that was read could be used. */
  damage(): string | undefined {
    const [[path, reason] = []] = this.bad;
    if (path === undefined) return undefined;
    const others = this.bad.size === 1 ? '' : `; nor could ${this.bad.size - 1} more beside it`;
    return `${path} could not be used: ${reason}${others}`;
  }

  /** Renames what is damaged, or no folder. @throws system errors */
  setAside(): void {
    const isOdd = lstatSync(this.folder, { throwIfNoEntry: false })?.isDirectory() === false;
    for (const path of isOdd ? [this.folder] : this.bad.keys())
      if (lstatSync(path, { throwIfNoEntry: false })) renameSync(path, damagedName(path, this.now));
    this.bad.clear();
  }

  /** Names of the files that can be used as far as known. */
  present(): ReadonlySet<string> {
    try {
      const isUsable = (name: string) => !this.bad.has(join(this.folder, name)) && !this.unsynced.has(name);
      return new Set(readdirSync(this.folder).filter(isUsable));
    } catch {
      return new Set(); // writing to it will show why
    }
  }

  /** Durable. @throws system errors */
  async write(files: ReadonlyMap<string, string>, signal: AbortSignal): Promise<void> {
    if (files.size === 0 && this.isSynced) return;
    this.isSynced = false;
    await makeFolder(this.folder, 0o700);
    const staged = join(this.folder, '.new');
    for (const [name, content] of files) {
      await rm(staged, { recursive: true, force: true });
      await writeNewFile(staged, content, { mode: 0o600, signal });
      this.unsynced.add(name);
      await rename(staged, join(this.folder, name));
    }
    await syncFolder(this.folder);
    await syncFolder(dirname(this.folder));
    this.isSynced = true;
    this.unsynced.clear();
  }

  /** Removes what no generation names. What can't be removed now goes after a later write. */
  async removeSpare(generations: readonly string[]): Promise<void> {
    try {
      const texts = await Promise.all(generations.map(async (path) => (await readIfPresent(path)) ?? ''));
      const named = new Set(texts.flatMap((text) => text.match(NAME) ?? []));
      const spare = (await readdir(this.folder)).filter((name) => name.length === 64 && !named.has(name));
      for (const name of spare) await rm(join(this.folder, name), { recursive: true, force: true });
    } catch (error) {
      if (systemCodeOf(error) === undefined) throw error;
    }
  }
}
