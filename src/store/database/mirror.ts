import { existsSync, lstatSync, readdirSync, readFileSync, renameSync } from 'node:fs';
import { link, rename, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import Database from 'better-sqlite3';
import * as v from 'valibot';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import { oneAtATime } from '../../platform/async/concurrency.ts';
import { syncFolder, writeNewFile } from '../../platform/files/durable-file.ts';
import { openSeal, sealed, unreadable } from '../files/sealed-file.ts';
import { damagedName, fileWriteError } from '../files/write-error.ts';
import { MirrorParts, PARTED, partsOf, rowsSchema } from './mirror-parts.ts';
import { columnsOf, SUMMED_TABLES } from './row-sums.ts';
import { createTables, SCHEMA, versionError } from './schema.ts';

/** All tables but the history and the conditions. Of past releases only those that went back. */
const MIRRORED = [...SUMMED_TABLES, 'tag_given'] as const;
/** Those that are in the mirror itself, and not in its parts. */
const WHOLE = MIRRORED.filter((table) => !PARTED.some((parted) => parted === table));

const contentSchema = v.object({
  /** `user_version` of the database. */
  schema: v.pipe(v.number(), v.integer(), v.minValue(0)),
  origin: v.string(),
  /** Changes of the database until then, see {@link StateAge}. */
  counter: v.number(),
  /** The newest event. */
  revision: v.number(),
  tables: v.record(v.string(), rowsSchema),
  /** Names of files with rows, see {@link MirrorParts}. When it is read, `tables` has them too. */
  parts: v.record(v.string(), v.array(v.pipe(v.string(), v.regex(/^[0-9a-f]{64}$/)))),
});
export type MirrorContent = v.InferOutput<typeof contentSchema>;

interface NextGeneration {
  readonly content: MirrorContent;
  /** Parts that are not there yet, by name. */
  readonly files: ReadonlyMap<string, string>;
}

export interface Generation {
  readonly path: string;
  readonly content: MirrorContent;
  /** Milliseconds since the epoch. */
  readonly writtenAt: number;
  /** False for the one before the newest: the newest is damaged or gone. */
  readonly isNewest: boolean;
  /** What is lost with parts that are damaged or gone, as a phrase. */
  readonly lacks?: string;
}

/** How many changes a database has seen. A new database has another origin. */
export interface StateAge {
  readonly origin: string;
  readonly counter: number;
  /** Number of the newest event. */
  readonly revision: number;
}

/**
 * `state.json` and `state.json.before`: all that is recorded but the history and the conditions, as
 * it was after each change that must not be lost. Large rows are in files that both name, see
 * {@link MirrorParts}. INVARIANT: one of the two is whole at any time.
 */
export class Mirror {
  private readonly newestPath: string;
  private readonly beforePath: string;
  private newestState: ReadGeneration | undefined;
  private beforeState: ReadGeneration | undefined;
  /** What the newest generation is of. Undefined: not known, or there is none. */
  private written: Pick<MirrorContent, 'origin' | 'counter'> | undefined;
  private readonly parts: MirrorParts;
  private readonly inTurn = oneAtATime();
  private isHeld = false;

  /** @param databasePath the database that is mirrored; its folder has the mirror */
  constructor(
    databasePath: string,
    private readonly now: number,
  ) {
    this.newestPath = databasePath.replace(/(\.db)?$/, '.json');
    this.beforePath = `${this.newestPath}.before`;
    this.parts = new MirrorParts(databasePath.replace(/(\.db)?$/, '.parts'), now);
  }

  exists(): boolean {
    return existsSync(this.newestPath) || existsSync(this.beforePath);
  }

  /** Why generations could not be read from the disk, or not whole; they keep their names. */
  unreadable(): readonly string[] {
    const states = [this.newestState, this.beforeState];
    return [...states.map((state) => state?.unreadable), this.parts.damage()].flatMap((reason) => reason ?? []);
  }

  /** Those that can be used, the newer one first. @throws AppError `store/version` (`wait`) */
  generations(): readonly Generation[] {
    this.newestState ??= readGeneration(this.newestPath, true, this.parts, this.now);
    this.beforeState ??= readGeneration(this.beforePath, false, this.parts, this.now);
    return [this.newestState, this.beforeState].flatMap(({ whole }) => whole ?? []);
  }

  /** Why those that were read can't be used, with the name that each gets. */
  damage(): readonly { readonly path: string; readonly aside: string; readonly reason: string }[] {
    return [this.newestState, this.beforeState].flatMap((state) => state?.damaged ?? []);
  }

  /**
   * A damaged generation, under the name that it has now, which may have revocations that nothing
   * else has. @throws system errors
   */
  hidden(isRenamed: boolean): string | undefined {
    const [first] = this.damage();
    if (!isRenamed) return first?.path;
    this.setAside();
    const name = basename(this.newestPath);
    const aside = readdirSync(dirname(this.newestPath)).filter(
      (one) => one.startsWith(name) && one.includes('.damaged-'),
    );
    return aside.length === 0 ? undefined : join(dirname(this.newestPath), aside.sort().at(-1) ?? '');
  }

  /** A mirror of another database stays as it is until {@link release}. */
  hold(): void {
    this.isHeld = true;
  }

  /**
   * What was held is renamed, the newest last: it keeps its name until all is done. Returns the new
   * names, that of the newest first. @throws AppError `store/…` (`retry`)
   */
  release(): readonly string[] {
    const asides = [this.beforePath, this.newestPath].filter(existsSync).map((path) => {
      const aside = damagedName(path, this.now);
      try {
        renameSync(path, aside);
      } catch (error) {
        const message = `${path} can't be renamed to ${aside}: ${reasonOf(error)}`;
        throw fileWriteError(path, error, 'store/write', message);
      }
      return aside;
    });
    this.isHeld = false;
    return asides.reverse();
  }

  /** A generation that was read whole and turns out to be wrong. */
  doubt({ path }: Generation, reason: string): void {
    const damaged = { path, aside: damagedName(path, this.now), reason };
    if (path === this.newestPath) this.newestState = { damaged };
    else this.beforeState = { damaged };
  }

  /**
   * Durable. One after the other; `next` is called in its turn with the parts that are there, and
   * nothing is written when it returns undefined.
   * @throws AppError `store/no-space`, `store/read-only`, `store/write` (`retry`)
   */
  write(next: (present: ReadonlySet<string>) => NextGeneration | undefined, signal: AbortSignal): Promise<void> {
    return this.inTurn(signal, async () => {
      if (this.isHeld) throw this.heldError();
      const made = next(this.parts.present());
      if (made !== undefined) await this.writeNow(made, signal);
    });
  }

  /** A generation only names parts that are on the disk, and a part goes after all that name it. */
  private async writeNow({ content, files }: NextGeneration, signal: AbortSignal): Promise<void> {
    this.written ??= wholeContent(this.generations()[0]);
    // Two names of one file would be no generations.
    if (this.isCurrent(content)) return;
    // One that can't be read must not take the place of the earlier one.
    const isReadable = this.newestState?.unreadable === undefined;
    try {
      this.setAside();
      await this.parts.write(files, signal);
      const staged = join(dirname(this.newestPath), `.${basename(this.newestPath)}.new`);
      await rm(staged, { recursive: true, force: true });
      await writeNewFile(staged, sealed(content), { mode: 0o600, signal });
      // The earlier generation is replaced only when the new one is on the disk.
      if (isReadable && existsSync(this.newestPath)) {
        const before = `${this.beforePath}.new`;
        await rm(before, { recursive: true, force: true });
        await link(this.newestPath, before);
        await rename(before, this.beforePath);
        await syncFolder(dirname(this.beforePath));
      }
      await rename(staged, this.newestPath);
      await syncFolder(dirname(this.newestPath));
    } catch (error) {
      signal.throwIfAborted();
      const message = `${this.newestPath} can't be written: ${reasonOf(error)}`;
      throw fileWriteError(this.newestPath, error, 'store/write', message);
    }
    this.newestState = undefined;
    this.written = { origin: content.origin, counter: content.counter };
    await this.parts.removeSpare([this.newestPath, this.beforePath]);
  }

  /** Whether the newest generation has all of this. */
  isCurrent({ origin, counter }: StateAge): boolean {
    const { written } = this;
    return written?.origin === origin && written.counter === counter && existsSync(this.newestPath);
  }

  private heldError(): AppError {
    const message = `${this.newestPath} belongs to another state database, and could not be taken over yet`;
    return new AppError({ code: 'store/write', message, disposition: 'retry' });
  }

  /** Frees the memory of what was read. */
  forget(): void {
    const { origin, counter } = wholeContent(this.newestState?.whole ?? this.beforeState?.whole) ?? {};
    if (origin !== undefined && counter !== undefined) this.written = { origin, counter };
    if (this.newestState?.whole !== undefined) this.newestState = undefined;
    if (this.beforeState?.whole !== undefined) this.beforeState = undefined;
  }

  /** Renames what is damaged, or no file. @throws system errors */
  setAside(): void {
    this.parts.setAside();
    for (const { path, aside } of this.damage())
      if (lstatSync(path, { throwIfNoEntry: false })) renameSync(path, aside);
    const kept = (state: ReadGeneration | undefined) => (state?.unreadable === undefined ? undefined : state);
    [this.newestState, this.beforeState] = [kept(this.newestState), kept(this.beforeState)];
    const before = lstatSync(this.beforePath, { throwIfNoEntry: false });
    if (before?.isFile() === false) renameSync(this.beforePath, damagedName(this.beforePath, this.now));
  }
}

interface ReadGeneration {
  readonly whole?: Generation;
  readonly unreadable?: string;
  readonly damaged?: { readonly path: string; readonly aside: string; readonly reason: string };
}

/** Undefined when it lacks parts: then it is to be written again. */
function wholeContent(generation: Generation | undefined): MirrorContent | undefined {
  return generation?.lacks === undefined ? generation?.content : undefined;
}

function readGeneration(path: string, isNewest: boolean, parts: MirrorParts, now: number): ReadGeneration {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found === undefined) return {};
  const damaged = (reason: string): ReadGeneration => ({ damaged: { path, aside: damagedName(path, now), reason } });
  if (!found.isFile()) return damaged('it is not a file');
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    return { unreadable: unreadable(path, error).message };
  }
  const opened = openSeal(text);
  if (opened.kind === 'damaged') return damaged(opened.reason);
  const parsed = v.safeParse(contentSchema, opened.value);
  if (!parsed.success) return damaged('its content is not what stickpin writes');
  if (parsed.output.schema !== SCHEMA) throw versionError(path, `its schema is ${parsed.output.schema}, not ${SCHEMA}`);
  const filled = withParts(parsed.output, parts);
  return { whole: { path, ...filled, writtenAt: Math.floor(found.mtimeMs), isNewest } };
}

/** Leaves out the bundles whose content is damaged or gone. */
function withParts(content: MirrorContent, parts: MirrorParts): Pick<Generation, 'content' | 'lacks'> {
  const read = (table: (typeof PARTED)[number]) => content.parts[table]?.map((name) => parts.read(name)) ?? [];
  const [contents, brought] = [read('bundle_content'), read('brought_image')];
  const bundle_content = contents.flatMap((rows) => rows ?? []);
  const known = new Set(bundle_content.map(({ bundle_id }) => bundle_id));
  const { bundle = [], ...others } = content.tables;
  const lost = bundle.filter(({ bundle_id }) => !known.has(bundle_id));
  const tables = {
    ...{ ...others, bundle_content, brought_image: brought.flatMap((rows) => rows ?? []) },
    bundle: bundle.filter(({ bundle_id }) => known.has(bundle_id)),
  };
  const names = lost.map(({ name, version }) => `${name} ${version}`).join(', ');
  const lacks = [
    ...(lost.length === 0
      ? []
      : [`${names} is known again as far as the node has its documents, or when its stick is plugged in`]),
    ...(brought.includes(undefined)
      ? ['some images that stickpin pulled stay on the disk when their release is retired']
      : []),
  ].join(', and ');
  return { content: { ...content, tables }, ...(lacks !== '' && { lacks }) };
}

export function ageOf(database: Database.Database): StateAge {
  const origin = database.prepare<[], { id: string; counter: number }>('SELECT id, counter FROM origin').get();
  const revision = database.prepare<[], number | null>('SELECT max(event_id) FROM event').pluck().get() ?? 0;
  return { origin: origin?.id ?? '', counter: origin?.counter ?? 0, revision };
}

/** What the mirror of the database has to contain now, where these parts are `present`. */
export function mirrorOf(database: Database.Database, present: ReadonlySet<string>): NextGeneration {
  const rowsOf = (table: string) => (table === 'past' ? 'past WHERE rolled_back = 1' : table);
  const tables = WHOLE.map((table) => [table, database.prepare(`SELECT * FROM ${rowsOf(table)}`).all()]);
  const parts = PARTED.map((table) => ({ table, ...partsOf(database, table, present) }));
  const content = {
    ...{ schema: SCHEMA, ...ageOf(database), tables: Object.fromEntries(tables) },
    parts: Object.fromEntries(parts.map(({ table, names }) => [table, names])),
  };
  return { content, files: new Map(parts.flatMap(({ files }) => [...files])) };
}

/**
 * False for a database that has counted as many changes as this generation of it, and has other
 * rows: the disk has lost a page that it said to have written.
 */
export function isMirrored(database: Database.Database, { content, lacks }: Generation): boolean {
  const { origin, counter } = ageOf(database);
  if (origin !== content.origin || counter !== content.counter || lacks !== undefined) return true;
  const now = mirrorOf(database, new Set(Object.values(content.parts).flat())).content;
  const isSame = (one: unknown, other: unknown) => JSON.stringify(one) === JSON.stringify(other);
  return isSame(now.parts, content.parts) && WHOLE.every((name) => isSame(now.tables[name], content.tables[name]));
}

/**
 * Makes a database in memory. The caller closes it.
 * @throws SqliteError; AppError `store/row` (`fatal`) when it is not the content of a database
 */
export function databaseFrom({ tables, revision }: MirrorContent): Database.Database {
  const database = new Database(':memory:');
  try {
    database.transaction(() => {
      createTables(database);
      for (const table of MIRRORED) fill(database, table, tables[table] ?? []);
      // Events get higher numbers than before.
      database.prepare("INSERT INTO sqlite_sequence (name, seq) VALUES ('event', ?)").run(revision);
    })();
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}

function fill(database: Database.Database, table: string, all: v.InferOutput<typeof rowsSchema>): void {
  const known = new Set(columnsOf(database, table));
  for (const row of all) {
    const names = Object.keys(row);
    const unknown = names.find((name) => !known.has(name));
    if (unknown !== undefined) throw wrongContent(`${table} has a column ${JSON.stringify(unknown)}`);
    const sql = `INSERT INTO ${table} (${names.join(', ')}) VALUES (${names.map(() => '?').join(', ')})`;
    database.prepare(sql).run(...Object.values(row));
  }
}

function wrongContent(message: string): AppError {
  return new AppError({ code: 'store/row', message, disposition: 'fatal' });
}
