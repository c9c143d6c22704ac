import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parse } from 'toml';
import * as v from 'valibot';
import {
  deepFreeze,
  defaultSettings,
  jointFaults,
  type Settings,
  settingsSchema,
} from '../domain/settings/settings.ts';
import { AppError } from '../platform/app-error.ts';
import { readIfPresent, replaceFile } from '../platform/files/durable-file.ts';
import { tomlFault } from '../platform/schema-fault.ts';
import { isTable, listFragments, merge, readSettings, type SettingsSources, type Table } from './load-settings.ts';
import type { SettingsFile } from './print-settings.ts';

interface UsableSettings {
  readonly settings: Settings;
  /** The fault of the sources. If there is one, `settings` are the last valid ones. */
  readonly fault: AppError | undefined;
  /** All sources, for {@link keepSettings}; undefined with a fault. */
  readonly file?: SettingsFile;
}

/** The settings that were valid last, beside a state whose place is a setting. */
const KEPT = 'settings.json';

/**
 * {@link loadSettings}, and if that fails: the last valid settings, or else the settings without
 * faulty keys. Both are good enough to keep what a node has, not to change it: a key that is left
 * out has its default.
 * @param folder with the last valid settings ({@link keepSettings}); undefined for none
 * @throws AppError `config/file` (`reject`): a required file is absent
 */
export async function loadUsableSettings(
  sources: SettingsSources,
  folder: string | undefined,
  signal: AbortSignal,
): Promise<UsableSettings> {
  try {
    return { ...(await readSettings(sources, signal)), fault: undefined };
  } catch (fault) {
    if (!(fault instanceof AppError)) throw fault;
    const usable = await usableTables(sources, signal);
    const kept = folder === undefined ? undefined : await readKept(join(folder, KEPT));
    return { settings: deepFreeze(usableIn(kept ?? usable)), fault };
  }
}

/** Returns undefined where there are none. */
async function readKept(path: string): Promise<Table | undefined> {
  try {
    const found: unknown = JSON.parse((await readIfPresent(path)) ?? '');
    return isTable(found) ? found : undefined;
  } catch {
    return undefined;
  }
}

/** Keeps valid settings for a start with wrong ones. @throws system errors */
export async function keepSettings(folder: string, file: SettingsFile, signal: AbortSignal): Promise<void> {
  await replaceFile({ path: join(folder, KEPT) }, JSON.stringify(file), signal);
}

async function usableTables({ fragments }: SettingsSources, signal: AbortSignal): Promise<Table> {
  let merged: Table = {};
  for (const fragment of fragments) {
    const listed = listFragments({ fragments: [fragment] }, undefined, signal);
    const paths = 'folder' in fragment ? await listed.catch(() => []) : await listed;
    for (const path of paths) {
      const text = await readFile(path, { encoding: 'utf8', signal }).catch(() => '');
      signal.throwIfAborted();
      merged = merge(merged, usableTable(text));
    }
  }
  return merged;
}

/** More faulty lines than a person makes: the file is something else. */
const MAX_FAULTY_LINES = 50;

/** The text without the lines that are no TOML. */
function usableTable(text: string): Table {
  const lines = text.split('\n');
  for (let tried = 0; tried < MAX_FAULTY_LINES; tried++) {
    try {
      return { ...(parse(lines.join('\n')) as Table) };
    } catch (error) {
      const { line } = tomlFault(error);
      if (line === undefined) return {};
      leaveOut(lines, line - 1);
    }
  }
  return {};
}

/** Removing a header also removes its section, whose keys would belong to the previous one. */
function leaveOut(lines: string[], index: number): void {
  const isHeader = (line: string | undefined) => line?.trimStart().startsWith('[') === true;
  const end = isHeader(lines[index]) ? lines.findIndex((line, at) => at > index && isHeader(line)) : index + 1;
  lines.fill('', index, end === -1 ? lines.length : end);
}

function usableIn(table: Table): Settings {
  let usable = table;
  for (;;) {
    const result = v.safeParse(settingsSchema, usable);
    const faulty = result.success
      ? jointFaults(result.output).map(({ key, others }) => [key, ...others].map((one) => one.split('.')))
      : result.issues.map(({ path = [] }) => [path.map(({ key }) => String(key))]);
    if (result.success && faulty.length === 0) return result.output;
    const next = faulty.reduce((settings, places) => withoutFirst(settings, places), usable);
    if (next === usable) return defaultSettings;
    usable = next;
  }
}

/** Removes the first of these keys that the table has. Returns the same table when it has none. */
function withoutFirst(table: Table, places: readonly (readonly string[])[]): Table {
  for (const place of places) {
    const next = without(table, place);
    if (next !== table) return next;
  }
  return table;
}

/** A list goes as a whole. */
function without(table: Table, [key = '', ...inner]: readonly string[]): Table {
  if (!Object.hasOwn(table, key)) return table;
  const { [key]: value, ...others } = table;
  if (inner.length === 0 || !isTable(value)) return others;
  const next = without(value, inner);
  return next === value ? table : { ...table, [key]: next };
}
