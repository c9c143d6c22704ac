import type { Settings } from './schema.ts';

/** Settings as they are written in `stickpin.toml`: sections with their keys. Durations are text with a unit; what is not set is left out. */
export type WrittenSettings = Readonly<Record<string, Readonly<Record<string, WrittenValue>>>>;

type WrittenValue = string | number | boolean | readonly (string | number)[];

/** The settings that are durations: milliseconds in {@link Settings}, and seconds or text with a unit in a file. */
const DURATIONS: ReadonlySet<string> = new Set(['media.grace', 'preload.stall', 'lifecycle.soak']);

const UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1_000],
  ['ms', 1],
] as const;

/** The settings in the form in which a file has them. Read back they give the same settings. */
export function writtenSettings(settings: Settings): WrittenSettings {
  return Object.fromEntries(
    Object.entries(settings).map(([section, table]) => {
      const values = Object.entries(table).filter(([, value]) => value !== undefined) as [string, WrittenValue][];
      const write = (key: string, value: WrittenValue) =>
        DURATIONS.has(`${section}.${key}`) ? writtenDuration(Number(value)) : value;
      return [section, Object.fromEntries(values.map(([key, value]) => [key, write(key, value)]))];
    }),
  );
}

/** The settings as a `stickpin.toml` (TOML 1.0). */
export function printSettings(settings: Settings): string {
  return Object.entries(writtenSettings(settings))
    .map(([section, table]) => {
      const lines = Object.entries(table).map(([key, value]) => `${key} = ${tomlOf(value)}\n`);
      return `[${section}]\n${lines.join('')}`;
    })
    .join('\n');
}

/** In the largest unit of which it is a whole number: `"10 min"`, `"90 s"`. */
function writtenDuration(ms: number): string {
  const [unit, sizeMs] = UNITS.find(([, size]) => ms > 0 && ms % size === 0) ?? (ms === 0 ? ['s', 1_000] : ['ms', 1]);
  // No exponent: a setting takes plain decimals only.
  const amount = (ms / sizeMs).toLocaleString('en-US', { useGrouping: false, maximumFractionDigits: 20 });
  return `${amount} ${unit}`;
}

function tomlOf(value: WrittenValue): string {
  if (typeof value === 'object') return `[${value.map(tomlOf).join(', ')}]`;
  // Every JSON string is a TOML basic string, but for DEL, which TOML wants escaped.
  return JSON.stringify(value).replaceAll('\u007f', '\\u007f');
}
