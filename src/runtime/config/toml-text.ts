import { isTable, TomlMoment, type TomlTable } from './config-file.ts';

/** TOML 1.0, "String". Lone surrogates are replaced by U+FFFD. */
export function tomlString(text: string): string {
  const escaped = Array.from(Buffer.from(text).toString(), (character) => {
    if (character === '"' || character === '\\') return `\\${character}`;
    const code = character.codePointAt(0) ?? 0;
    return code < 0x20 || code === 0x7f ? `\\u${code.toString(16).padStart(4, '0')}` : character;
  });
  return `"${escaped.join('')}"`;
}

/** The text has one line. `value` comes from `parseToml()`. */
function tomlValue(value: unknown): string {
  if (typeof value === 'string') return tomlString(value);
  if (Array.isArray(value)) return `[${value.map(tomlValue).join(', ')}]`;
  if (typeof value === 'number') return tomlFloat(value);
  if (value instanceof TomlMoment) return value.text;
  if (!isTable(value)) return String(value);
  const members = Object.entries(value).map(([key, member]) => `${tomlString(key)} = ${tomlValue(member)}`);
  return `{ ${members.join(', ')} }`;
}

/** TOML 1.0, "Float": without a point or an exponent it would be an integer. */
function tomlFloat(value: number): string {
  if (Number.isNaN(value)) return 'nan';
  if (!Number.isFinite(value)) return value > 0 ? 'inf' : '-inf';
  const text = Object.is(value, -0) ? '-0' : String(value);
  return /[.e]/.test(text) ? text : `${text}.0`;
}

/** The values of the table, then each table in it under `[path.key]`. The root has the path ''. */
export function tomlTableLines(table: TomlTable, path = ''): string[] {
  const entries = Object.entries(table);
  const values = entries
    .filter(([, value]) => !isTable(value))
    .map(([key, value]) => `${tomlKey(key)} = ${tomlValue(value)}`);
  const tables = entries.flatMap(([key, value]) => {
    const name = path === '' ? tomlKey(key) : `${path}.${tomlKey(key)}`;
    return isTable(value) ? ['', `[${name}]`, ...tomlTableLines(value, name)] : [];
  });
  return [...values, ...tables];
}

function tomlKey(key: string): string {
  return /^[A-Za-z0-9_-]+$/.test(key) ? key : tomlString(key);
}

export interface MirrorAddress {
  /** `127.0.0.1:<port>` */
  readonly authority: string;
  /** 32 hex digits. */
  readonly token: string;
}

/** `http://127.0.0.1:5000/v2/<token>` */
export function mirrorBaseUrl({ authority, token }: MirrorAddress): string {
  return `http://${authority}/v2/${token}`;
}
