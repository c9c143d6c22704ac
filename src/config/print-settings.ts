import type { Section } from '../domain/settings/settings-table.ts';
import { settingsTable } from '../domain/settings/settings-table.ts';

/**
 * Settings as they are written in `stickpin.toml`: sections with their keys. Keys without a value
 * are left out.
 */
export type WrittenSettings = Readonly<Record<string, Readonly<Record<string, WrittenValue>>>>;

/** What a setting may be in a file. */
export type WrittenValue = string | number | boolean | readonly (string | number)[];

/** The content of a `stickpin.toml` that was found valid. */
export type SettingsFile = Readonly<Record<string, Readonly<Record<string, unknown>>>>;

/**
 * All settings as they are written: the value of the file, else the default of the table, in the
 * order of the table. Nothing is converted: a duration keeps its unit.
 */
export function writtenSettings(file: SettingsFile): WrittenSettings {
  return Object.fromEntries(
    Object.entries<Section>(settingsTable).map(([name, { settings }]) => {
      const values = Object.entries(settings).map(([key, setting]) => [key, file[name]?.[key] ?? setting.default]);
      return [name, Object.fromEntries(values.filter(([, value]) => value !== undefined))];
    }),
  );
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
  if (typeof value === 'object') return `[${value.map(tomlOf).join(', ')}]`;
  // Every JSON string is a TOML basic string, except that TOML wants DEL escaped.
  return JSON.stringify(value).replaceAll('\u007f', '\\u007f');
}
