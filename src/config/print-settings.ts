import type { Section } from '../domain/settings/sections.ts';
import { settingsTable } from '../domain/settings/settings.ts';

/**
 * Settings as they are written in `stickpin.toml`: sections with their keys; `streams.ocp` is a
 * section. Keys without a value are left out.
 */
export type WrittenSettings = Readonly<Record<string, Readonly<Record<string, WrittenValue>>>>;

/** A value of a setting in a file. */
export type WrittenValue =
  | string
  | number
  | boolean
  | readonly WrittenValue[]
  | { readonly [key: string]: WrittenValue };

type Table = Readonly<Record<string, unknown>>;

/** The content of a valid `stickpin.toml`. */
export type SettingsFile = Readonly<Record<string, Table>>;

/**
 * All settings as they are written: the value of the file, else the default of the table, in the
 * order of the table. Nothing is converted: a duration keeps its unit.
 */
export function writtenSettings(file: SettingsFile): WrittenSettings {
  return Object.fromEntries(
    Object.entries<Section>(settingsTable).flatMap(([name, section]) => {
      const written = file[name] ?? {};
      if (section.isNamed !== true) return [[name, writtenSection(section, written)]];
      return Object.entries(written).map(([one, table]) => [`${name}.${one}`, writtenSection(section, table as Table)]);
    }),
  );
}

function writtenSection({ settings }: Section, written: Table): WrittenSettings[string] {
  const values = Object.entries(settings).map(([key, setting]) => [key, written[key] ?? setting.default]);
  return Object.fromEntries(values.filter(([, value]) => value !== undefined));
}

/** The settings as a `stickpin.toml` (TOML 1.0) that gives the same settings when it is read. */
export function printSettings(written: WrittenSettings): string {
  return Object.entries(written)
    .map(([section, table]) => {
      const lines = Object.entries(table).map(([key, value]) => `${key} = ${tomlOf(value)}\n`);
      return `[${section}]\n${lines.join('')}`;
    })
    .join('\n');
}

/** A value as TOML writes it. */
export function tomlOf(value: WrittenValue): string {
  if (isList(value)) return `[${value.map(tomlOf).join(', ')}]`;
  if (typeof value === 'object') {
    const members = Object.entries(value).map(([key, member]) => `${key} = ${tomlOf(member)}`);
    return `{ ${members.join(', ')} }`;
  }
  // Every JSON string is a TOML basic string, except that TOML wants DEL escaped.
  return JSON.stringify(value).replaceAll('\u007f', '\\u007f');
}

function isList(value: WrittenValue): value is readonly WrittenValue[] {
  return Array.isArray(value);
}
