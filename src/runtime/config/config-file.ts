import { lstat, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parse } from 'toml';
import { reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { type DurableFile, readIfPresent, replaceFile } from '../../platform/files/durable-file.ts';
import { tomlFault } from '../../platform/schema-fault.ts';
import { configError, writeError } from '../cri/runtime-error.ts';

export type ConfigFile =
  | { readonly kind: 'read'; readonly path: string; readonly text: string }
  | {
      readonly kind: 'unreadable';
      readonly path: string;
      readonly reason: string;
      readonly isDangling: boolean;
    };

export interface ConfigFault {
  readonly file: string;
  readonly reason: string;
}

/** The text of the file, for example `1979-05-27T00:32:00.5-07:00`, so that nothing is lost. */
export class TomlMoment {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** Integers are bigint and floats are number, so that both can be written again unchanged. */
type ParsedToml =
  | { readonly kind: 'table'; readonly table: TomlTable }
  | { readonly kind: 'fault'; readonly reason: string };

export type TomlTable = Readonly<Record<string, unknown>>;

/** The parser appends the name of the time zone (`[UTC]`), which TOML doesn't have. */
const momentFrom = { from: (text: string) => new TomlMoment(text.replace(/\[.*$/, '')) };
const MOMENTS = { ZonedDateTime: momentFrom, PlainDateTime: momentFrom, PlainDate: momentFrom, PlainTime: momentFrom };

export function parseToml(text: string): ParsedToml {
  try {
    const table = parse(text, { bigint: true, useTemporal: true, temporal: MOMENTS }) as TomlTable;
    return isDeep(table, MAX_DEPTH)
      ? { kind: 'fault', reason: `its tables have more than ${MAX_DEPTH} levels` }
      : { kind: 'table', table };
  } catch (error) {
    return { kind: 'fault', reason: tomlFault(error).reason };
  }
}

/** What works on tables calls itself for each level, which a key such as `a.a.a` adds. */
const MAX_DEPTH = 64;

function isDeep(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return levels === 0 || Object.values(value).some((one) => isDeep(one, levels - 1));
}

export function isTable(value: unknown): value is TomlTable {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof TomlMoment);
}

/** Returns undefined when it is absent, for example removed since the directory was listed. */
export async function readConfigFile(path: string, signal: AbortSignal): Promise<ConfigFile | undefined> {
  try {
    return { kind: 'read', path, text: await readFile(path, { encoding: 'utf8', signal }) };
  } catch (error) {
    signal.throwIfAborted();
    const isMissing = systemCodeOf(error) === 'ENOENT';
    if (!isMissing) return { kind: 'unreadable', path, reason: reasonOf(error), isDangling: false };
    const found = await lstat(path).catch(() => undefined);
    if (found === undefined) return undefined;
    // The file was written in between.
    if (!found.isSymbolicLink()) return readConfigFile(path, signal);
    return { kind: 'unreadable', path, reason: reasonOf(error), isDangling: true };
  }
}

/** Names are in byte order; the files of a directory are at its position (Go's filepath.Walk). */
export async function walkFiles(directory: string, options: { readonly recursive: boolean }): Promise<string[]> {
  const found: string[] = [];
  for (const entry of await entriesOf(directory)) {
    const path = join(directory, entry.name);
    if (!entry.isDirectory()) found.push(path);
    else if (options.recursive) found.push(...(await walkFiles(path, options)));
  }
  return found;
}

async function entriesOf(directory: string) {
  try {
    const entries = await readdir(directory, { withFileTypes: true });
    return entries.sort((a, b) => Buffer.compare(Buffer.from(a.name), Buffer.from(b.name)));
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return [];
    throw error;
  }
}

/**
 * A file with one absolute path a line. Scripts read it when the daemon does not run. A file that
 * can't be read counts as empty.
 */
export class PathRecord {
  private unwritten: readonly string[] | undefined;

  /** @param knownAnyway scripts need no record of these */
  constructor(
    private readonly path: string,
    private readonly knownAnyway: readonly string[],
  ) {}

  /** The lines, in the order of writing. */
  async read(): Promise<readonly string[]> {
    const text = async () => (await readIfPresent(this.path).catch(() => undefined)) ?? '';
    return this.unwritten ?? (await text()).split('\n').filter((line) => line.startsWith('/'));
  }

  /** Durable. @throws AppError `runtime/config`, `runtime/write`, `runtime/no-space` */
  async write(paths: readonly string[]): Promise<void> {
    const unfit = paths.find((each) => each.includes('\n'));
    if (unfit !== undefined)
      throw configError(`The path ${JSON.stringify(unfit)} has a line break. Choose another name`);
    if (paths.length === 0 && (await this.read()).length === 0) return;
    try {
      await writeDurably({ path: this.path }, paths.map((each) => `${each}\n`).join(''));
      this.unwritten = undefined;
    } catch (error) {
      // A full disk must not keep anything from usual places.
      if (!paths.every((each) => this.knownAnyway.includes(each))) throw error;
      this.unwritten = paths;
    }
  }
}

/** Whether anything changed. @throws AppError `runtime/write`, `runtime/no-space` (`wait`) */
export async function writeDurably(file: DurableFile, content: string | Buffer): Promise<boolean> {
  try {
    return await replaceFile(file, content);
  } catch (error) {
    throw writeError(file.path, error);
  }
}
