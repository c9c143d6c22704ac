import type { Database } from 'better-sqlite3';
import { digestOf } from '../../platform/digest.ts';

/** Decisions depend on these. SQLite does not notice a flipped bit within a value. */
export const SUMMED_TABLES = [
  'bundle_content',
  'bundle',
  'past',
  'brought_image',
  'cancellation',
  'verdict',
  'rejected_name',
  'rotated_key',
  'revoked_key',
  'origin',
  'document',
] as const;

/**
 * Call it before the other functions of this file. The SQL function `row_sum(name, value, …)` is
 * SHA-256 over the JSON of all columns that are not NULL.
 */
export function registerRowSum(database: Database): void {
  database.function('row_sum', { varargs: true, deterministic: true }, (...parts: unknown[]) =>
    sumOf(parts.flatMap((name, at) => (at % 2 === 0 ? [[name, parts[at + 1]]] : []))),
  );
}

/** The checksum that a row must have which was read as it is. */
export function sumOfRow(row: Readonly<Record<string, unknown>>): string {
  return sumOf(Object.entries(row).filter(([name]) => name !== 'sum'));
}

function sumOf(pairs: readonly (readonly unknown[])[]): string {
  return digestOf(JSON.stringify(pairs.filter(([, value]) => value !== null)));
}

export function keepRowSums(database: Database): void {
  for (const table of SUMMED_TABLES) {
    const covers = coveredIn(database, table);
    const refresh = `UPDATE ${table} SET sum = ${expression(covers)} WHERE rowid = NEW.rowid`;
    const trigger = `CREATE TEMP TRIGGER ${table}_sum`;
    database.exec(`${trigger}_insert AFTER INSERT ON main.${table} BEGIN ${refresh}; END`);
    database.exec(`${trigger}_update AFTER UPDATE OF ${covers.join(', ')} ON main.${table} BEGIN ${refresh}; END`);
  }
}

/** Undefined when all checksums are right. */
export function tableWithWrongSum(database: Database): string | undefined {
  return SUMMED_TABLES.find((table) => {
    const sum = expression(coveredIn(database, table));
    return database.prepare(`SELECT 1 FROM ${table} WHERE sum IS NOT ${sum} LIMIT 1`).get() !== undefined;
  });
}

function coveredIn(database: Database, table: string): readonly string[] {
  return columnsOf(database, table).filter((name) => name !== 'sum');
}

function expression(covers: readonly string[]): string {
  return `row_sum(${covers.map((name) => `'${name}', ${name}`).join(', ')})`;
}

export function columnsOf(database: Database, table: string): readonly string[] {
  return database.prepare<[string], string>('SELECT name FROM pragma_table_info(?)').pluck().all(table);
}
