import { access, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parse } from 'toml';
import * as v from 'valibot';
import { deepFreeze, jointFaults, type Settings, settingsSchema } from '../domain/settings/settings.ts';
import { AppError, FaultList, reasonOf, systemCodeOf } from '../platform/app-error.ts';
import { clip } from '../platform/plain-text.ts';
import { schemaFault, type TomlFault, tomlFault, valueWord } from '../platform/schema-fault.ts';
import type { SettingsFile } from './print-settings.ts';

/** The sources of the settings, in order; a later source wins, key by key. */
export interface SettingsSources {
  /**
   * Folders of `*.toml` fragments and single files; missing ones are skipped, unless a file is
   * `required`.
   */
  readonly fragments: readonly SettingsFragment[];
}

/** One place to read settings from. */
export type SettingsFragment = { readonly folder: string } | { readonly file: string; readonly required?: boolean };

/** The sources on a node: vendor, running system and administrator. */
export const NODE_SOURCES: SettingsSources = {
  fragments: [
    { folder: '/usr/lib/stickpin/stickpin.toml.d' },
    { file: '/etc/stickpin/stickpin.toml' },
    { folder: '/run/stickpin/stickpin.toml.d' },
    { folder: '/etc/stickpin/stickpin.toml.d' },
  ],
};

export type Table = Record<string, unknown>;

/** One file that was read. */
interface Fragment {
  readonly path: string;
  readonly text: string;
  readonly table: Table;
}

/** The result of reading the sources. */
export interface LoadedSettings {
  readonly settings: Settings;
  /** All sources as one file, with the values as they are written there. */
  readonly file: SettingsFile;
}

/**
 * Reads, merges and validates the settings. If there are no sources, it returns the defaults.
 * @throws AppError `config/syntax`, `config/key`, `config/file` (`reject`): each names the file and
 * the key
 */
export async function loadSettings(sources: SettingsSources, signal: AbortSignal): Promise<Settings> {
  return (await readSettings(sources, signal)).settings;
}

/** {@link loadSettings} with the merged values of the sources. */
export async function readSettings(sources: SettingsSources, signal: AbortSignal): Promise<LoadedSettings> {
  let merged: Table = {};
  const faults = new FaultList();
  const read: Fragment[] = [];
  for (const path of await listFragments(sources, faults, signal)) {
    await faults.of(async () => {
      const fragment = await readFragment(path, signal);
      check(fragment.table, [fragment], faults);
      read.push(fragment);
      merged = merge(merged, fragment.table);
    });
  }
  refuseAny(faults);
  const settings = check(merged, read, faults);
  for (const { key, others, message } of settings === undefined ? [] : jointFaults(settings)) {
    const written = [key, ...others].find((one) => read.some(({ table }) => hasKey(table, one)));
    faults.add(refusal('config/key', `${placeOf(written ?? key, read)}: ${key} ${message}`));
  }
  refuseAny(faults);
  if (settings === undefined) throw new TypeError('settings without a fault are not valid');
  return { settings: deepFreeze(settings), file: merged as SettingsFile };
}

/** @param faults gets files in folders that would be ignored; default: they are not reported */
export async function listFragments(
  { fragments }: SettingsSources,
  faults: FaultList | undefined,
  signal: AbortSignal,
): Promise<string[]> {
  const paths: string[] = [];
  for (const fragment of fragments) {
    signal.throwIfAborted();
    if ('folder' in fragment) paths.push(...(await listFolder(fragment.folder, faults)));
    else {
      if (fragment.required)
        await access(fragment.file).catch((error: unknown) => Promise.reject(fileError(fragment.file, error)));
      paths.push(fragment.file);
    }
  }
  return paths;
}

async function listFolder(folder: string, faults: FaultList | undefined): Promise<string[]> {
  const names = await readdir(folder).catch((error: unknown) => {
    if (systemCodeOf(error) === 'ENOENT') return [];
    throw fileError(folder, error);
  });
  const visible = names.filter((name) => !name.startsWith('.') && !name.endsWith('~')).sort();
  const isFragment = (name: string) => name.endsWith('.toml');
  for (const foreign of visible.filter((name) => !isFragment(name))) {
    const why = 'would be ignored, because its name does not end in .toml; rename it or move it away';
    faults?.add(refusal('config/file', `${join(folder, foreign)} ${why}`));
  }
  return visible.filter(isFragment).map((name) => join(folder, name));
}

async function readFragment(path: string, signal: AbortSignal): Promise<Fragment> {
  let text: string;
  try {
    text = await readFile(path, { encoding: 'utf8', signal });
  } catch (error) {
    signal.throwIfAborted();
    if (systemCodeOf(error) === 'ENOENT') return { path, text: '', table: {} };
    throw fileError(path, error);
  }
  try {
    return { path, text, table: { ...(parse(text) as Table) } };
  } catch (error) {
    throw new AppError({
      code: 'config/syntax',
      message: `${path} is not TOML: ${faultWithLine(text, tomlFault(error))}`,
      disposition: 'reject',
      cause: error,
    });
  }
}

/** The most characters of a line. */
const MAX_SHOWN = 200;

/** Settings are not secret, so that the line is shown. */
function faultWithLine(text: string, { line, reason }: TomlFault): string {
  const shown = line === undefined ? '' : clip(text.split('\n')[line - 1]?.trim() ?? '', MAX_SHOWN);
  if (shown === '') return reason;
  const hint = /^[\w.-]+\s*=\s*[^\s"'[{]/.test(shown) ? ' (texts and durations are written in quotes)' : '';
  return `${reason}: ${shown}${hint}`;
}

function fileError(path: string, error: unknown): AppError {
  const isAbsent = systemCodeOf(error) === 'ENOENT';
  return new AppError({
    code: 'config/file',
    message: isAbsent ? `${path} is not there; check its name` : `${path} can't be read: ${reasonOf(error)}`,
    disposition: 'reject',
    cause: error,
  });
}

/** Returns undefined when it is not valid: the reason is in `faults`. */
function check(table: Table, files: readonly Fragment[], faults: FaultList): Settings | undefined {
  const result = v.safeParse(settingsSchema, table);
  if (result.success) return result.output;
  for (const issue of result.issues) {
    const why = issue.expected === 'never' ? 'is not a setting of stickpin; check its spelling' : faultOf(issue);
    const key = v.getDotPath(issue) ?? '';
    faults.add(refusal('config/key', `${placeOf(key, files)}: ${key} ${why}`));
  }
  return undefined;
}

/**
 * The file that decides about a key, and its line there: `/etc/stickpin/stickpin.toml: line 3`. A
 * key that no file has gives `the settings`.
 */
function placeOf(key: string, files: readonly Fragment[]): string {
  const file = files.length === 1 ? files[0] : files.findLast(({ table }) => hasKey(table, key));
  if (file === undefined) return 'the settings';
  const line = lineOf(key, file.text);
  return line === undefined ? file.path : `${file.path}: line ${line}`;
}

/** Elements of lists count too: `update.windows.0`. */
function hasKey(table: Table, key: string): boolean {
  let value: unknown = table;
  for (const part of key.split('.')) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, part)) return false;
    value = (value as Table)[part];
  }
  return true;
}

/** Returns undefined for a key in a rare form of TOML. Elements of lists have no line. */
function lineOf(key: string, text: string): number | undefined {
  let table = '';
  let found: number | undefined;
  for (const [index, line] of text.split('\n').entries()) {
    const [, header, name] = /^\s*(?:\[+([^\]]+)\]|([\w.-]+)\s*=)/.exec(line) ?? [];
    table = header?.trim() ?? table;
    const ownKey = name === undefined || table === '' ? (name ?? table) : `${table}.${name}`;
    const isMeant = (header !== undefined || name !== undefined) && (key === ownKey || key.startsWith(`${ownKey}.`));
    if (isMeant) found = index + 1;
  }
  return found;
}

const IN_TOML = { object: 'a table' };

function faultOf(issue: v.BaseIssue<unknown>): string {
  const fault = schemaFault(issue, IN_TOML);
  return fault === issue.message ? `${fault} (is ${valueWord(issue, IN_TOML)})` : fault;
}

function refuseAny(faults: FaultList): void {
  faults.throwAny('; all settings are in stickpin.toml(5)', 'config/key');
}

function refusal(code: string, message: string): AppError {
  return new AppError({ code, message, disposition: 'reject' });
}

export function merge(base: Table, over: Table): Table {
  const result: Table = { ...base };
  for (const [key, value] of Object.entries(over)) {
    const before = result[key];
    result[key] = isTable(value) && isTable(before) ? merge(before, value) : value;
  }
  return result;
}

export function isTable(value: unknown): value is Table {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Date);
}
